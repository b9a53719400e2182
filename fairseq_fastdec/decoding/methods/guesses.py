"""Guesses: the tokens at positions that the model has not answered yet (``--guess``).

Santilli et al. 2023 begin with padding (section 3.3) and leave other initial values to future work.
A wrong guess costs an iteration and never changes the output.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from ..option_rules import option
from .outputs import OutputBatch

if TYPE_CHECKING:
    from ..options import DecodingOptions

GUESSING = ("jacobi", "gs_jacobi", "hybrid_jacobi", "lookahead")
GUESS_CHOICES = ChoiceEnum(["pad", "copy", "previous", "ngram", "source"])
NGRAM_POOL_CHOICES = ChoiceEnum(["sentence", "run"])

# Not a token of any output, so that an n-gram at the beginning of an output matches no other.
BEFORE_FIRST = -1
# When a pool has more new contexts than this, the old ones are dropped.
POOL_SIZE = 500_000


@dataclass
class GuessOptions:
    """``--guess`` and the options of its values."""

    guess: Optional[GUESS_CHOICES] = option(
        None,
        "Jacobi methods and lookahead: the initial value of a position: pad = PAD (as in the "
        "paper; default of the Jacobi methods), copy = the source token at that position, previous "
        "= a repetition of the preceding tokens, ngram = what followed the last tokens earlier in "
        "the outputs (default of lookahead), source = what follows the last tokens in the source",
        methods=GUESSING,
    )
    ngram_order: int = option(
        4,
        "--guess ngram, source: the longest n-grams to look up",
        methods=(*GUESSING, "auto"),
        at_least=2,
        at_most=(64, "each token is looked up and stored for all shorter contexts"),
        needs=("guess", ("ngram", "source")),
    )
    ngram_pool: NGRAM_POOL_CHOICES = option(
        "run",
        "--guess ngram: search the sentence so far, or all outputs of the run",
        methods=(*GUESSING, "auto"),
        needs=("guess", ("ngram",)),
    )


class Guesses:
    """PAD, the paper's initialisation (section 3.3), and the base class of other guesses."""

    def begin(self, batch: OutputBatch) -> None:
        """Prepare for a new batch, in which no output is finished."""

    def fill(
        self, batch: OutputBatch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        """Guess the next N tokens of each row.

        Args:
            kept: int64 ``[R, N]``, the answers of the last iteration, which serve as guesses:
                ``n_kept`` int64 ``[R]`` of them, followed by PAD.
            certain: int64 ``[R]``, the next token of each row, not appended yet. The guesses follow
                it (default: they follow the row).

        Returns:
            int64 ``[R, N]``
        """
        return kept

    def learn(self, batch: OutputBatch, tokens: Tensor, n: Tensor) -> None:
        """Learn the next tokens of each row: the first n int64 ``[R]`` of ``[R, T]``."""


class GuessesFromSource(Guesses):
    """The source token at the same position."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self._dictionaries = source, target

    def begin(self, batch: OutputBatch) -> None:
        self._sources = sources_as_targets(batch, *self._dictionaries)

    def fill(
        self, batch: OutputBatch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        sources = self._sources[batch.sentence]
        offsets = torch.arange(kept.size(1), device=kept.device)
        places = batch.lengths[:, None] + offsets + (certain is not None)
        copied = sources.gather(1, places.clamp(max=sources.size(1) - 1))
        is_guessed = (offsets >= n_kept[:, None]) & (places < sources.size(1))
        return torch.where(is_guessed, copied, kept)


class GuessesFromTail(Guesses):
    """The last N tokens again."""

    def __init__(self, pad: int) -> None:
        self._pad = pad

    def fill(
        self, batch: OutputBatch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        n = kept.size(1)
        previous = batch.tail(n, self._pad)
        if certain is not None:
            previous = torch.cat([previous, certain[:, None]], dim=1)[:, 1:]
        return torch.where(torch.arange(n, device=kept.device) >= n_kept[:, None], previous, kept)


class GuessesFromNgrams(Guesses):
    """The token that last followed the tokens before it, in the outputs so far."""

    def __init__(self, order: int, eos: int, of_run: bool, replaces_answers: bool) -> None:
        """
        Args:
            order: n of the longest n-gram; its first n - 1 tokens are looked up, then fewer.
            of_run: search all outputs of the run instead of the sentence's.
            replaces_answers: look up every position, not only those without an answer. An n-gram is
                right more often than an answer to a wrong token.
        """
        self._order, self._eos = order, eos
        self._of_run, self._replaces_answers = of_run, replaces_answers
        self._pool = NgramPool()

    def begin(self, batch: OutputBatch) -> None:
        if not self._of_run:
            self._pool = NgramPool()
        batch.look_every = 1  # the outputs are read in each step
        # The last tokens of each unfinished sentence.
        tails = batch.tail(self._order - 1, BEFORE_FIRST).tolist()
        self._contexts = dict(zip(batch.sentence.tolist(), tails))
        self._remembers = True

    def fill(
        self, batch: OutputBatch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        guesses = []
        for sentence, own, n in zip(batch.sentence.tolist(), kept.tolist(), n_kept.tolist()):
            path = list(self._contexts[sentence])
            for place, answer in enumerate(own):
                is_guessed = self._replaces_answers or place >= n
                successor = self._successor(sentence, path) if is_guessed else None
                path.append(answer if successor is None else successor)
            guesses.append(path[self._order - 1 :])
        return kept.new_tensor(guesses).view(kept.shape)

    def learn(self, batch: OutputBatch, tokens: Tensor, n: Tensor) -> None:
        for sentence, own, count in zip(batch.sentence.tolist(), tokens.tolist(), n.tolist()):
            for token in own[:count]:
                context = self._contexts[sentence]
                for key in self._keys(sentence, context) if self._remembers else ():
                    self._pool.put(key, token)
                self._contexts[sentence] = [*context[1:], token]
                if token == self._eos:
                    break

    def _successor(self, sentence: int, path: list[int]) -> Optional[int]:
        """The token that followed the longest context in the pool."""
        found = (self._pool.get(key) for key in self._keys(sentence, path))
        return next((token for token in found if token is not None), None)

    def _keys(self, sentence: int, path: list[int]) -> list[tuple[int, ...]]:
        """The contexts at the end of a path, longest first, with the sentence that owns them."""
        owner = -1 if self._of_run else sentence
        return [(owner, *path[-size:]) for size in range(self._order - 1, 0, -1)]


class GuessesFromSourceNgrams(GuessesFromNgrams):
    """The token that follows the last tokens in the source: for names, numbers and code."""

    def __init__(
        self, order: int, source: Dictionary, target: Dictionary, eos: int, replaces_answers: bool
    ) -> None:
        super().__init__(order, eos, False, replaces_answers)
        self._dictionaries = source, target

    def begin(self, batch: OutputBatch) -> None:
        super().begin(batch)
        contexts = self._contexts
        self._contexts = {sentence: [BEFORE_FIRST] * (self._order - 1) for sentence in contexts}
        sources = sources_as_targets(batch, *self._dictionaries)[batch.sentence]
        self.learn(batch, sources, batch.request.sources.lengths[batch.sentence])
        self._contexts, self._remembers = contexts, False


class NgramPool:
    """The latest successor of each context. Contexts that were not written recently are dropped."""

    def __init__(self) -> None:
        self._young: dict[tuple[int, ...], int] = {}
        self._old: dict[tuple[int, ...], int] = {}

    def put(self, context: tuple[int, ...], token: int) -> None:
        """Store the successor of a context."""
        self._young[context] = token
        if len(self._young) > POOL_SIZE:
            self._young, self._old = {}, self._young

    def get(self, context: tuple[int, ...]) -> Optional[int]:
        """The latest successor, or ``None``."""
        return self._young.get(context, self._old.get(context))


def sources_as_targets(batch: OutputBatch, source: Dictionary, target: Dictionary) -> Tensor:
    """The sources as target tokens, int64 ``[B, S]``, padded on the right.

    Symbols that the target dictionary lacks become PAD.
    """
    table = target_types(source, target)
    tokens = batch.request.sources.content
    padding_last = tokens.eq(source.pad()).long().argsort(dim=1, stable=True)
    return table.to(tokens.device)[tokens.gather(1, padding_last)]


def target_types(source: Dictionary, target: Dictionary) -> Tensor:
    """For each source type the target type with the same symbol, or PAD: int64 ``[V_source]``."""
    indices = torch.tensor([target.index(symbol) for symbol in source.symbols])
    return indices.masked_fill(indices.eq(target.unk()), target.pad())


def guesses_of(
    options: "DecodingOptions",
    source: Optional[Dictionary],
    target: Dictionary,
    eos: int,
    replaces_answers: bool,
) -> tuple[Guesses, dict[str, Any]]:
    """The guesses of ``--guess``.

    Args:
        source: ``None`` if sources are not tokens of a dictionary.
        replaces_answers: as for :class:`GuessesFromNgrams`.

    Returns:
        the guesses in torch, and the options of compiled code

    Raises:
        ValueError: for guesses copied from sources that are not tokens.
    """
    name, order = options.guess_name, options.ngram_order
    arguments: dict[str, Any] = {"guess": name, "replaces_answers": replaces_answers}
    if name in ("ngram", "source"):
        arguments["ngram_order"] = order
    if name in ("copy", "source"):
        if source is None:
            raise ValueError(
                f"--guess {name}: the model's sources are not tokens of a dictionary; use another "
                "guess"
            )
        arguments["target_types"] = target_types(source, target).tolist()
    guess = Guesses()
    if name == "copy":
        guess = GuessesFromSource(source, target)
    elif name == "previous":
        guess = GuessesFromTail(target.pad())
    elif name == "ngram":
        arguments["ngram_pool"] = pool = str(options.ngram_pool)
        guess = GuessesFromNgrams(order, eos, pool == "run", replaces_answers)
    elif name == "source":
        guess = GuessesFromSourceNgrams(order, source, target, eos, replaces_answers)
    return guess, arguments
