"""Peak memory of a step without a device: it runs with tensors that have shapes and no content, and
every storage is counted from its first use until it is freed.

Sizes are rounded as a device's caching allocator rounds them. What a library's kernels take for
themselves (workspaces) is not seen."""
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

ROUND = 512


class Counter(TorchDispatchMode):
    """Bytes of all storages that are alive, and the most there were."""

    def __init__(self):
        super().__init__()
        self.live, self.most, self.known = 0, 0, {}

    def forget(self, key, size):
        self.known.pop(key, None)
        self.live -= size

    def see(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.known:
            return
        size = -(-storage.nbytes() // ROUND) * ROUND
        self.known[key] = weakref.finalize(storage, self.forget, key, size)
        self.live += size
        self.most = max(self.most, self.live)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for one in tree_flatten(out)[0]:
            if isinstance(one, torch.Tensor):
                self.see(one)
        return out


def of_step(build, steps=2):
    """Bytes at the worst moment of the last of some steps. build() makes the model and what goes
    with it and returns what runs one step; it must keep no tensors of a step alive."""
    counter = Counter()
    with FakeTensorMode(allow_non_fake_inputs=True), counter:
        one = build()
        for _ in range(steps):
            counter.most = counter.live
            one()
    return counter.most
