"""The best next token of each state: output layer, softmax and choice, by compiled code."""

import ctypes
from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import loading, problems, structures
from .loading import Library
from .packed import Packed
from .scratch import Scratch

# CHUNK_OUTPUTS of cpp/best_token.h.
CHUNK_OUTPUTS = 256


class BestToken:
    """Computes no logit twice and keeps none. For one thread at a time.

    A result depends neither on the other states of a call nor on the number of threads.

    Attributes:
        structure: as compiled code takes it, for the layer that was bound.
    """

    def __init__(
        self,
        library: Library,
        never: Sequence[int],
        eos: int,
        unk: int,
        penalty: float,
        temperature: float,
    ) -> None:
        """
        Args:
            never: types that are not possible.
            penalty: what ``unk`` loses after the softmax.
            temperature: divides the logits.
        """
        self._library = library
        self._types_of_options = (tuple(never), eos, unk)
        self.structure = structures.BestToken(
            threads=library.address_of_threads(), penalty=penalty, temperature=temperature
        )
        self._scratch = Scratch(
            self.structure, library.best_tokens, library.best_token_scratch_size
        )
        self._address = ctypes.addressof(self.structure)
        self._has_penalty = penalty != 0
        self._layer: Optional[Packed] = None
        # What the task was prepared for by the last call, if that was :meth:`prepared`.
        self._prepared_for: Optional[Tuple[int, ...]] = None
        self._types: Optional[Tensor] = None

    @classmethod
    def of(
        cls, never: Sequence[int], eos: int, unk: int, penalty: float, temperature: float = 1.0
    ) -> Optional["BestToken"]:
        """Arguments as those of the class; ``None`` where nothing was compiled."""
        library = loading.library()
        if library is None:
            return None
        return cls(library, never, eos, unk, penalty, temperature)

    def __call__(
        self,
        states: Tensor,
        layer: Packed,
        types: Optional[Tensor] = None,
        no_end: Optional[Tensor] = None,
        only_end: Optional[Tensor] = None,
        forbidden: Optional[Tensor] = None,
        normalize: bool = True,
    ) -> Tuple[Tensor, Tensor]:
        """
        Args:
            states: fp32 ``[..., C]`` on a CPU.
            layer: the output layer, from C numbers to K logits.
            types: int64 ``[K]``, ascending, the types that its outputs stand for; EOS is among
                them (default: all types, by their numbers).
            no_end: bool, one for each state: whether EOS is not possible (default: it is).
            only_end: bool, one for each state: whether EOS alone is possible; then it has a
                finite score even where the layer gives NaN (default: all are).
            forbidden: int64 ``[..., M]``, types that are not possible (default: none besides those
                that never are).
            normalize: scores are log-probabilities, and not logits.

        Returns:
            scores fp32 ``[...]`` and types int64 ``[...]``, among equals the smallest. A score of
            ``-inf`` means that no token is possible.

        Raises:
            IndexError: if EOS or ``unk`` is none of the types.
            ValueError: for tensors of other sizes or dtypes.
        """
        shape = states.shape[:-1]
        self.bind(layer, types)
        states = states.contiguous()
        n = states.numel() // states.size(-1)
        scores = states.new_empty(shape)
        tokens = torch.empty(shape, dtype=torch.long)
        self.choose_at(
            problems.address(states, n * self.structure.linear.inputs, "states", torch.float32),
            n,
            scores.data_ptr(),
            tokens.data_ptr(),
            problems.flags(no_end, n, "no_end"),
            problems.flags(only_end, n, "only_end"),
            forbidden=None if forbidden is None else forbidden.reshape(n, -1),
            normalize=normalize,
        )
        return scores, tokens

    def bind(self, layer: Packed, types: Optional[Tensor] = None) -> None:
        """Say which output layer the next calls of :meth:`choose_at` are about; as in a call."""
        if layer is not self._layer or types is not self._types:
            self._take_layer(layer, types)

    def choose_at(
        self,
        states: int,
        n: int,
        scores: int,
        tokens: int,
        no_end: Optional[int] = None,
        only_end: Optional[int] = None,
        asked: Optional[int] = None,
        asked_scores: Optional[int] = None,
        forbidden: Optional[Tensor] = None,
        normalize: bool = True,
    ) -> None:
        """A call between places in memory, for callers that keep theirs.

        Args:
            states, no_end, only_end, scores, tokens: the addresses of what a call takes and
                returns for n states. Who calls this answers for their sizes.
            asked, asked_scores: of int64 ``[n]`` and float32 ``[n]``: another token of each state,
                or -1, and where its score goes, ``-inf`` if it is not possible.
            forbidden: int64 ``[n, M]``, as in a call.
        """
        task, self._prepared_for = self.structure, None
        task.n, task.n_threads, task.normalize = n, self._library.n_threads, normalize
        task.x, task.scores, task.tokens = states, scores, tokens
        task.no_end, task.only_end = no_end, only_end
        task.asked, task.asked_scores = asked, asked_scores
        task.forbidden, task.n_forbidden = None, 0
        if forbidden is not None:
            task.n_forbidden = forbidden.numel() // n
            task.forbidden = problems.address(forbidden, n * task.n_forbidden, "forbidden types")
        self._scratch.run()

    def prepared(self, states: int, n: int, scores: int, tokens: int) -> int:
        """Prepare the task of the layer that was bound, for compiled code that runs it itself.

        Args:
            states, scores, tokens: as for :meth:`choose_at`; scores are logits.

        Returns:
            the address of the task, which has enough scratch memory
        """
        wanted = (states, n, scores, tokens, self._library.n_threads)
        if wanted != self._prepared_for:
            task = self.structure
            task.x, task.n, task.scores, task.tokens, task.n_threads = wanted
            task.normalize = task.n_forbidden = 0
            task.asked = task.asked_scores = task.forbidden = None
            self._scratch.reserve()
            self._prepared_for = wanted
        return self._address

    def _take_layer(self, layer: Packed, types: Optional[Tensor]) -> None:
        never, eos, unk = self._types_of_options
        task = self.structure
        task.linear = layer.structure
        task.types = None
        if types is not None:
            task.types = problems.address(types, task.linear.outputs, "types")
            places = {int(kind): place for place, kind in enumerate(types.tolist())}
            never = tuple(places[kind] for kind in never if kind in places)
            eos, unk = places.get(eos, -1), places.get(unk, -1)
        self._never = (ctypes.c_int64 * len(never))(*never)
        task.never, task.n_never = ctypes.addressof(self._never), len(never)
        task.eos = eos
        task.penalized = unk if self._has_penalty else -1
        self._layer, self._types, self._prepared_for = layer, types, None
