"""Records what a task adds to sentences and to their translations: the start of a search."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..decoding.hypothesis import NONE
from .whole_batches import WholeBatches


class RecordingGenerator:
    """A generator that does not decode, but records the arguments that a task passes to it.

    Attributes:
        hypotheses: the fixed result.
        tokens_per_step: as of the generator that decodes.
    """

    def __init__(self, eos: int, tokens_per_step: int) -> None:
        self.tokens_per_step = tokens_per_step
        scores = torch.zeros(1)
        nothing = {"attention": NONE, "alignment": NONE, "positional_scores": scores}
        self.hypotheses = [[{"tokens": torch.tensor([eos]), "score": scores[0], **nothing}]]

    def generate(
        self,
        models: Any,
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> Any:
        """See :meth:`.decoding.DecodingGenerator.generate`."""
        self.sample, self.prefix, self.bos = sample, prefix_tokens, bos_token
        return self.hypotheses


class Start(NamedTuple):
    """The arguments that a task passes to its generator for a sentence.

    Attributes:
        source: int64 ``[n]``.
        bos: the token before the first; ``None`` for the generator's default.
        prefix: forced first tokens.
    """

    source: np.ndarray
    bos: Optional[int] = None
    prefix: tuple[int, ...] = ()


class TaskStart:
    """The starts of a task's sentences, found by recording a call of its generator."""

    def __init__(self, task: Any, models: Sequence[Any], batches: WholeBatches) -> None:
        self._task, self._models, self._batches = task, models, batches
        self._eos = [task.source_dictionary.eos()]

    def of(self, source: list[int]) -> Start:
        """The arguments that the task passes to its generator for a sentence.

        Args:
            source: tokens with EOS.
        """
        around = getattr(self._task, "surroundings", None)
        if around is not None:
            return Start(np.array(around.around(source)), around.bos, around.prefix)
        if self.is_as_fairseq:
            return Start(np.array(source))
        generator, _ = self._recorded(source)
        prefix = () if generator.prefix is None else tuple(generator.prefix[0].tolist())
        return Start(generator.sample["net_input"]["src_tokens"][0].numpy(), generator.bos, prefix)

    @cached_property
    def is_as_fairseq(self) -> bool:
        """Whether the task passes only the unchanged sources to generators."""
        is_plain = type(self._task).inference_step is FairseqTask.inference_step
        return is_plain and self._batches.direct(torch.tensor(self._eos)).is_possible

    @cached_property
    def place(self) -> int:
        """The number of tokens that the task puts before a sentence."""
        word = self._task.source_dictionary.unk()
        return self.of([word, *self._eos]).source.tolist().index(word)

    @cached_property
    def changes_hypotheses(self) -> bool:
        """Whether the task changes the result of a generator."""
        if self.is_as_fairseq:
            return False
        generator, returned = self._recorded(self._eos)
        return returned is not generator.hypotheses

    def _recorded(self, source: list[int]) -> tuple[RecordingGenerator, Any]:
        """A recording generator that the task has called for a sentence, and the task's result."""
        n_tokens = getattr(self._models[0].decoder, "tokens_per_step", 1)
        generator = RecordingGenerator(self._task.target_dictionary.eos(), n_tokens)
        (batch,) = self._batches.of(None, [torch.tensor(source)], 1, None)
        return generator, self._task.inference_step(generator, self._models, batch)
