"""fairseq's generation rules: lengths, prefixes, penalties and scores.

:meth:`GenerationRules.constrain` applies them to scores in torch. For compiled code they are in
``engine/cpp/rules.h`` (:meth:`~..engine.rules.SearchRules.compiled`).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Optional, Union

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..engine.rules import SearchRules
from ..engine.searches import Phrases
from ..orders.special_tokens import EOD, end_token, start_tokens
from ..orders.token_order import TokenOrder


def reading_waits(device: torch.device) -> bool:
    """Whether reading a tensor waits for all operations on a device."""
    return device.type != "cpu"


def read_together(scores: Tensor, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Read float32 scores and int64 tokens of the same shape at once, with one wait for a GPU."""
    if not reading_waits(scores.device):
        return scores.numpy(), tokens.numpy()
    both = torch.stack([scores.view(torch.int32), tokens.to(torch.int32)]).numpy(force=True)
    return both[0].view(np.float32), both[1]


class GenerationRules(SearchRules):
    """The generation rules in torch.

    A step is the 0-based position of the output token that a distribution is for.
    """

    @classmethod
    def from_args(
        cls, args: Any, dictionary: Dictionary, max_positions: int, eos: Optional[int] = None
    ) -> "GenerationRules":
        """Read fairseq's generation options; missing ones have fairseq's defaults.

        Args:
            eos: the token that ends a sentence (default: the dictionary's).
        """
        return cls(
            pad=dictionary.pad(),
            unk=dictionary.unk(),
            eos=dictionary.eos() if eos is None else eos,
            max_len_a=getattr(args, "max_len_a", 0),
            max_len_b=getattr(args, "max_len_b", 200),
            max_positions=max_positions,
            min_len=getattr(args, "min_len", 1),
            lenpen=getattr(args, "lenpen", 1),
            normalize=not getattr(args, "unnormalized", False),
            unkpen=getattr(args, "unkpen", 0),
            no_repeat_ngram_size=max(getattr(args, "no_repeat_ngram_size", 0), 0),
        )

    def of_pairs(self, order: TokenOrder, dictionary: Dictionary) -> "GenerationRules":
        """The rules for folded sentences, which are decoded from both ends.

        Raises:
            ValueError: if the dictionary lacks the end token of pairs.
        """
        if EOD not in dictionary:
            raise ValueError(
                f"--decoding double_token: the target dictionary has no {EOD}; use --task "
                "translation_double_token"
            )
        return replace(
            self,
            eos=end_token(order, dictionary),
            # They are fed as the first pair, and are never outputs.
            never=start_tokens(order, dictionary),
            # The longest sentence with its end tokens has to fit into pairs.
            max_positions=self.max_positions - self.max_positions % 2,
        )

    def penalize(self, scores: Tensor) -> Tensor:
        """Apply, in place, the rules that do not depend on the step to scores ``[..., V]``.

        Returns:
            ``scores``
        """
        # As in fairseq, NaN becomes -inf: otherwise no token would compare as best.
        scores.nan_to_num_(nan=-math.inf, posinf=math.inf, neginf=-math.inf)
        for token in self.impossible:
            # Same as scores[..., token] = -math.inf, with less overhead in Python.
            scores.select(-1, token).fill_(-math.inf)
        if self.unkpen != 0:
            scores[..., self.unk] -= self.unkpen
        return scores

    def constrain(
        self,
        scores: Tensor,
        steps: Tensor,
        max_len: Union[int, Tensor],
        n_waived: Union[int, Tensor] = 0,
    ) -> Tensor:
        """Apply, in place, all rules to the scores of the next token.

        Args:
            scores: ``[..., V]``, log-probabilities or logits.
            steps: int64 ``[...]``, the step that each distribution is for.
            max_len: from :meth:`max_len`, one number or int64 ``[...]``.
            n_waived: the number of first steps without --min-len, one number or int64 ``[...]``;
                in fairseq, the width of the prefix.

        Returns:
            ``scores``
        """
        self.penalize(scores)
        no_eos = (steps >= n_waived) & (steps < self.min_len)
        only_eos = steps >= max_len
        some_no_eos = some_only_eos = True
        if not reading_waits(scores.device):
            some_no_eos, some_only_eos = torch.stack([no_eos.any(), only_eos.any()]).tolist()
        if some_no_eos:
            scores[..., self.eos].masked_fill_(no_eos, -math.inf)
        if some_only_eos:
            eos_scores = scores[..., self.eos].clone()
            scores.masked_fill_(only_eos[..., None], -math.inf)
            # Finite even if the model gave NaN: the sentence has to end here.
            least = torch.finfo(scores.dtype).min
            scores[..., self.eos] = torch.where(only_eos, eos_scores.clamp(min=least), eos_scores)
        return scores


def force(log_probs: Tensor, token: int) -> None:
    """Allow only one token, that of a prefix: changes scores ``[V]`` in place."""
    score = log_probs[token].clone()
    log_probs.fill_(-math.inf)
    log_probs[token] = score


def prefix_lengths(prefix: Tensor, pad: int) -> Tensor:
    """The number of tokens that a prefix ``[B, P]`` forces in each row: int64 ``[B]``.

    Raises:
        ValueError: for padding before or inside a prefix.
    """
    given = prefix.ne(pad)
    lengths = given.sum(dim=1)
    inside = torch.arange(prefix.size(1), device=prefix.device) < lengths[:, None]
    if not torch.equal(given, inside):
        raise ValueError("prefix_tokens: padding precedes a token; pad prefixes on the right")
    return lengths


def forbidden_after(context: Sequence[int], size: int, phrases: Phrases) -> list[int]:
    """The tokens that would repeat an n-gram, or complete a phrase that may not occur.

    In fairseq's rule against repeated n-grams, ``--no-repeat-ngram-size``, the token before the
    first one and the prefix count as part of the output; tokens of the prefix are forced even if
    they repeat n-grams. Scores of other tokens do not change.

    Args:
        context: the token before the first, and the output so far.
        size: of n-grams; 0 for no such rule.
        phrases: those that may not occur.

    Returns:
        the tokens that followed earlier occurrences of the last ``size - 1`` tokens, and those that
        end a phrase whose other tokens are the last ones
    """
    given, found = list(context), []
    if size:
        n = size - 1
        last = given[len(given) - n :]
        found = [given[at + n] for at in range(len(given) - n) if given[at : at + n] == last]
    output = given[1:]
    ends = [token for *before, token in phrases if output[len(output) - len(before) :] == before]
    return found + ends
