"""From lines of text to translations, with the models, tokeniser and BPE of a command line.

What is translated is what fairseq-interactive would translate, and as it would.
"""

import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from fairseq import tasks, utils
from torch import Tensor

from ..corpus import load_models, on_device
from .batches import batches_of
from .codec import Problem, TextCodec


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
        hypotheses: best first, as many as ``--nbest`` says.
    """

    n_source_tokens: int
    hypotheses: List[TextHypothesis]


LineResult = Union[Outcome, Problem]


class Translator:
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
        self._most_tokens, self._says_most = self._limit()
        self._nbest = cfg.generation.nbest
        eos = {getattr(self._generator, "eos", None)} - {None}
        stripped = getattr(self._generator, "symbols_to_strip_from_output", eos)
        self._codec = TextCodec(cfg, self.task, stripped)

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
    ) -> List[LineResult]:
        """Translate lines.

        Args:
            texts: lines; white space around them does not count.
            seed: of what is drawn at random. The same lines with the same seed give the same.
            progress: told how many lines are done, as they are.

        Returns:
            the result of each line, in their order.
        """
        utils.set_torch_seed(seed)
        results: List[Optional[LineResult]] = [None] * len(texts)
        numbers, tokens = [], []
        for number, text in enumerate(texts):
            of_line = self._codec.encode(text.strip())
            problem = of_line if isinstance(of_line, Problem) else self._problem(of_line)
            if problem is None:
                numbers.append(number)
                tokens.append(of_line)
            results[number] = problem
        progress(len(texts) - len(numbers))
        for places, hypotheses in self._decoded(tokens):
            for place, of_line in zip(places, hypotheses):
                best = of_line[: self._nbest]
                results[numbers[place]] = Outcome(
                    len(tokens[place]) - 1, [self._hypothesis(hypo) for hypo in best]
                )
            progress(len(places))
        self._codec.forget_words()
        return [result or Problem("not translated", "the task left it out") for result in results]

    def _problem(self, tokens: Tensor) -> Optional[Problem]:
        if self._most_tokens is None or len(tokens) <= self._most_tokens:
            return None
        return Problem(
            "too long",
            f"{len(tokens)} tokens with the end mark, and {self._says_most} allows "
            f"{self._most_tokens}",
        )

    def _limit(self) -> Tuple[Optional[int], str]:
        """The most tokens that a line can have, and what says so."""
        positions = self._max_positions
        if isinstance(positions, (tuple, list)):
            positions = positions[0]
        limits: List[Tuple[int, str]] = []
        if isinstance(positions, (int, float)) and not math.isinf(positions):
            limits.append((int(positions), "--max-source-positions, or the model,"))
        if self._cfg.dataset.max_tokens is not None:
            limits.append((self._cfg.dataset.max_tokens, "--max-tokens"))
        return min(limits, default=(None, ""))

    def _decoded(
        self, tokens: List[Tensor]
    ) -> Iterator[Tuple[List[int], List[List[Dict[str, Any]]]]]:
        """Places in the list and fairseq's hypotheses, batch by batch, sorted by length."""
        if not tokens:
            return
        batches = batches_of(
            self.task, tokens, self._cfg.dataset, self._max_positions, self._cfg.common.seed
        )
        for batch in batches:
            batch = on_device(batch, self._cfg)
            hypotheses = self.task.inference_step(self._generator, self._models, batch)
            yield batch["id"].tolist(), hypotheses

    def _hypothesis(self, hypo: Dict[str, Any]) -> TextHypothesis:
        text, n_tokens = self._codec.decode(hypo["tokens"])
        return TextHypothesis(text, float(hypo["score"]) / math.log(2), n_tokens)
