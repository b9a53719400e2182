"""Blocks of tokens as tensors, on any device and for any ensemble."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ...engine import Features, TokenTree, at
from ..ranking import first_maximum
from .batch import Batch, one_number
from .blocks import AcceptanceRule, Blocks, Verdicts
from .drafting import draft_chain, draft_trees
from .trees import Tree, best_tree, padded


class TensorBlocks(Blocks):
    """See :class:`Blocks`; torch computes what is accepted."""

    def __init__(self, batch: Batch) -> None:
        super().__init__(batch)
        self._trees: Optional[List[Tree]] = None
        self._tree: Optional[TokenTree] = None
        self._depths: Optional[Tensor] = None
        self._path: Optional[Tensor] = None

    @property
    def next_tokens(self) -> Tensor:
        return self._next

    def begin(self, last: Tensor, proposals: Optional[Tensor] = None) -> None:
        batch = self._batch
        if not batch.n_rows:
            return
        self._feed_chains(last[:, None])
        if proposals is not None:
            self._feed_chains(torch.cat([last[:, None], proposals], dim=1))
        fed = batch.feed(self._tokens)
        scores, best = batch.answers(fed)
        self._accept_chains(fed, best, scores, scores[:, :-1], self._agreement(best), first_step=0)
        batch.session.commit(one_number(self._n_accepted))
        if proposals is not None and proposals.size(1):
            batch.append(proposals, scores[:, :-1], one_number(self._n_accepted - 1))
        self._follow(*self._following)

    def go_on(self) -> bool:
        batch = self._batch
        if not batch.n_rows:
            return False
        self._drop_finished()
        ends = self._next.eq(batch.rules.eos)
        if bool(ends.any()):
            batch.append(self._next[:, None], self._next_score[:, None], ends.long())
            self._drop_finished()
        return batch.n_rows > 0

    def propose_nothing(self) -> None:
        self._feed_chains(self._next[:, None])

    def propose(self, proposals: Tensor) -> None:
        self._feed_chains(torch.cat([self._next[:, None], proposals], dim=1))

    def propose_chain(self, n_heads: int, confidence: float = 0.0) -> None:
        batch = self._batch
        if batch.session.has_sequential_heads:
            args = (self._features, self._next, n_heads - 1, confidence)
            proposals = draft_chain(batch, *args)
        else:
            proposals = batch.proposals(self._features, n_heads)
        self.propose(proposals)

    def propose_tree(self, n_heads: int, n_proposals: int, confidence: float = 0.0) -> None:
        batch = self._batch
        if n_heads == 1:
            return self.propose_nothing()
        if batch.session.has_sequential_heads:
            args = (self._features, self._next, n_heads - 1, n_proposals, confidence)
            trees = draft_trees(batch, *args)
        else:
            trees = self._trees_of_heads(n_heads, n_proposals)
        self._feed_trees(padded(trees, batch.rules.pad))

    def _trees_of_heads(self, n_heads: int, n_proposals: int) -> List[Tree]:
        batch = self._batch
        ranked = batch.ranked_proposals(self._features, n_heads, n_proposals)
        shape = (batch.n_rows, n_heads - 1, -1)
        of_rows = (part.reshape(shape).tolist() for part in ranked)
        eos = batch.rules.eos
        return [best_tree(*row, n_proposals, eos) for row in zip(self._next.tolist(), *of_rows)]

    def verify(self, rule: Optional[AcceptanceRule] = None) -> None:
        fed = self._batch.feed(self._tokens, self._tree)
        if self._trees is not None:
            self._verify_trees(fed, self._trees)
        elif rule is None or rule.is_exact:
            self._verify_exactly(fed)
        else:
            self._verify_by(rule, fed)
        self._keep()

    def _keep(self) -> None:
        scores = torch.cat([self._next_score[:, None], self._own_scores], dim=1)
        n = one_number(self._n_accepted)
        self.taken.append(self._batch.keep(self._accepted, scores, n, self._path))
        self._follow(*self._following)

    def certain(self) -> Tuple[Tensor, Tensor]:
        return self._answers, self._n_accepted

    def rest(self, n: int) -> Tuple[Tensor, Tensor]:
        # What an answer at p guesses at lies n_accepted places further on.
        answers, n_accepted = self._answers, self._n_accepted
        places = n_accepted[:, None] + torch.arange(n, device=answers.device)
        is_beyond = places >= answers.size(1)
        rest = answers.gather(1, places.clamp(max=answers.size(1) - 1))
        rest = rest.masked_fill(is_beyond, self._batch.rules.pad)
        return rest, answers.size(1) - n_accepted

    def _feed_trees(self, trees: List[Tree]) -> None:
        self._trees = trees
        # tokens, parents and depths, in one transfer
        columns = self._next.new_tensor([tree[:3] for tree in trees])
        self._tokens, parents, self._depths = columns.unbind(1)
        self._tree = TokenTree(parents)

    def _feed_chains(self, tokens: Tensor) -> None:
        self._tokens = tokens
        self._trees = self._tree = self._depths = self._path = None

    def _verify_trees(self, fed: Features, trees: List[Tree]) -> None:
        best_scores, best = self._batch.answers(fed, first_step=1, depths=self._depths)
        paths = [tree.path(row) for tree, row in zip(trees, best.tolist())]
        path, n_accepted = _padded(paths, self._next)
        kept, answers, scores = (
            known.gather(1, path) for known in (self._tokens, best, best_scores)
        )
        self._batch.observe(1, kept[:, 1:], answers, scores, n_accepted, n_accepted)
        self._answers = answers
        # Every accepted token is p_1's best one after the token before it.
        self._accepted, self._own_scores = kept, scores[:, :-1]
        self._n_accepted, self._path = n_accepted, path
        self._following = self._after(fed, best, best_scores, at(path, n_accepted - 1))

    def _verify_exactly(self, fed: Features) -> None:
        best_scores, best = self._batch.answers(fed, first_step=1)
        verdict = self._agreement(best)
        self._accept_chains(fed, best, best_scores, best_scores[:, :-1], verdict)

    def _verify_by(self, rule: AcceptanceRule, fed: Features) -> None:
        log_probs = self._batch.log_probs_of_block(fed, first_step=1)
        best_scores, best = first_maximum(log_probs)
        proposals, distributions = self._tokens[:, 1:], log_probs[:, :-1]
        own_scores = distributions.gather(-1, proposals[..., None]).squeeze(-1)
        verdict = rule.judge(Verdicts(proposals, best[:, :-1], own_scores, distributions))
        self._accept_chains(fed, best, best_scores, own_scores, verdict)

    def _agreement(self, best: Tensor) -> Tensor:
        """Whether each proposal is the best token after the one before it: bool ``[R, T - 1]``."""
        return self._tokens[:, 1:].eq(best[:, :-1])

    def _accept_chains(
        self,
        fed: Features,
        best: Tensor,
        best_scores: Tensor,
        own_scores: Tensor,
        verdict: Tensor,
        first_step: int = 1,
    ) -> None:
        n_accepted = 1 + verdict.long().cumprod(dim=1).sum(dim=1)
        self._batch.observe(first_step, self._tokens[:, 1:], best, best_scores, n_accepted)
        self._answers = best
        self._accepted, self._own_scores, self._n_accepted = self._tokens, own_scores, n_accepted
        self._following = self._after(fed, best, best_scores, n_accepted - 1)

    def _after(
        self, fed: Features, best: Tensor, best_scores: Tensor, last: Tensor
    ) -> Tuple[Features, Tensor, Tensor]:
        return at(fed, last), at(best, last), at(best_scores, last)

    def _follow(self, features: Features, token: Tensor, score: Tensor) -> None:
        self._features, self._next, self._next_score = features, token, score

    def _drop_finished(self) -> None:
        known = (self._features, self._next, self._next_score, self._answers, self._n_accepted)
        *known, self._answers, self._n_accepted = self._batch.without_finished(*known)
        self._follow(*known)


def _padded(paths: List[List[int]], like: Tensor) -> Tuple[Tensor, Tensor]:
    """Paths int64 ``[R, D]`` with 0 behind them, and how long they are, int64 ``[R]``."""
    longest = max(map(len, paths))
    rows = [path + [0] * (longest - len(path)) for path in paths]
    return like.new_tensor(rows), like.new_tensor([len(path) for path in paths])
