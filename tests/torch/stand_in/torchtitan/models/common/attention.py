from torch.nn import functional as F

from . import Made


class ScaledDotProductAttention:
    @staticmethod
    def Config():
        return Made(of=ScaledDotProductAttention, arguments={})

    def __call__(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
