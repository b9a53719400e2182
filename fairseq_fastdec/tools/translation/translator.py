"""From lines of text to translations, with the models, tokeniser and BPE of a command line.

Lines are translated as by fairseq-interactive, except that an empty line stays empty.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import (
    Any,
    NamedTuple,
    Optional,
    Union,
)

from fairseq import tasks, utils
from torch import Tensor

from ...data.batches import batches_of
from ...data.codec import TextCodec
from ...results import Problem
from ...translator import SourceLimit, decoded, stripped_by
from ..corpus import load_models, on_device


class ScoredTokens(NamedTuple):
    """The part of fairseq's hypotheses that becomes text.

    Attributes:
        tokens: int64 ``[m]``.
        score: of base e.
    """

    tokens: Tensor
    score: Any


class TextHypothesis(NamedTuple):
    """One translation of a line.

    Attributes:
        text: for people: subwords joined, detokenised.
        score: as fairseq prints it: of base 2.
        n_tokens: subwords, without EOS.
    """

    text: str
    score: float
    n_tokens: int


class Outcome(NamedTuple):
    """The translations of a line.

    Attributes:
        n_source_tokens: subwords, without EOS.
        hypotheses: best first, ``--nbest`` of them; one for an empty line.
    """

    n_source_tokens: int
    hypotheses: list[TextHypothesis]


LineResult = Union[Outcome, Problem]
# A model makes up a translation of nothing.
EMPTY_LINE = Outcome(0, [TextHypothesis("", 0.0, 0)])


class LineTranslator:
    """Loads the models of a command line once, and then translates what it is given."""

    def __init__(self, cfg: Any) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.

        Raises:
            OSError: if a checkpoint cannot be read.
            ValueError: for an option that the method cannot honour.
        """
        utils.import_user_module(cfg.common)
        self._cfg = cfg
        self.task = tasks.setup_task(cfg.task)
        self._models = load_models(cfg, self.task)
        # A generator that samples takes one of torch's random numbers with it.
        utils.set_torch_seed(cfg.common.seed)
        self._generator = self.task.build_generator(self._models, cfg.generation)
        self._max_positions = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self._models)
        )
        # To look a value up in the configuration takes longer than what is done with it for a line.
        self._limit = SourceLimit.of(self._max_positions, cfg.dataset.max_tokens)
        self._nbest = cfg.generation.nbest
        self._stripped = stripped_by(self._generator)
        self._codec = TextCodec.of_command_line(cfg, self.task)

    def prepare(self) -> None:
        """Have the engine prepare the weights, for processes that are forked from this one.

        Raises:
            ValueError: if the command line's tokeniser or BPE takes nothing.
        """
        (result,) = self.translate(["a"], seed=0)
        if isinstance(result, Problem):
            raise ValueError(
                f"--tokenizer, --bpe: the line 'a' cannot be translated: {result.details}"
            )

    def translate(
        self,
        texts: Sequence[str],
        seed: int,
        progress: Callable[[int], Any] = lambda n: None,
    ) -> list[LineResult]:
        """Translate lines.

        Args:
            texts: lines; white space around them does not count. An empty line stays empty.
            seed: of what is drawn at random. The same lines with the same seed give the same.
            progress: told how many lines are done, as they are.

        Returns:
            the result of each line, in their order.
        """
        utils.set_torch_seed(seed)
        stripped = [text.strip() for text in texts]
        encoded = self._codec.encode(stripped)
        results: list[Optional[LineResult]] = [
            (of_line if isinstance(of_line, Problem) else self._limit.problem(of_line))
            if text
            else EMPTY_LINE
            for text, of_line in zip(stripped, encoded)
        ]
        numbers = [number for number, problem in enumerate(results) if problem is None]
        tokens = [encoded[number] for number in numbers]
        progress(len(texts) - len(numbers))
        found = self._decoded(tokens, progress)
        decoded = {place: best for place, best in found.items() if not isinstance(best, Problem)}
        for place, hypotheses in zip(decoded, self._as_text(decoded.values())):
            results[numbers[place]] = Outcome(len(tokens[place]) - 1, hypotheses)
        for place in found.keys() - decoded.keys():
            results[numbers[place]] = found[place]
        self._codec.forget_words()
        return [result or Problem("not translated", "the task left it out") for result in results]

    def _decoded(
        self, tokens: list[Tensor], progress: Callable[[int], Any]
    ) -> dict[int, Union[list[ScoredTokens], Problem]]:
        """The hypotheses of each place in the list, best first, as many as ``--nbest`` says.

        All batches are made before the first is decoded, and text is made after the last: what
        takes turns with decoding finds the processor's caches full of the model.
        """
        found: dict[int, Union[list[ScoredTokens], Problem]] = {}
        for batch in self._batches(tokens):
            batch = on_device(batch, self._cfg)
            for place, of_line in decoded(self.task, self._generator, self._models, batch):
                found[place] = of_line
                if not isinstance(of_line, Problem):
                    best = of_line[: self._nbest]
                    found[place] = [ScoredTokens(hypo["tokens"], hypo["score"]) for hypo in best]
            progress(batch["nsentences"])
        return found

    def _batches(self, tokens: list[Tensor]) -> list[dict[str, Any]]:
        if not tokens:
            return []
        data, seed = self._cfg.dataset, self._cfg.common.seed
        return list(batches_of(self.task, tokens, data, self._max_positions, seed))

    def _as_text(self, found: Collection[list[ScoredTokens]]) -> Iterator[list[TextHypothesis]]:
        texts = iter(
            self._codec.decode([hypo.tokens for best in found for hypo in best], self._stripped)
        )
        for best in found:
            yield [
                TextHypothesis(text, float(hypo.score) / math.log(2), n_tokens)
                for hypo, (text, n_tokens) in zip(best, texts)
            ]
