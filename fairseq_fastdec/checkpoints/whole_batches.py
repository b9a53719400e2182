"""Batches that a task makes and a generator decodes as a whole.

They serve what cannot join a running batch: decoding in torch, on a GPU, with sampling, with
shortlists and with fairseq's own generator.
"""

import math
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Optional, Union

import torch
from fairseq import utils
from fairseq.token_generation_constraints import pack_constraints
from torch import Tensor

from ..decoding import DecodingGenerator
from ..decoding.alignments import complete
from ..decoding.hypothesis import NONE, Hypothesis, NotFinite
from ..decoding.methods.streaming import Capacity, Streaming
from ..decoding.option_rules import given
from ..decoding.request import Request, Sources
from ..engine.searches import Output, Restrictions
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
        return_attention: bool = False,
        restricted: Sequence[Restrictions] = (),
    ) -> Iterator[tuple[int, Union[list[Hypothesis], Problem]]]:
        """Yield the best hypotheses of each sentence with its place in the list.

        Args:
            n_best: the maximum number of hypotheses; a sentence without any, or whose score is not
                finite, has a problem instead.
            drafts: the tokens of each sentence's draft; ``None`` without drafts.
            return_attention: whether the hypotheses need attention, for alignments.
            restricted: what each output has to contain, and what it may not.
        """
        if drafts and not isinstance(generator, DecodingGenerator):
            raise ValueError("drafts: not supported by decoding fairseq; use decoding greedy")
        if not any(any(own) for own in restricted):
            restricted = ()
        elif not isinstance(generator, DecodingGenerator):
            raise ValueError("constraints, forbidden: not supported by decoding fairseq")
        for batch in self.of(generator, tokens, batch_size, max_tokens):
            places, given = batch["id"].tolist(), {}
            if drafts is not None:
                batch["drafts"] = [drafts[place] for place in places]
            if restricted:
                given = _restricting(batch, [restricted[place] for place in places])
            if return_attention:
                batch["return_attention"] = True
            lost: Collection[int] = ()
            try:
                hypotheses = self._task.inference_step(generator, self._models, batch, **given)
            except NotFinite as error:
                hypotheses, lost = error.hypotheses, error.sentences
            best = [
                (place, NOT_FINITE if place in lost else found[:n_best] or LEFT_OUT)
                for place, found in zip(batch["id"].tolist(), hypotheses)
            ]
            if return_attention and not isinstance(generator, DecodingGenerator):
                self._attend(batch, [found for _, found in best])
            yield from best

    def _attend(self, batch: dict[str, Any], best: list[Union[list[Hypothesis], Problem]]) -> None:
        """Set the attention of the hypotheses of fairseq's generator, whose own is padded."""
        pad, eos = self._task.source_dictionary.pad(), self._task.target_dictionary.eos()
        hypotheses = [[] if isinstance(found, Problem) else found for found in best]
        for hypothesis in chain.from_iterable(hypotheses):
            hypothesis["attention"] = NONE
        complete(self._models, Request(Sources.of(batch, pad), [], eos), pad, hypotheses)


def _restricting(batch: dict[str, Any], restricted: Sequence[Restrictions]) -> dict[str, Tensor]:
    """Add forbidden phrases to a batch, and return the constraints for ``inference_step``."""
    constraints, forbidden = zip(*restricted)
    if any(forbidden):
        batch["forbidden"] = list(forbidden)
    if not any(constraints):
        return {}
    return {"constraints": pack_constraints([[*map(torch.tensor, own)] for own in constraints])}


def output_of(hypothesis: Hypothesis) -> Output:
    """A hypothesis of any generator, like those of compiled searches."""
    names = ("tokens", "positional_scores")
    tokens, scores = (hypothesis[name].cpu().numpy() for name in names)
    attention = hypothesis["attention"]
    attended = None if attention is None or not attention.numel() else attention.T.cpu().numpy()
    return Output(tokens, scores, float(hypothesis["score"]), attended)


def stripped_by(generator: Any) -> set[int]:
    """The tokens that are stripped from a generator's output."""
    eos = getattr(generator, "eos", None)
    return getattr(generator, "symbols_to_strip_from_output", set[int]() if eos is None else {eos})
