#!/usr/bin/env python3
"""Counts what PyTorch keeps for the backward, afresh, and asks orrery for the same layers.

    python3 tests/torch/saved_bytes.py BUILD/orrery

Needs torch (CPU); with megatron-core installed, its transformer layers are counted too. Every saved
tensor is seen through torch.autograd.graph.saved_tensors_hooks and counted once a storage;
parameters are left out. A difference is a finding, not a failure: docs/internals/memory.md lists
those that are known, and the script says which they are."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

BF16 = torch.bfloat16


class Counter:
    """Bytes by storage; parameters and `external` tensors are none of the layer's."""

    def __init__(self, module, external=()):
        tensors = list(module.parameters()) + list(module.buffers()) + list(external)
        self.skipped = {t.untyped_storage().data_ptr() for t in tensors}
        self.seen = {}

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.skipped:
            self.seen[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    def bytes(self):
        return sum(size for size, _ in self.seen.values())


def count(module, *inputs, external=()):
    counter = Counter(module, external)
    with torch.autograd.graph.saved_tensors_hooks(counter.pack, lambda t: t):
        out = module(*inputs)
    return counter.bytes(), out


# ---- plain PyTorch --------------------------------------------------------------------------------

class RMSNorm(nn.Module):
    """As the Hugging Face models write it."""

    def __init__(self, h):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(h, dtype=BF16))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Llama(nn.Module):
    def __init__(self, h, heads, kv_heads, head_dim, ffn, s):
        super().__init__()
        self.shape = heads, kv_heads, head_dim
        line = lambda i, o: nn.Linear(i, o, bias=False, dtype=BF16)
        self.ln1, self.ln2 = RMSNorm(h), RMSNorm(h)
        self.q, self.k = line(h, heads * head_dim), line(h, kv_heads * head_dim)
        self.v, self.o = line(h, kv_heads * head_dim), line(heads * head_dim, h)
        self.gate, self.up, self.down = line(h, ffn), line(h, ffn), line(ffn, h)
        self.register_buffer("cos", torch.randn(s, head_dim, dtype=BF16))
        self.register_buffer("sin", torch.randn(s, head_dim, dtype=BF16))

    def forward(self, x):
        b, s, _ = x.shape
        heads, groups, d = self.shape
        y = self.ln1(x)
        q, k, v = (p(y).view(b, s, n, d).transpose(1, 2)
                   for p, n in ((self.q, heads), (self.k, groups), (self.v, groups)))
        q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups != heads)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, heads * d))
        y = self.ln2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class GPT(nn.Module):
    def __init__(self, h, heads, s):
        super().__init__()
        self.heads = heads
        line = lambda i, o: nn.Linear(i, o, dtype=BF16)
        self.ln1, self.ln2 = nn.LayerNorm(h, dtype=BF16), nn.LayerNorm(h, dtype=BF16)
        self.qkv, self.proj = line(h, 3 * h), line(h, h)
        self.fc1, self.fc2 = line(h, 4 * h), line(4 * h, h)
        self.register_buffer("mask", torch.ones(s, s, dtype=torch.bool).triu(1))

    def forward(self, x):
        s, b, h = x.shape
        d = h // self.heads
        q, k, v = self.qkv(self.ln1(x)).view(s, b * self.heads, 3 * d).transpose(0, 1).chunk(3, -1)
        scores = torch.bmm(q, k.transpose(1, 2)) / d**0.5
        probs = F.softmax(scores.masked_fill(self.mask, -10000.0), -1)
        y = torch.bmm(probs, v).transpose(0, 1).reshape(s, b, h)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Loss(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.wide = wide

    def forward(self, logits, target):
        return F.cross_entropy(logits.float() if self.wide else logits, target)


def stream(*shape):
    return torch.randn(*shape, dtype=BF16).requires_grad_()


COMMON = {"drop": 0.0, "attn_drop": 0.0, "tp": 1, "sp": False, "recompute": [],
          "torch": torch.__version__}


def llama_case(name, s, b, h, heads, kv_heads, ffn):
    d = h // heads
    layer = Llama(h, heads, kv_heads, d, ffn, s)
    total, _ = count(layer, stream(b, s, h))
    config = dict(COMMON, impl="eager", norm="rmsnorm", act="swiglu", attn="flash",
                  fused_qkv=False, rope=True, bias=False, causal=True, kind="layer", s=s, b=b, h=h,
                  heads=heads, kv_heads=kv_heads, ffn=ffn, head_dim=d)
    return name, config, total


def gpt_case(name, s, b, h, heads):
    total, _ = count(GPT(h, heads, s), stream(s, b, h))
    config = dict(COMMON, impl="eager", norm="layernorm", act="gelu", attn="unfused",
                  fused_qkv=True, rope=False, bias=True, causal=True, kind="layer", s=s, b=b, h=h,
                  heads=heads, kv_heads=heads, ffn=4 * h, head_dim=h // heads)
    return name, config, total


def loss_case(name, tokens, vocab, wide):
    total, _ = count(Loss(wide), stream(tokens, vocab), torch.randint(vocab, (tokens,)))
    return name, None, total, (4 * tokens * vocab + 8 * tokens + 4 if wide
                               else 2 * tokens * vocab + 8 * tokens + 2)


# ---- Megatron-Core --------------------------------------------------------------------------------

def megatron_case(name, s, b, h, heads, kv_heads, ffn, gated):
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer.spec_utils import build_module
    from megatron.core.transformer.transformer_config import TransformerConfig
    if not torch.cuda.is_available():  # buffers are asked for by device; there is one here
        torch.cuda.current_device = lambda: torch.device("cpu")
    if not torch.distributed.is_initialized():
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1")
        torch.distributed.init_process_group("gloo", rank=0, world_size=1)
        parallel_state.initialize_model_parallel()
        tensor_parallel.random.initialize_rng_tracker()
        # Dropout is off: the tracker's states, which live on a GPU, decide nothing.
        tracker = type(tensor_parallel.random.get_cuda_rng_tracker())
        tracker.fork = lambda self, name=None: contextlib.nullcontext()
    config = TransformerConfig(
        num_layers=1, hidden_size=h, num_attention_heads=heads, num_query_groups=kv_heads,
        ffn_hidden_size=ffn, hidden_dropout=0.0, attention_dropout=0.0, bf16=True,
        params_dtype=BF16, pipeline_dtype=BF16, use_cpu_initialization=True,
        perform_initialization=False, normalization="LayerNorm" if not gated else "RMSNorm",
        gated_linear_unit=gated, activation_func=F.silu if gated else F.gelu,
        add_bias_linear=not gated, bias_activation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, attention_softmax_in_fp32=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False, apply_rope_fusion=False)
    layer = build_module(get_gpt_layer_local_spec(normalization=config.normalization), config=config,
                         layer_number=1).to(BF16)
    mask = torch.ones(1, 1, s, s, dtype=torch.bool).triu(1)
    total, _ = count(layer, stream(s, b, h), mask, external=(mask,))
    described = dict(COMMON, impl="mcore", norm="rmsnorm" if gated else "layernorm",
                     act="swiglu" if gated else "gelu", attn="unfused", fused_qkv=True, rope=False,
                     bias=not gated, causal=True, kind="layer", s=s, b=b, h=h, heads=heads,
                     kv_heads=kv_heads, ffn=ffn, head_dim=h // heads)
    return name, described, total


# ---- comparison -----------------------------------------------------------------------------------

def projected(orrery, cases):
    """What orrery counts for each case, from the differences that its own validation prints."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"name": n, "config": c, "total_bytes": t, "modules": {}} for n, c, t in cases],
                  file)
        file.flush()
        done = subprocess.run([orrery, "validate", "--saved-bytes", file.name, "--json"],
                              capture_output=True, text=True)
    answer = json.loads(done.stdout)
    answer = answer.get("result", answer)
    return {case["name"]: case for case in answer["cases"]}


def main():
    torch.manual_seed(0)
    layers = [llama_case("llama_eager_gqa", 256, 1, 1024, 16, 4, 2816),
              llama_case("llama_eager_mha", 128, 2, 512, 8, 8, 1408),
              gpt_case("gpt_eager", 256, 2, 512, 8)]
    try:
        layers.append(megatron_case("megatron_gpt", 128, 2, 512, 8, 8, 2048, False))
        layers.append(megatron_case("megatron_llama", 128, 2, 512, 8, 2, 1408, True))
    except Exception as error:  # pylint: disable=broad-except - an optional package: say so and go on
        print("megatron-core is left out:", type(error).__name__, error)
    losses = [loss_case("cross_entropy_fp32", 512, 8192, True),
              loss_case("cross_entropy_bf16", 512, 8192, False)]
    answers = projected(sys.argv[1], layers)
    print("torch %s\n%-22s %12s %12s %12s" % (torch.__version__, "", "counted", "orrery", "differs"))
    for name, _, total in layers:
        said = answers[name]["saved_bytes"]
        print("%-22s %12d %12d %+12d" % (name, total, said, said - total))
    for name, _, total, said in losses:
        print("%-22s %12d %12d %+12d" % (name, total, said, said - total))


main()
