"""The engine's face to the generators: several models that decode as one."""

import logging
import math
from typing import Dict, List, Optional, Sequence, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor
from torch.nn import functional as F

from ..network.gradients import without_gradients
from ..network.support import unsupported_part
from .decoder_session import DecoderSession
from .direct_steps import DirectSteps
from .fairseq_session import FairseqSession, decodes_incrementally
from .features import Features
from .incremental import IncrementalSession
from .output_layer import PendingProduct, ProposalWays
from .recurrent import RecurrentSession, is_recurrent
from .scores import Scores
from .shortlist import Shortlist
from .tree import TokenTree

logger = logging.getLogger(__name__)


class EnsembleSession:
    """A session for each member; probabilities are averaged as fairseq does.

    Members that the engine cannot run go through fairseq's incremental decoding, which is slower.

    Generators see no members: a step returns one :class:`~.features.Features` for all of them.

    Attributes:
        temperature: divides the logits before the softmax.
    """

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        temperature: float = 1.0,
        precision: str = "model",
        equal_steps: bool = False,
        shortlist: Optional[Shortlist] = None,
        cuda_graphs: str = "auto",
        proposals: ProposalWays = ProposalWays(),
    ) -> None:
        """
        Args:
            models: the members; dictionaries must agree, sizes need not.
            temperature: divides the logits before the softmax.
            precision, equal_steps: see :func:`~..products.precision.precision_of`.
            shortlist: the target types that may be used (default: all).
            proposals: see :class:`DecoderSession`.
            cuda_graphs: see :data:`~..cuda_graphs.recorders.RECORDERS`; members that the
                engine cannot run have no graphs.

        Raises:
            UnsupportedModel: if neither the engine nor fairseq's incremental decoding can run one
                of the models.
            ValueError: if one of the models cannot be run in that precision, or with a shortlist.
        """
        self._members = [
            _session_for(
                model, temperature, precision, equal_steps, shortlist, cuda_graphs, proposals
            )
            for model in models
        ]
        self._some_normalized = any(member.normalized for member in self._members)
        self.temperature = temperature
        self._shortlist = shortlist

    @property
    def members(self) -> List[Union[DecoderSession, FairseqSession]]:
        """The models' own sessions."""
        return self._members

    @property
    def shortlist(self) -> Optional[Shortlist]:
        """The target types that may be used; ``None`` for all."""
        return self._shortlist

    @property
    def n_rows(self) -> int:
        """The number of rows now, without those that are paused."""
        return self._members[0].n_rows

    @property
    def block_size(self) -> int:
        """The number of heads that every member has."""
        return min(self.block_sizes)

    @property
    def block_sizes(self) -> List[int]:
        """The number of heads of each member, in the order of the models; 0 for a stock model."""
        return [member.block_size for member in self._members]

    @property
    def has_sequential_heads(self) -> bool:
        """Whether the members' heads see the tokens before theirs."""
        return self._members[0].has_sequential_heads

    @property
    def heads_agree(self) -> bool:
        """Whether the members' heads are of one kind, and can propose together."""
        return len({member.has_sequential_heads for member in self._members}) == 1

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens that every member predicts at once.

        Raises:
            ValueError: if members predict different numbers of tokens.
        """
        numbers = sorted({member.tokens_per_step for member in self._members})
        if len(numbers) > 1:
            raise ValueError(
                f"--path: models of {numbers[0]} and of {numbers[1]} tokens a step cannot decode "
                "together; give models with the same --tokens-per-step"
            )
        return numbers[0]

    def reset(self, max_len: int) -> None:
        """Forget all rows; see :meth:`DecoderSession.reset`."""
        for member in self._members:
            member.reset(max_len)

    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences and append a row for each; see :meth:`DecoderSession.add`."""
        for member in self._members:
            member.add(net_input, forced)

    def step(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Features:
        """Feed ``[R, T]`` tokens; see :meth:`DecoderSession.step`."""
        return Features([member.step(tokens, tree) for member in self._members])

    def commit(self, n: Union[int, Tensor], path: Optional[Tensor] = None) -> None:
        """Keep the first n fed tokens; see :meth:`DecoderSession.commit`."""
        for member in self._members:
            member.commit(n, path)

    def select(self, rows: Tensor) -> None:
        """Gather, drop or duplicate rows; see :meth:`DecoderSession.select`.

        Rows that stay as they are, as in narrow beams until a sentence leaves, cost nothing.
        """
        if torch.equal(rows, torch.arange(self.n_rows, device=rows.device)):
            return
        for member in self._members:
            member.select(rows)

    def pause(self, n_rows: int) -> None:
        """Let the first rows rest; see :meth:`DecoderSession.pause`."""
        for member in self._members:
            member.pause(n_rows)

    @without_gradients
    def log_probs(self, features: Features, first: int = 0, last: int = 1) -> Tensor:
        """Log-probabilities of heads ``first ... last - 1``.

        Args:
            features: ``[..., C]`` for each member.

        Returns:
            float32 ``[..., last - first, V]``, whatever the models' precision, as in fairseq. With
            a shortlist they are normalised over its types, and ``-inf`` elsewhere.
        """
        log_probs = [
            scores.float() if member.normalized else F.log_softmax(scores, -1, dtype=torch.float32)
            for member, scores in zip(self._members, self._scores(features, first, last))
        ]
        return self._spread(_mean(log_probs))

    def direct(self) -> Optional[DirectSteps]:
        """See :meth:`DecoderSession.direct`; ``None`` for several models, too."""
        if len(self._members) > 1 or self._members[0].normalized:
            return None
        return self._members[0].direct()

    def pending(
        self, features: Features, first: int = 0, last: int = 1, rough: bool = False
    ) -> Optional[PendingProduct]:
        """The product that gives heads' logits, before the :attr:`temperature`.

        Returns:
            see :meth:`DecoderSession.pending`; ``None`` for several models, too, since their
            probabilities have to be averaged, and for a model that the engine cannot run.
        """
        if len(self._members) > 1 or self._members[0].normalized:
            return None
        return self._members[0].pending(features.of_members[0], first, last, rough)

    @without_gradients
    def scores(self, features: Features) -> Tuple[Tensor, bool]:
        """p_1's :meth:`log_probs`; for a single model its logits, which only lack the softmax.

        Returns:
            float32 ``[..., V]``, and whether they are log-probabilities. The caller may write into
            the scores, until the next call, which may use their memory again.
        """
        return self.scores_of_members(features).averaged()

    def scores_of_members(self, features: Features) -> Scores:
        """The scores that :meth:`scores` averages.

        Averaging reads and writes the vocabulary several times. A search that reads it once has the
        average made of the few tokens that it is about to choose.
        """
        if self._shortlist is not None:
            return Scores([self.log_probs(features)[..., 0, :]], True)
        own = [
            self._scores_of(member, member_features)
            for member, member_features in zip(self._members, features.of_members)
        ]
        if not self._some_normalized:
            return Scores(own, False)
        log_probs = [
            scores if member.normalized else F.log_softmax(scores, dim=-1)
            for member, scores in zip(self._members, own)
        ]
        return Scores(log_probs, True)

    def _scores_of(self, member: Union[DecoderSession, FairseqSession], features: Tensor) -> Tensor:
        """A member's logits, divided by the temperature, or its log-probabilities."""
        if member.normalized:
            return member.project(features)[..., 0, :].float()
        logits = member.logits(features).float()
        return logits if self.temperature == 1.0 else logits / self.temperature

    @without_gradients
    def ranking_scores(
        self, features: Features, first: int = 0, last: int = 1, rough: bool = False
    ) -> Tensor:
        """Scores to rank tokens by: :meth:`log_probs`, plus any constant at each position.

        A single model is spared the normalisation over the vocabulary. If ``rough``, its product
        may be computed with half as many bits; see :meth:`DecoderSession.project`.
        """
        if len(self._members) > 1:
            return self.log_probs(features, first, last)
        return self._spread(self._scores(features, first, last, rough)[0].float())

    def begin_drafts(self, features: Features, rough: bool = False) -> Features:
        """See :meth:`DecoderSession.begin_drafts`: ``[R, C]`` to ``[R, 1, C]``."""
        return Features(
            [
                member.begin_drafts(own, rough)
                for member, own in zip(self._members, features.of_members)
            ]
        )

    def extend_drafts(self, states: Features, tokens: Tensor, rough: bool = False) -> Features:
        """See :meth:`DecoderSession.extend_drafts`: ``[R, W, C]`` to the same."""
        return Features(
            [
                member.extend_drafts(own, tokens, rough)
                for member, own in zip(self._members, states.of_members)
            ]
        )

    def draft_scores(self, states: Features, rough: bool = False) -> Tensor:
        """Scores of what comes next, as :meth:`ranking_scores`: ``[..., V]``."""
        logits = [
            member.draft_logits(own, rough) / self.temperature
            for member, own in zip(self._members, states.of_members)
        ]
        if len(logits) == 1:
            return self._spread(logits[0].float())
        log_probs = [F.log_softmax(own, -1, dtype=torch.float32) for own in logits]
        return self._spread(_mean(log_probs))

    def _spread(self, scores: Tensor) -> Tensor:
        # The softmax comes before: it takes far less time over a shortlist than over all types.
        return scores if self._shortlist is None else self._members[0].spread(scores)

    def _scores(
        self, features: Features, first: int, last: int, rough: bool = False
    ) -> List[Tensor]:
        """Each member's logits, divided by the temperature, or its log-probabilities."""
        scores = [
            member.project(member_features, first, last, rough)
            for member, member_features in zip(self._members, features.of_members)
        ]
        if self.temperature == 1.0:
            return scores
        return [
            own if member.normalized else own / self.temperature
            for member, own in zip(self._members, scores)
        ]


def _mean(log_probs: List[Tensor]) -> Tensor:
    """The logarithm of the members' mean probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.logsumexp(torch.stack(log_probs), dim=0) - math.log(len(log_probs))


def _session_for(
    model: FairseqEncoderDecoderModel,
    temperature: float,
    precision: str,
    equal_steps: bool,
    shortlist: Optional[Shortlist],
    cuda_graphs: str,
    proposals: ProposalWays,
) -> Union[DecoderSession, FairseqSession]:
    problem = unsupported_part(model)
    if problem is None or not decodes_incrementally(model):
        return DecoderSession(model, precision, equal_steps, shortlist, cuda_graphs, proposals)
    if precision != "model":
        raise ValueError(
            f"--engine-precision {precision}: {problem}; remove it, such models are computed as "
            "they are"
        )
    if shortlist is not None:
        raise ValueError(
            f"--shortlist: {problem}; remove it, such models compute all types of the vocabulary"
        )
    logger.info("%s; it is decoded through fairseq's incremental state, which is slower", problem)
    return (RecurrentSession if is_recurrent(model) else IncrementalSession)(model, temperature)
