"""Stands in for TorchTitan 0.3 where it is not installed: as much of its interface as the probe
uses, with layers of PyTorch."""
import dataclasses

from torch import nn


@dataclasses.dataclass(kw_only=True)
class Made:
    """A configuration that builds `of`."""
    of: object
    arguments: dict

    def build(self):
        return self.of(**self.arguments)


class RMSNorm(nn.RMSNorm):
    @staticmethod
    def Config(*, normalized_shape, param_init):
        return Made(of=RMSNorm, arguments={"normalized_shape": normalized_shape})


class ComplexRoPE:
    @staticmethod
    def Config(*, dim, max_seq_len, theta):
        return Made(of=dict, arguments={"dim": dim, "max_seq_len": max_seq_len, "theta": theta})
