"""Batches that a task makes and a generator decodes as a whole.

They serve what cannot join a running batch: decoding in torch, on a GPU, with sampling, with
shortlists and with fairseq's own generator.
"""

import math
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Optional, Union

import torch
from fairseq import utils
from torch import Tensor

from ..decoding import DecodingGenerator
from ..decoding.alignments import hard_alignments
from ..decoding.hypothesis import Hypothesis, NotFinite
from ..decoding.methods.streaming import Capacity, Streaming
from ..decoding.option_rules import given
from ..engine.searches import Output
from ..tasks.fast_decoding import STREAM_BUFFER, makes_batches_as_fairseq
from ..translating.results import NOT_FINITE, Problem
from .batches import DirectBatches, batches_of, max_positions_of

LEFT_OUT = Problem("not translated", "the task left it out")


class SourceLimit(NamedTuple):
    """The maximum number of tokens of a sentence, EOS included.

    Attributes:
        most: ``None`` without a limit.
        source: the option that sets it.
    """

    most: Optional[int]
    source: str

    @classmethod
    def of(cls, positions: Any, max_tokens: Optional[int]) -> "SourceLimit":
        """
        Args:
            positions: the limits of the task and its models, resolved by fairseq.
            max_tokens: fairseq's ``--max-tokens``.
        """
        if isinstance(positions, (tuple, list)):
            positions = positions[0]
        limits = []
        if isinstance(positions, (int, float)) and not math.isinf(positions):
            limits.append(cls(int(positions), "--max-source-positions, or the model,"))
        if max_tokens is not None:
            limits.append(cls(max_tokens, "--max-tokens"))
        return min(limits, default=cls(None, ""))

    def problem(self, tokens: Sequence[int]) -> Optional[Problem]:
        """A problem if a sentence, with EOS, is too long; otherwise ``None``."""
        if self.most is None or len(tokens) <= self.most:
            return None
        return Problem(
            "too long",
            f"{len(tokens)} tokens with the end mark, but {self.source} allows {self.most}",
        )


class WholeBatches:
    """The batches of a task and its models.

    Attributes:
        device: where batches are decoded.
        positions: the limits of the task and the models, as fairseq combines them.
    """

    def __init__(self, task: Any, models: Sequence[Any], device: Any = "cpu") -> None:
        """
        Args:
            models: the ensemble, on ``device``.
        """
        self._task, self._models, self.device = task, models, torch.device(device)
        self.positions = max_positions_of(task, models)
        self._direct: Optional[DirectBatches] = None

    def direct(self, tokens: Tensor) -> DirectBatches:
        """Batches without fairseq's data loader.

        Args:
            tokens: an example sentence, int64 ``[n]`` with EOS.
        """
        if self._direct is None:
            self._direct = DirectBatches(self._task, tokens)
            self._direct.is_possible &= makes_batches_as_fairseq(type(self._task))
        return self._direct

    def of(
        self,
        generator: Any,
        tokens: Sequence[Tensor],
        batch_size: Optional[int],
        max_tokens: Optional[int],
        is_ordered: bool = False,
        leaves_out_long: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """The batches of sentences, on the device.

        Args:
            tokens: int64 ``[n]`` with EOS each; at least one sentence.
            batch_size, max_tokens: the sentences and source tokens that are decoded at once.
            is_ordered: whether sentences of equal length must have fairseq's order, in which the
                rows of ``prefix_tokens`` belong to them.
            leaves_out_long: whether sentences beyond the positions are left out; otherwise they
                raise fairseq's error.
        """
        if isinstance(generator, Streaming):
            generator.capacity = Capacity(batch_size, max_tokens)
            batch_size, max_tokens = given(generator.options.stream_buffer, STREAM_BUFFER), None
        direct, most = self.direct(tokens[0]), SourceLimit.of(self.positions, None).most
        batches: Iterable[dict[str, Any]]
        # Multilingual models have limits by language pair.
        if is_ordered or isinstance(self.positions, dict) or not direct.is_possible:
            limits = Namespace(
                max_tokens=max_tokens, batch_size=batch_size, required_batch_size_multiple=1
            )
            batches = batches_of(self._task, tokens, limits, self.positions, 1, leaves_out_long)
        elif len(tokens) == 1 and (most is None or len(tokens[0]) <= most):
            batches = [direct.single(tokens[0])]
        else:
            batches = direct.several(tokens, max_tokens, batch_size, most)
        for batch in batches:
            if self.device.type != "cpu":
                batch = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)
            yield batch

    def decoded(
        self,
        generator: Any,
        tokens: Sequence[Tensor],
        batch_size: Optional[int],
        max_tokens: Optional[int],
        n_best: int,
        drafts: Optional[Sequence[Tensor]],
        alignment: bool = False,
    ) -> Iterator[tuple[int, Union[list[Hypothesis], Problem]]]:
        """Yield the best hypotheses of each sentence with its place in the list.

        Args:
            n_best: the maximum number of hypotheses; a sentence without any, or whose score is not
                finite, has a problem instead.
            drafts: the tokens of each sentence's draft; ``None`` without drafts.
            alignment: whether to align the hypotheses.
        """
        if drafts and not isinstance(generator, DecodingGenerator):
            raise ValueError("drafts: not supported by decoding fairseq; use decoding greedy")
        for batch in self.of(generator, tokens, batch_size, max_tokens):
            if drafts is not None:
                batch["drafts"] = [drafts[place] for place in batch["id"].tolist()]
            lost: Collection[int] = ()
            try:
                hypotheses = self._task.inference_step(generator, self._models, batch)
            except NotFinite as error:
                hypotheses, lost = error.hypotheses, error.sentences
            best = [
                (place, NOT_FINITE if place in lost else found[:n_best] or LEFT_OUT)
                for place, found in zip(batch["id"].tolist(), hypotheses)
            ]
            if alignment:
                self._align(batch, [found for _, found in best])
            yield from best

    def _align(self, batch: dict[str, Any], best: list[Union[list[Hypothesis], Problem]]) -> None:
        """Set the alignments of the hypotheses of a batch."""
        self._task.check_token_order("alignment True")
        pairs = [
            (row, hypothesis)
            for row, found in enumerate(best)
            if not isinstance(found, Problem)
            for hypothesis in found
        ]
        if not pairs:
            return
        rows = [row for row, _ in pairs]
        inputs = batch["net_input"]
        alignments = hard_alignments(
            self._models,
            inputs["src_tokens"][rows],
            inputs["src_lengths"][rows],
            [hypothesis["tokens"] for _, hypothesis in pairs],
            self._task.source_dictionary.pad(),
            self._task.source_dictionary.eos(),
        )
        for (_, hypothesis), found in zip(pairs, alignments):
            hypothesis["alignment"] = found


def output_of(hypothesis: Hypothesis) -> Output:
    """A hypothesis of any generator, like those of compiled searches."""
    names = ("tokens", "positional_scores")
    tokens, scores = (hypothesis[name].cpu().numpy() for name in names)
    return Output(tokens, scores, float(hypothesis["score"]))


def stripped_by(generator: Any) -> set[int]:
    """The tokens that are stripped from a generator's output."""
    eos = getattr(generator, "eos", None)
    return getattr(generator, "symbols_to_strip_from_output", set[int]() if eos is None else {eos})
