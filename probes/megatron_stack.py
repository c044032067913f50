"""Layers and models of megatron.core, on CUDA with Transformer Engine or on the CPU without."""
import torch
import torch.nn.functional as F
from torch import nn


def start(split):
    """Its process groups; torch.distributed must be there."""
    from megatron.core import parallel_state, tensor_parallel
    if not parallel_state.is_initialized():
        parallel_state.initialize_model_parallel(tensor_model_parallel_size=split["tp"],
                                                 context_parallel_size=split.get("cp", 1),
                                                 expert_model_parallel_size=split.get("ep", 1))
        if torch.cuda.is_available():
            tensor_parallel.model_parallel_cuda_manual_seed(1)


def config_of(kind, split, dtype):
    from megatron.core.transformer.transformer_config import TransformerConfig
    gpu = torch.cuda.is_available()
    return TransformerConfig(
        num_layers=1, hidden_size=kind["hidden"], num_attention_heads=kind["heads"],
        num_query_groups=kind.get("kv_heads", kind["heads"]), kv_channels=kind["head_dim"],
        ffn_hidden_size=kind.get("ffn") or kind["expert_ffn"],
        gated_linear_unit=bool(kind.get("gated", 0)),
        activation_func=F.silu if kind.get("gated") else F.gelu,
        num_moe_experts=kind.get("experts"), moe_router_topk=kind.get("topk", 2),
        moe_ffn_hidden_size=kind.get("expert_ffn"), add_bias_linear=False,
        hidden_dropout=0.0, attention_dropout=0.0, bf16=dtype == torch.bfloat16,
        params_dtype=dtype, normalization="RMSNorm", use_cpu_initialization=not gpu,
        persist_layer_norm=False, bias_dropout_fusion=gpu, masked_softmax_fusion=gpu,
        gradient_accumulation_fusion=False, tensor_model_parallel_size=split["tp"],
        expert_model_parallel_size=split.get("ep", 1), sequence_parallel=bool(split.get("sp")))


class Attention(nn.Module):
    """In place of the core attention that needs a GPU: PyTorch's own, for CPU layers."""

    def __init__(self, config, **_):
        super().__init__()
        self.share = config.num_attention_heads // config.num_query_groups

    def forward(self, query, key, value, *_, **__):
        q, k, v = (t.permute(1, 2, 0, 3) for t in (query, key, value))  # from [seq, batch, ...]
        k, v = k.repeat_interleave(self.share, 1), v.repeat_interleave(self.share, 1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True).permute(2, 0, 1, 3)
        return out.reshape(*out.shape[:2], -1)


class Turned(nn.Module):
    """Megatron's sequence comes first."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x.transpose(0, 1).contiguous(), attention_mask=None)[0].transpose(0, 1)


def layer(kind, split, dtype=torch.bfloat16):
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.transformer.spec_utils import build_module
    start(split)
    experts = {"num_experts": kind.get("experts")}
    try:
        spec = gpt_layer_specs.get_gpt_layer_with_transformer_engine_spec(**experts)
        return Turned(build_module(spec, config=config_of(kind, split, dtype)))
    except (ImportError, AssertionError, NameError, TypeError, RuntimeError):
        spec = gpt_layer_specs.get_gpt_layer_local_spec(**experts, normalization="RMSNorm")
    if not torch.cuda.is_available():
        spec.submodules.self_attention.submodules.core_attention = Attention
    return Turned(build_module(spec, config=config_of(kind, split, dtype)))


class Model(nn.Module):
    """Embedding, layers, head and loss, split by tensor parallelism."""

    def __init__(self, kinds, counts, vocab, split, dtype=torch.float32):
        super().__init__()
        from megatron.core import tensor_parallel
        start(split)
        config, h = config_of(kinds[0], split, dtype), kinds[0]["hidden"]

        def init(weight):
            return nn.init.normal_(weight, std=0.02)

        self.embedding = tensor_parallel.VocabParallelEmbedding(vocab, h, init_method=init,
                                                                config=config)
        self.blocks = nn.ModuleList(layer(k, split, dtype)
                                    for k, n in zip(kinds, counts) for _ in range(n))
        self.norm = nn.RMSNorm(h)
        self.head = tensor_parallel.ColumnParallelLinear(h, vocab, config=config, init_method=init,
                                                         bias=False, gather_output=False)
        self.loss = tensor_parallel.vocab_parallel_cross_entropy

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        logits, _ = self.head(self.norm(x))
        return self.loss(logits.float(), targets).mean()
