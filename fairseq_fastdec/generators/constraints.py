"""What fairseq's generation options demand of every method: lengths, penalties, scores."""

import math
from dataclasses import dataclass
from typing import Any, Union

import torch
from torch import Tensor


@dataclass
class Limits:
    """The options of fairseq's ``GenerationConfig`` that shape scores and lengths.

    Lengths are in tokens without the final EOS, as in fairseq. A step is the 0-based position of
    the output token that a distribution is for.
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

    @classmethod
    def of(cls, args: Any, dictionary, max_positions: int) -> "Limits":
        """Read fairseq's generation options, with fairseq's defaults for those not given."""
        return cls(
            pad=dictionary.pad(),
            unk=dictionary.unk(),
            eos=dictionary.eos(),
            max_len_a=getattr(args, "max_len_a", 0),
            max_len_b=getattr(args, "max_len_b", 200),
            max_positions=max_positions,
            min_len=getattr(args, "min_len", 1),
            lenpen=getattr(args, "lenpen", 1),
            normalize=not getattr(args, "unnormalized", False),
            unkpen=getattr(args, "unkpen", 0),
        )

    def max_len(self, source_width: int) -> int:
        """The longest output for a batch that is ``source_width`` tokens wide, padding included.

        Raises:
            ValueError: if --min-len does not fit in.
        """
        # Numbers that Python has, whatever was asked for.
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

    def constrain(
        self,
        scores: Tensor,
        steps: Tensor,
        max_len: Union[int, Tensor],
        n_forced: Union[int, Tensor] = 0,
    ) -> Tensor:
        """Apply, in place, what fairseq's generator does to the scores of the next token.

        Args:
            scores: ``[..., V]``, log-probabilities or logits.
            steps: int64 ``[...]``, the step that each distribution is for.
            max_len: from :meth:`max_len`; from that step on only EOS is possible. One number, or
                int64 ``[...]``.
            n_forced: the width of the prefix; fairseq waives --min-len over it. One number, or
                int64 ``[...]``.

        Returns:
            ``scores``
        """
        self.penalize(scores)
        at_limit = steps >= max_len
        first_step, any_at_limit = torch.stack([steps.min(), at_limit.any().long()]).tolist()
        if first_step < self.min_len:
            too_short = (steps >= n_forced) & (steps < self.min_len)
            scores[..., self.eos].masked_fill_(too_short, -math.inf)
        if any_at_limit:
            eos_scores = scores[..., self.eos].clone()
            scores.masked_fill_(at_limit[..., None], -math.inf)
            # Finite even where the model gave NaN: the sentence has to end here.
            least = torch.finfo(scores.dtype).min
            scores[..., self.eos] = torch.where(at_limit, eos_scores.clamp(min=least), eos_scores)
        return scores

    def penalize(self, scores: Tensor) -> Tensor:
        """What :meth:`constrain` does at any step, however long the sentence is; in place."""
        # fairseq's rule for NaN, too: otherwise no token would compare as best.
        scores.nan_to_num_(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        scores[..., self.pad] = -math.inf
        if self.unkpen != 0:
            scores[..., self.unk] -= self.unkpen
        return scores

    def sentence_score(self, positional_scores: Tensor) -> Tensor:
        """The hypothesis score from its tokens' log-probabilities ``[m]``: a 0-dim tensor."""
        return self.normalized(positional_scores.sum(), positional_scores.numel())

    def normalized(self, totals: Tensor, lengths: Union[int, Tensor]) -> Tensor:
        """Hypothesis scores from summed log-probabilities and lengths (EOS included)."""
        if not self.normalize:
            return totals
        if isinstance(lengths, Tensor):
            lengths = lengths.double()
        return (totals / lengths**self.lenpen).to(totals.dtype)


def prefix_lengths(prefix: Tensor, pad: int) -> Tensor:
    """How many tokens of each row of a prefix ``[B, P]`` are forced: int64 ``[B]``.

    Raises:
        ValueError: for padding before or inside a prefix.
    """
    given = prefix.ne(pad)
    lengths = given.sum(dim=1)
    inside = torch.arange(prefix.size(1), device=prefix.device) < lengths[:, None]
    if not torch.equal(given, inside):
        raise ValueError("prefix_tokens: padding stands before a token; pad prefixes on the right")
    return lengths
