"""Drafts given for each sentence (``--draft-file``), verified by the model.

A draft is an earlier translation of the sentence or of a similar one. An output follows its draft
as long as the tokens agree; after a mismatch it continues from the place in the draft that matches
the output's last tokens best. A wrong draft costs time and never changes the output. In compiled
code: ``engine/cpp/given_drafts.cpp``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Optional

import torch
from torch import Tensor

from ...translating.registry import ALL_DRAFTED, DRAFTED
from ..option_rules import option
from .outputs import OutputBatch, agreeing

if TYPE_CHECKING:
    from ..options import DecodingOptions

MOST_PROPOSALS = 32
# The fixed time of a step, in units of the time of one token. It is 5 to 20 if the weights are read
# from memory; larger batches share it among more tokens.
STEP_COST = 10
# Each step that ignores a draft adds this to the count of right tokens, so that drafts are tried
# again later.
FORGIVEN = 0.02
# The counts of right tokens and of errors are halved when their sum exceeds this.
MEMORY = 500
# The most tokens of an output that are compared with a draft.
LONGEST_MATCH = 8
# Stands for positions before the output; no draft contains this token.
BEFORE_FIRST = -1


@dataclass
class GivenDraftOptions:
    """The option for drafts in a file."""

    draft_file: Optional[str] = option(
        None,
        f"{ALL_DRAFTED}: verify the drafts in this file, one line for each source sentence in the "
        "order of the input: an earlier translation in the target's subwords, or in plain text if "
        "--bpe and --tokenizer are given; an empty line for none. The output is that of --decoding "
        "greedy, in fewer steps if the drafts agree with it",
        methods=DRAFTED,
        is_path=True,
    )
    memory_source: Optional[str] = option(
        None,
        f"{ALL_DRAFTED}: previously translated sentences, one per line; the drafts of each input "
        "sentence are the translations of the two most similar ones, if they are similar enough. "
        "Subwords or plain text, as for --draft-file. An index is written next to --memory-target",
        methods=DRAFTED,
        is_path=True,
        needs=("memory_target", ()),
    )
    memory_target: Optional[str] = option(
        None,
        f"{ALL_DRAFTED}: the translations of --memory-source, one per line",
        methods=DRAFTED,
        is_path=True,
        needs=("memory_source", ()),
    )

    def check_together(self: "DecodingOptions") -> None:  # type: ignore[misc]
        """
        Raises:
            ValueError: for options with which tokens of drafts could be accepted although p_1 does
                not agree.
        """
        files = {"--draft-file": self.draft_file, "--memory-source": self.memory_source}
        given = [f"{flag} {path}" for flag, path in files.items() if path is not None]
        if given and not self.keeps_p1_tokens:
            raise ValueError(
                f"{given[0]}: requires --acceptance exact and no --min-block-size, so that the "
                "output does not depend on the drafts"
            )
        if len(given) > 1:
            raise ValueError(f"{given[0]}: cannot be combined with {given[1]}; remove one of them")


class GivenDrafts:
    """The drafts of a batch, and how often drafts were right in all batches so far."""

    def __init__(self, pad: int, eos: int) -> None:
        self._pad, self._eos = pad, eos
        self._right, self._wrong = 8.0, 0.5

    def begin(self, batch: OutputBatch) -> None:
        """Read the drafts of a new batch."""
        self._drafts = [self._with_end(own) for own in batch.request.drafts or ()]
        # By sentence: a place in the draft, and the output length at which it was found.
        self._aligned = [(0, 0)] * len(self._drafts)
        self._n_drafted: list[int] = []

    def put_first(
        self, batch: OutputBatch, proposals: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        """Replace the proposals of the rows whose drafts have proposals.

        Args:
            proposals: int64 ``[R, N]``, from another source.
            certain: int64 ``[R]``, the next token of each row, not appended yet (default: none; the
                outputs have not begun).

        Returns:
            int64 ``[R, M]``, M >= N, padded
        """
        chains = self._chains(batch, certain)
        self._n_drafted = [len(chain) for chain in chains]
        if not any(chains):
            return proposals
        rows = []
        width = max([proposals.size(1), *self._n_drafted])
        for others, own in zip(proposals.tolist(), chains):
            chain = own or others
            rows.append(chain + [self._pad] * (width - len(chain)))
        return proposals.new_tensor(rows).view(len(rows), width)

    def n_proposed(self, batch: OutputBatch, n_others: int) -> Tensor:
        """The number of each row's last proposals, ``n_others`` without a draft: int64 ``[R]``."""
        if not any(self._n_drafted):
            return torch.full_like(batch.sentence, n_others)
        n_drafted = torch.tensor(self._n_drafted, device=batch.sentence.device)
        return n_drafted.masked_fill(n_drafted.eq(0), n_others)

    def learn(self, batch: OutputBatch, n_right: Tensor) -> None:
        """Count how many of each row's last proposals were right: int64 ``[R]``."""
        if not any(self._n_drafted):
            return
        for n, right in zip(self._n_drafted, n_right.tolist()):
            if not n:
                continue
            batch.statistics.count_drafts(n, right)
            self._right, self._wrong = self._right + right, self._wrong + (right < n)
            if self._right + self._wrong > MEMORY:
                self._right, self._wrong = self._right / 2, self._wrong / 2

    def _with_end(self, draft: Tensor) -> list[int]:
        tokens = [token for token in draft.tolist() if token != self._pad]
        return tokens + [self._eos] if tokens and tokens[-1] != self._eos else tokens

    def _chains(self, batch: OutputBatch, certain: Optional[Tensor]) -> list[list[int]]:
        """The next tokens of each row's draft; an empty list for none."""
        if not self._drafts:
            return [[]] * batch.n_rows
        tails = batch.tail(LONGEST_MATCH, BEFORE_FIRST)
        lengths = batch.lengths
        if certain is not None:
            tails, lengths = torch.cat([tails[:, 1:], certain[:, None]], dim=1), lengths + 1
        rows = zip(batch.sentence.tolist(), tails.tolist(), lengths.tolist())
        chains = []
        for sentence, tail, length in rows:
            chain = self._chain(sentence, tail, length, certain is None)
            # The answer to the last proposal can be the output's last token.
            chains.append(chain[: max(batch.max_len - length, 0)])
        most = self._best_number(chains)
        for chain in [] if most else chains:
            self._right += FORGIVEN if chain else 0
        return [chain[:most] for chain in chains]

    def _chain(self, sentence: int, tail: list[int], length: int, is_new: bool) -> list[int]:
        """The tokens of a draft that continue an output.

        Args:
            tail: the output's last tokens.
            length: the number of its tokens.
        """
        draft = self._drafts[sentence]
        if not draft:
            return []
        # The place if tokens had only been substituted, not inserted or deleted.
        place, of_length = self._aligned[sentence]
        expected = place + length - of_length
        # The longest match; among equals the one closest to the expected place.
        places = ((n_matching(tail, draft, i), i) for i in range(1, len(draft)))
        best = max(places, key=lambda own: (own[0], -abs(own[1] - expected)), default=(0, 0))
        n_matched, place = best if best[0] else (0, 0)
        # A forced prefix may be missing from the draft: a new output starts at its beginning.
        if not n_matched and not is_new:
            return []
        self._aligned[sentence] = place, length
        return draft[place : place + MOST_PROPOSALS]

    def _best_number(self, chains: list[list[int]]) -> int:
        """The number of proposals that maximises the expected tokens per time of a step."""
        share = self._right / (self._right + self._wrong)
        best, all_right = 0, 1.0
        expected = n_fed = float(len(chains))
        best_rate = expected / (STEP_COST + n_fed)
        for n in range(1, MOST_PROPOSALS + 1):
            n_longer = sum(len(chain) >= n for chain in chains)
            if not n_longer:
                break
            all_right *= share
            expected, n_fed = expected + all_right * n_longer, n_fed + n_longer
            rate = expected / (STEP_COST + n_fed)
            if rate > best_rate:
                best_rate, best = rate, n
        return best


