"""Transformer layers in plain PyTorch, of the shapes that `orrery measure --dry-run` lists."""
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Gather(torch.autograd.Function):
    """Identity forward, sum over the group backward: before a column-parallel linear."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class Reduce(torch.autograd.Function):
    """Sum over the group forward, identity backward: after a row-parallel linear."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def rotary(x, base=10000.0):
    half = x.shape[-1] // 2
    at = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    turn = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = at[:, None] * turn[None, :]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Block(nn.Module):
    """One layer; `kind` is an entry of scope.layers, widths are those of the whole model."""

    def __init__(self, kind, tp=1):
        super().__init__()
        self.tp, h = tp, kind["hidden"]
        self.heads = kind["heads"] // tp
        self.kv_heads = max(1, kind.get("kv_heads", kind["heads"]) // tp)
        self.dim, self.v_dim = kind["head_dim"], kind.get("v_dim", kind["head_dim"])
        self.norm1, self.norm2 = nn.RMSNorm(h), nn.RMSNorm(h)
        width = (self.heads + self.kv_heads) * self.dim + self.kv_heads * self.v_dim
        self.qkv = nn.Linear(h, width, bias=False)
        self.proj = nn.Linear(self.heads * self.v_dim, h, bias=False)
        self.gated = bool(kind.get("gated", 0))
        self.experts = kind.get("experts", 0)
        if self.experts:
            self.topk, inner = kind["topk"], kind["expert_ffn"]
            self.router = nn.Linear(h, self.experts, bias=False)
            up = 2 * inner if self.gated else inner
            self.up = nn.Parameter(torch.randn(self.experts, up, h) * h ** -0.5)
            self.down = nn.Parameter(torch.randn(self.experts, h, inner) * inner ** -0.5)
        else:
            inner = kind["ffn"] // tp
            self.fc1 = nn.Linear(h, 2 * inner if self.gated else inner, bias=False)
            self.fc2 = nn.Linear(inner, h, bias=False)

    def enter(self, x):
        return Gather.apply(x) if self.tp > 1 else x

    def leave(self, x):
        return Reduce.apply(x) if self.tp > 1 else x

    def attend(self, x):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(x).split((self.heads * self.dim, self.kv_heads * self.dim,
                                     self.kv_heads * self.v_dim), -1)
        q = rotary(q.view(batch, seq, self.heads, self.dim).transpose(1, 2))
        k = rotary(k.view(batch, seq, self.kv_heads, self.dim).transpose(1, 2))
        v = v.view(batch, seq, self.kv_heads, self.v_dim).transpose(1, 2)
        if self.kv_heads != self.heads:
            share = self.heads // self.kv_heads
            k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(batch, seq, -1))

    def activate(self, x):
        if not self.gated:
            return F.gelu(x)
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    def route(self, x):
        """Balanced by force: token t goes to experts t, t+1, ..., so that each has as many."""
        shape, flat = x.shape, x.reshape(-1, x.shape[-1])
        weight = torch.softmax(self.router(flat), -1)
        tokens = torch.arange(flat.shape[0], device=x.device)
        out = torch.zeros_like(flat)
        for e in range(self.experts):
            own = tokens[((e - tokens) % self.experts) < self.topk]
            done = self.activate(flat[own] @ self.up[e].t()) @ self.down[e].t()
            out = out.index_add(0, own, done * weight[own, e:e + 1])
        return out.view(shape)

    def forward(self, x):
        x = x + self.leave(self.attend(self.enter(self.norm1(x))))
        y = self.enter(self.norm2(x))
        return x + (self.route(y) if self.experts else self.leave(
            self.fc2(self.activate(self.fc1(y)))))


class Model(nn.Module):
    """Embedding, layers, head and loss."""

    def __init__(self, kinds, counts, vocab, tp=1):
        super().__init__()
        h = kinds[0]["hidden"]
        self.embedding = nn.Embedding(vocab, h)
        self.blocks = nn.ModuleList(Block(k, tp) for k, n in zip(kinds, counts) for _ in range(n))
        self.norm = nn.RMSNorm(h)
        self.head = nn.Linear(h, vocab, bias=False)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
