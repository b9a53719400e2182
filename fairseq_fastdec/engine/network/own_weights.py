"""A model's own weights: kept beside what the engine prepares of them, or released."""

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from torch import nn

from ...mapped_checkpoints import read_weight
from ...memory import large_pieces_apart, trim


class ReleasedWeights(ValueError):
    """Somebody needs weights that were released; the message names the option that keeps them."""

    def __init__(self) -> None:
        super().__init__(
            "--keep-model: not given, so the model's own weights were released when the engine had "
            "prepared them for its precision, and nothing else can be computed; give --keep-model"
        )


class OwnWeights:
    """Lets go of the weights of linear layers that may be released, once they are prepared.

    A released weight has the shape ``[0]``. Modules that would compute with it raise
    :class:`ReleasedWeights`, and so does their ``state_dict``.

    Attributes:
        n_released: the number of weights that have been released.
    """

    def __init__(self) -> None:
        self._may_go: weakref.WeakSet[nn.Linear] = weakref.WeakSet()
        self._closed: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self.n_released = 0

    def may_release(self, linears: Iterable[nn.Linear]) -> None:
        """Permit it for these layers; all others are kept."""
        self._may_go.update(linears)

    @contextlib.contextmanager
    def reading(self, owner: nn.Module, linears: Sequence[nn.Linear]) -> Iterator[None]:
        """Within, the engine prepares its copies of some weights; then they are released.

        Args:
            owner: the module that computes with them in fairseq's own decoding.

        Raises:
            ReleasedWeights: if one of them was released before.
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
            # Freed pieces of one layer are seldom of use for the next.
            trim()

    def _close(self, owner: nn.Module) -> None:
        if owner not in self._closed:
            self._closed.add(owner)
            # Before all others: a call that is refused changes no parameter.
            owner.register_forward_pre_hook(_refuse, prepend=True)
            owner.register_state_dict_pre_hook(_refuse)


def _refuse(*_: object) -> NoReturn:
    raise ReleasedWeights
