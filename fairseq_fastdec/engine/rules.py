"""fairseq's rules for lengths, penalties and scores, without torch and fairseq."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .kernels import loading


class Limits(NamedTuple):
    """Limits of the outputs of B sentences, in tokens.

    Attributes:
        max_lens: the maximum length without EOS, int64 ``[B]``.
        waived: the number of first tokens for which --min-len is waived, int64 ``[B]``.
    """

    max_lens: np.ndarray
    waived: np.ndarray


@dataclass
class SearchRules:
    """The rules of fairseq's ``GenerationConfig`` for next tokens, lengths and scores.

    Lengths are in tokens without the final EOS, as in fairseq.

    Attributes:
        pad, unk, eos: the special tokens.
        max_len_a, max_len_b, min_len, lenpen, unkpen: fairseq's options of the same names.
        max_positions: the maximum number of tokens that the models can read.
        normalize: whether a hypothesis' score is divided by its length to the power of ``lenpen``.
        never: tokens, besides padding, that are never generated.
        no_repeat_ngram_size: the size of the n-grams that must not repeat, at least 2; 0 for no
            such rule.
        lm_weight: of the log-probabilities of a language model, the last of the models; without one
            it is 0.
    """

    pad: int
    unk: int
    eos: int
    max_len_a: float = 0.0
    max_len_b: int = 200
    max_positions: int = 1024
    min_len: int = 1
    lenpen: float = 1.0
    normalize: bool = True
    unkpen: float = 0.0
    never: tuple[int, ...] = ()
    no_repeat_ngram_size: int = 0
    lm_weight: float = 0.0

    @property
    def impossible(self) -> tuple[int, ...]:
        """The tokens that are never generated."""
        return (self.pad, *self.never)

    def compiled(self, temperature: float) -> Any:
        """The rules for the compiled search.

        Args:
            temperature: the divisor of logits.
        """
        return loading.library().Rules(
            eos=self.eos,
            pad=self.pad,
            unk=self.unk,
            never=list(self.impossible),
            unk_penalty=self.unkpen,
            temperature=temperature,
            lm_weight=self.lm_weight,
            lenpen=self.lenpen if self.normalize else 0.0,
            min_len=max(loading.bounded(self.min_len), 0),
            no_repeat_ngram=loading.bounded(self.no_repeat_ngram_size),
        )

    def max_len(self, source_width: int) -> int:
        """The longest output for a batch that is ``source_width`` tokens wide, padding included.

        Raises:
            ValueError: if --min-len exceeds it, or if it is negative.
        """
        # Bounded first: huge integers cannot be added to a float.
        added = min(self.max_len_b, self.max_positions)
        longest = int(min(self.max_len_a * source_width + added, self.max_positions - 1))
        least = max(self.min_len, 0)
        if least > longest:
            raise ValueError(
                f"--min-len {least}: larger than the longest output allowed, {longest} "
                f"(--max-len-a {self.max_len_a} times {source_width} source tokens plus "
                f"--max-len-b {self.max_len_b}, and the model's {self.max_positions} positions); "
                "lower it, or raise the others"
            )
        return longest

    def limits(self, source_widths: Sequence[int], prefix_widths: Sequence[int]) -> Limits:
        """The limits of sentences, of which fairseq waives --min-len over the width of prefixes.

        Args:
            source_widths: see :meth:`max_len`; prefix_widths: the number of forced tokens, padding
                included.

        Raises:
            ValueError: see :meth:`max_len`.
        """
        max_lens = np.array([self.max_len(width) for width in source_widths])
        return Limits(max_lens, np.minimum(prefix_widths, max_lens))

    def score(self, positional_scores: Sequence[float]) -> float:
        """The score of a hypothesis, from the log-probabilities of its tokens."""
        return self.normalized(sum(positional_scores), len(positional_scores))

    def normalized(self, total: float, length: int) -> float:
        """The score of a hypothesis, from the sum of its log-probabilities and its length."""
        return total / length**self.lenpen if self.normalize else total
