import torch
from torch import nn
from torch.nn import functional as F

from . import Made


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads, head_dim, inner, rope):
        super().__init__()
        self.split = [heads, kv_heads, kv_heads]
        self.head_dim, self.inner = head_dim, inner.build()
        self.wqkv = nn.Linear(dim, sum(self.split) * head_dim, bias=False)
        self.wo = nn.Linear(heads * head_dim, dim, bias=False)
        self.register_buffer("cache", torch.zeros(rope.arguments["max_seq_len"], head_dim // 2,
                                                  dtype=torch.complex64))

    def forward(self, x, masks, positions=None):
        if not self.cache.is_complex():
            raise TypeError("rotations are complex numbers")
        batch, seq, _ = x.shape
        heads = self.wqkv(x).view(batch, seq, -1, self.head_dim).transpose(1, 2)
        out = self.inner(*heads.split(self.split, 1))
        return self.wo(out.transpose(1, 2).reshape(batch, seq, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(dim, hidden_dim, bias=False) for _ in range(2))
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


def make_gqa_config(*, dim, n_heads, n_kv_heads, head_dim, wqkv_param_init, wo_param_init, fuse_qkv,
                    rope, inner_attention):
    return Made(of=Attention, arguments={"dim": dim, "heads": n_heads, "kv_heads": n_kv_heads,
                                         "head_dim": head_dim, "inner": inner_attention,
                                         "rope": rope})


def make_ffn_config(*, dim, hidden_dim, w1_param_init, w2w3_param_init):
    return Made(of=FeedForward, arguments={"dim": dim, "hidden_dim": hidden_dim})