class Verified(NamedTuple):
    """A step that is fed each row's last token and its drafts.

    Attributes:
        features: ``[R, 1 + N, C]``.
        scores, answers: of the most probable next tokens, float32 and int64 ``[R, 1 + N]``.
        n_right: int64 ``[R]``, how many drafts are right.
    """

    features: Tensor
    scores: Tensor
    answers: Tensor
    n_right: Tensor

    def behind(self, of_tokens: Tensor) -> Tensor:
        """The entry of each row's last right token: ``[R, 1 + N, ...]`` to ``[R, ...]``."""
        return of_tokens[torch.arange(len(of_tokens), device=of_tokens.device), self.n_right]


def verified(
    batch: OutputBatch, last: Tensor, drafts: Tensor, given: GivenDrafts, first: int
) -> Verified:
    """Verify drafts: those before the first one that differs from p_1's best token are right.

    Args:
        last: int64 ``[R]``, the tokens before the drafts.
        drafts: int64 ``[R, N]``.
        first: as for :meth:`.outputs.OutputBatch.log_probs`.
    """
    features = batch.step(torch.cat([last[:, None], drafts], dim=1))
    scores, answers = batch.log_probs(features, first).max(dim=-1)
    n_right = agreeing(drafts, answers[:, :-1])
    given.learn(batch, n_right)
    batch.observe(first, drafts, answers, scores, 1 + n_right)
    return Verified(features, scores, answers, n_right)


def opened(batch: OutputBatch, last: Tensor, drafts: Tensor, given: GivenDrafts) -> Verified:
    """The first step of a batch: verify drafts, and keep those that are right."""
    found = verified(batch, last, drafts, given, first=0)
    batch.network.keep(1 + found.n_right)
    batch.append(drafts, found.scores[:, :-1], found.n_right)
    return found


def n_matching(tail: Sequence[int], draft: Sequence[int], place: int) -> int:
    """The number of tokens before a place in a draft that match the end of an output."""
    n = 0
    while n < min(len(tail), place) and tail[-1 - n] == draft[place - 1 - n]:
        n += 1
    return n
