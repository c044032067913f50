"""Blocks of TorchTitan's Llama 3 as its releases build them: from a configuration (0.3), before that
from its arguments. Attention is PyTorch's, which TorchTitan has too: its own for language models
needs masks of a batch."""
import importlib.metadata

import torch
from torch import nn


def from_config(kind, split):
    """0.3: every part has a Config that builds it."""
    from torchtitan.models import common
    from torchtitan.models.common import attention, config_utils
    from torchtitan.models.llama3.model import Llama3TransformerBlock
    init = {"weight": nn.init.ones_}
    heads, dim = kind["heads"], kind["hidden"]
    rope = common.ComplexRoPE.Config(dim=kind["head_dim"], max_seq_len=split["seq"], theta=500000)
    gqa = config_utils.make_gqa_config(
        dim=dim, n_heads=heads, n_kv_heads=kind.get("kv_heads", heads), head_dim=kind["head_dim"],
        wqkv_param_init=init, wo_param_init=init, fuse_qkv=True, rope=rope,
        inner_attention=attention.ScaledDotProductAttention.Config())
    ffn = config_utils.make_ffn_config(dim=dim, hidden_dim=kind["ffn"], w1_param_init=init,
                                       w2w3_param_init=init)
    norm = common.RMSNorm.Config(normalized_shape=dim, param_init=init)
    block = Llama3TransformerBlock.Config(attention_norm=norm, ffn_norm=norm, attention=gqa,
                                          feed_forward=ffn).build()
    return block, lambda x: block(x, None)


def from_arguments(kind, split):
    """0.1, 0.2: widths of the feed-forward are the plan's; rotations are handed in."""
    from torchtitan.models.llama3.model.args import TransformerModelArgs
    from torchtitan.models.llama3.model.model import TransformerBlock, precompute_freqs_cis
    args = TransformerModelArgs(dim=kind["hidden"], n_heads=kind["heads"], n_layers=1,
                                n_kv_heads=kind.get("kv_heads", kind["heads"]),
                                max_seq_len=split["seq"])
    block = TransformerBlock(0, args)
    for name, widths in {"w1": (kind["hidden"], kind["ffn"]), "w2": (kind["ffn"], kind["hidden"]),
                         "w3": (kind["hidden"], kind["ffn"])}.items():
        setattr(block.feed_forward, name, nn.Linear(*widths, bias=False))
    angles = precompute_freqs_cis(kind["head_dim"], split["seq"], args.rope_theta)
    return block, lambda x: block(x, angles.to(x.device), None)


class Turned(nn.Module):
    def __init__(self, block, run):
        super().__init__()
        self.block, self.run = block, run
        with torch.no_grad():
            for p in block.parameters():
                p.normal_(std=0.02) if p.dim() > 1 else p.fill_(1)

    def to(self, device, dtype):
        """Parameters alone change their type: rotations are complex numbers."""
        self.block.to(device)
        for p in self.block.parameters():
            p.data = p.data.to(dtype)
        return self

    def forward(self, x):
        return self.run(x)


def layer(kind, split):
    if kind.get("experts") or split["tp"] * split["cp"] * split["ep"] > 1:
        raise NotImplementedError("of TorchTitan dense blocks are measured that are not split")
    if not kind.get("gated"):
        raise NotImplementedError("TorchTitan's blocks of Llama have a gated feed-forward")
    try:
        version = importlib.metadata.version("torchtitan")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    why = []
    for build in (from_config, from_arguments):
        try:
            return Turned(*build(kind, split))
        except (ImportError, AttributeError, TypeError) as error:
            why.append(str(error))
    if not version and "torchtitan'" in why[0]:
        raise ImportError("TorchTitan is not installed for this Python (pip install torchtitan)")
    raise ImportError(f"TorchTitan {version} builds its blocks in another way than is known: "
                      f"{why[0]}")
