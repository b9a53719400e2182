"""A stand-in for CUDA graphs: records the operations of a function, and does them again.

It is as strict as they are. Replayed are the operations themselves, on the tensors that they were
recorded on: what Python would compute otherwise by then (sizes, numbers, other tensors) stays as it
was. And what a capture cannot hold, since the host would have to wait for it, is refused.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

AWAITED = {
    "_local_scalar_dense",
    "equal",
    "is_nonzero",
    "item",
    "masked_select",
    "nonzero",
    "repeat_interleave",
    "unique",
    "_unique2",
    "unique_dim",
}


class Tape(TorchDispatchMode):
    """The operations of one call, and their results."""

    def __init__(self):
        super().__init__()
        self._operations = []
        self.output = None

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        _refuse_waiting(operation, args)
        result = operation(*args, **kwargs)
        self._operations.append((operation, args, kwargs, result))
        return result

    def replay(self):
        """Do all of it again; every result goes where it was."""
        for operation, args, kwargs, result in self._operations:
            again = operation(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again)):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class TapeRecorder:
    """A :class:`~fairseq_fastdec.engine.cuda_graphs.recorders.GraphRecorder` on any device.

    Attributes:
        tapes: all that it recorded.
    """

    def __init__(self):
        self.tapes = []

    def record(self, run, beside):
        run()
        tape = Tape()
        with tape:
            tape.output = run()
        self.tapes.append(tape)
        # A capture computes nothing.
        tape.output.fill_(torch.nan)
        return tape


def given_up(graphs, problem):
    """Instead of going on without recordings, which would be right, too."""
    raise AssertionError(problem)


def _refuse_waiting(operation, args):
    name = operation._schema.name.split("::")[1]
    masks = name in ("index", "index_put", "index_put_") and any(
        isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in args[1]
    )
    if name in AWAITED or masks:
        raise RuntimeError(f"operation not permitted when stream is capturing: {name}")
