"""Keeps or releases the weights of a model after the engine has prepared its copies."""

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from torch import nn

from ..fairseq_patches.mapped_checkpoints import read_weight
from ..processes.memory import large_pieces_apart, trim


class ReleasedWeights(ValueError):
    """Released weights are needed; the message names the option that keeps them."""

    def __init__(self) -> None:
        super().__init__(
            "--keep-model: not given, so the model's weights were released once the engine had "
            "prepared its copies, and only the engine can compute with it; give --keep-model"
        )


class OwnWeights:
    """Releases the weights of permitted linear layers once the engine has prepared them.

    A released weight has the shape ``[0]``. The forward pass and ``state_dict`` of its module raise
    :class:`ReleasedWeights`.

    Attributes:
        n_released: the number of released weights.
    """

    def __init__(self) -> None:
        self._may_go: weakref.WeakSet[nn.Linear] = weakref.WeakSet()
        self._closed: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self.n_released = 0

    def may_release(self, linears: Iterable[nn.Linear]) -> None:
        """Permit to release the weights of these layers; all others are kept."""
        self._may_go.update(linears)

    @contextlib.contextmanager
    def reading(self, owner: nn.Module, linears: Sequence[nn.Linear]) -> Iterator[None]:
        """A context for preparing copies of weights; on exit, permitted weights are released.

        Args:
            owner: the module whose forward pass uses the weights.

        Raises:
            ReleasedWeights: if one of them has already been released.
        """
        if any(linear.weight.dim() != 2 for linear in linears):
            raise ReleasedWeights
        with large_pieces_apart():
            for linear in linears:
                read_weight(linear.weight)
            yield
        for linear in linears:
            if linear in self._may_go:
                linear.weight.data = linear.weight.data.new_empty(0)
                self.n_released += 1
                self._close(owner)
        if any(linear in self._may_go for linear in linears):
            # The memory of one layer can rarely be reused for the next.
            trim()

    def _close(self, owner: nn.Module) -> None:
        if owner not in self._closed:
            self._closed.add(owner)
            # First of all hooks, so that a rejected call has no effect.
            owner.register_forward_pre_hook(_refuse, prepend=True)
            owner.register_state_dict_pre_hook(_refuse)


def _refuse(*_: object) -> NoReturn:
    raise ReleasedWeights
