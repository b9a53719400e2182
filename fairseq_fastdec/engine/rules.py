"""fairseq's generation rules as numbers: lengths, penalties, scores. Neither torch nor fairseq."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .kernels import loading


@dataclass
class SearchRules:
    """The rules of fairseq's ``GenerationConfig`` for next tokens, lengths and scores.

    Lengths are in tokens without the final EOS, as in fairseq.

    Attributes:
        max_positions: how many tokens the models can read.
        normalize: whether a hypothesis' score is divided by its length to the power of ``lenpen``.
        never: tokens that no step may give, besides padding.
        no_repeat_ngram_size: n of the n-grams that an output holds once at most, at least 2; or 0
            for no such rule.
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

    @property
    def impossible(self) -> tuple[int, ...]:
        """The tokens that no step may give."""
        return (self.pad, *self.never)

    def compiled(self, temperature: float) -> Any:
        """These rules for the compiled search.

        Args:
            temperature: divides logits.
        """
        return loading.library().Rules(
            eos=self.eos,
            pad=self.pad,
            unk=self.unk,
            never=list(self.impossible),
            unk_penalty=self.unkpen,
            temperature=temperature,
            min_len=self.min_len,
            no_repeat_ngram=self.no_repeat_ngram_size,
        )

    def max_len(self, source_width: int) -> int:
        """The longest output for a batch that is ``source_width`` tokens wide, padding included.

        Raises:
            ValueError: if --min-len does not fit in.
        """
        # A huge whole number cannot be added to a float.
        added = min(self.max_len_b, self.max_positions)
        longest = int(min(self.max_len_a * source_width + added, self.max_positions - 1))
        if self.min_len > longest:
            raise ValueError(
                f"--min-len {self.min_len}: larger than the longest output allowed, {longest} "
                f"(--max-len-a {self.max_len_a} times {source_width} source tokens plus "
                f"--max-len-b {self.max_len_b}, and the model's {self.max_positions} positions); "
                "lower it or raise the others"
            )
        return longest

    def score(self, positional_scores: Sequence[float]) -> float:
        """The hypothesis score from its tokens' log-probabilities."""
        n = len(positional_scores)
        return sum(positional_scores) / (n**self.lenpen if self.normalize else 1)

    def normalized_total(self, total: float, length: int) -> float:
        """The hypothesis score, of fp32, from the sum of its log-probabilities and its length."""
        return float(np.float32(total / length**self.lenpen)) if self.normalize else total
