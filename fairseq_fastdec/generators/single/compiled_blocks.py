"""Blocks of tokens on the host, moved by compiled code: one model on a CPU, compiled throughout.

Each of the paper's steps is a call of compiled code between fixed places in memory. So a step costs
Python little, however small the model is.
"""

from typing import Optional, Tuple, Union

import torch
from torch import Tensor

from ...engine import Features
from ...engine.kernels.best_token import BestToken
from ...engine.kernels.blocks import RowBlocks
from ...engine.kernels.drafts import AttendedSources, ChainRequest, Flags
from ...engine.kernels.head_trees import HeadTrees
from ...engine.kernels.verification import Verification
from ...engine.session.direct_steps import DirectSteps
from ...engine.session.output_layer import DirectDrafts, DirectOutput
from .batch import Batch
from .blocks import AcceptanceRule, Blocks, Verdicts
from .drafting import MOST_EXPANDED, draft_chain, draft_trees
from .trees import padded


class CompiledBlocks(Blocks):
    """See :class:`Blocks`; compiled code computes everything."""

    def __init__(
        self, batch: Batch, direct: DirectSteps, p1: DirectOutput, rows: RowBlocks
    ) -> None:
        """
        Args:
            p1: what computes p_1's logits.
            rows: memory for all rows of the batch and the longest blocks.
        """
        super().__init__(batch)
        self._direct = direct
        self._p1 = p1
        self._rows = rows
        self._has_trees = False
        self._has_sequential_heads = batch.session.has_sequential_heads
        compiled, proposals = batch.best_tokens.for_p1, batch.best_tokens.for_proposals
        assert compiled is not None and proposals is not None
        self._for_p1: BestToken = compiled
        self._for_proposals: BestToken = proposals
        self._for_p1.bind(p1.layer, p1.types)
        batch.outputs_for(rows)
        # Others look at a step before its rows grow, or say what may be chosen.
        is_alone = not (batch.is_observed or batch.repeats_no_ngrams)
        self._verification = self._of_all_parts() if is_alone else None
        self._own_scores: Optional[Tensor] = None
        self._n_ended = 0
        self._announced: Optional[Tuple[int, float]] = None
        # What drafts the announced chains, as long as the sources of the rows lie where they lay.
        self._next_chains: Tuple[Optional[AttendedSources], int] = (None, 0)
        self._n_drafted = 0

    def _of_all_parts(self) -> Optional[Verification]:
        heads = self._p1.heads
        return self._batch.best_tokens.verification(self._rows, self._direct.transformer, heads)

    @classmethod
    def of(cls, batch: Batch, most_new: int) -> Optional["CompiledBlocks"]:
        """The blocks of a batch, of up to so many tokens; ``None`` if torch has to compute some."""
        direct = batch.session.direct() if batch.best_tokens.for_p1 is not None else None
        p1 = None if direct is None else direct.output(0, 1)
        if direct is None or p1 is None:
            return None
        rows = batch.best_tokens.row_blocks(batch.n_rows, most_new, direct.dim)
        return None if rows is None else cls(batch, direct, p1, rows)

    @property
    def next_tokens(self) -> Tensor:
        return self._rows.next_tokens[: self._batch.n_rows]

    def begin(self, last: Tensor, proposals: Optional[Tensor] = None) -> None:
        if not self._batch.n_rows:
            return
        self._rows.begin(last)
        if proposals is None:
            self.propose_nothing()
        else:
            self.propose(proposals)
        self._verify(None, n_known=1)

    def go_on(self) -> bool:
        batch, rows = self._batch, self._rows
        if self._n_ended:
            self._n_ended = 0
            batch.count_block(rows.n_ended(), 0, 0)
            order = batch.drop_finished()
            if order is not None and order.numel():
                rows.select(order)
                batch.outputs_for(rows)
        return batch.n_rows > 0

    def propose_nothing(self) -> None:
        self._has_trees = False
        self._rows.take_chains(1)

    def propose(self, proposals: Tensor) -> None:
        n_rows, n = proposals.shape
        self._rows.proposals[: n_rows * n] = proposals.flatten()
        self._has_trees = False
        self._rows.take_chains(1 + n)

    def announce_chains(self, n_heads: int, confidence: float = 0.0) -> None:
        can_draft = self._has_sequential_heads and self._direct.drafts(rough=True) is not None
        if can_draft and n_heads > 1:
            self._announced = (n_heads, confidence)

    def propose_chain(self, n_heads: int, confidence: float = 0.0) -> None:
        if n_heads == 1:
            return self.propose_nothing()
        if self._n_drafted and self._announced == (n_heads, confidence):
            self._has_trees = False
            return self._rows.take_chains(1 + self._n_drafted)
        batch, rows = self._batch, self._rows
        if self._has_sequential_heads:
            return self._draft_chain(n_heads - 1, confidence)
        output = self._direct.output(1, n_heads, rough=True)
        if output is None:
            features = Features([self._states()])
            n = batch.n_rows * (n_heads - 1)
            rows.proposals[:n] = batch.proposals(features, n_heads).flatten()
        else:
            self._choose_proposals(output, n_heads)
        self._has_trees = False
        rows.take_chains(n_heads)

    def propose_tree(self, n_heads: int, n_proposals: int, confidence: float = 0.0) -> None:
        if n_heads == 1:
            return self.propose_nothing()
        if self._has_sequential_heads:
            return self._draft_trees(n_heads - 1, n_proposals, confidence)
        trees = self._head_trees(n_heads)
        if trees is None:
            self._rank_and_grow(n_heads, n_proposals)
        else:
            self._rows.grow_by(trees, n_proposals, *self._batch.end_flags(1, n_heads - 1))
        self._has_trees = True

    def _draft_chain(self, n_steps: int, confidence: float) -> None:
        drafts = self._direct.drafts(rough=True)
        if drafts is None:
            args = (Features([self._states()]), self.next_tokens, n_steps, confidence)
            return self.propose(draft_chain(self._batch, *args))
        sources, flags = self._direct.sources(), self._draft_flags(n_steps)
        # These flags take the places of those in the announced task.
        self._next_chains = (None, 0)
        request = self._chain_request(drafts, sources, n_steps, flags, confidence)
        n_taken = drafts.compiled.chains_at(request)
        self._has_trees = False
        self._rows.take_chains(1 + n_taken)

    def _chain_request(
        self,
        drafts: DirectDrafts,
        sources: AttendedSources,
        n_steps: int,
        flags: Flags,
        confidence: float,
    ) -> ChainRequest:
        """Ask for chains behind the rows of now."""
        rows, best = self._rows, self._for_proposals
        best.bind(drafts.layer, drafts.types)
        places = rows.states.data_ptr(), rows.next_tokens.data_ptr()
        proposals = rows.proposals.data_ptr()
        return ChainRequest(sources, *places, n_steps, best, flags, proposals, confidence)

    def _announced_task(self) -> Optional[int]:
        """The task that drafts behind the blocks of now, if no rule about ends restricts it."""
        if self._announced is None:
            return None
        n_heads, confidence = self._announced
        if not self._batch.are_open(1, self._rows.n_new + n_heads - 1):
            return None
        sources = self._direct.sources()
        if sources is not self._next_chains[0]:
            drafts = self._direct.drafts(rough=True)
            assert drafts is not None
            request = self._chain_request(drafts, sources, n_heads - 1, Flags(), confidence)
            self._next_chains = (sources, drafts.compiled.prepare_chains(request))
        return self._next_chains[1]

    def _draft_trees(self, n_levels: int, n_proposals: int, confidence: float) -> None:
        batch, rows = self._batch, self._rows
        drafts, chooser = self._direct.drafts(rough=True), batch.best_tokens.chooser.compiled
        if drafts is None or chooser is None or drafts.types is not None:
            features = Features([self._states()])
            args = (features, self.next_tokens, n_levels, n_proposals, confidence)
            trees = padded(draft_trees(batch, *args), batch.rules.pad)
            rows.plant(*(torch.tensor(part) for part in zip(*trees)))
        else:
            drafts.compiled.trees_at(
                self._direct.sources(),
                rows.states.data_ptr(),
                n_levels,
                n_proposals,
                MOST_EXPANDED,
                drafts.layer,
                chooser,
                batch.session.temperature,
                self._draft_flags(n_levels),
                rows,
                confidence,
            )
        self._has_trees = True

    def _draft_flags(self, n_steps: int) -> Flags:
        """The rules about ends at each step of drafts."""
        return Flags(*self._batch.end_flags(1, n_steps, by_step=True))

    def verify(self, rule: Optional[AcceptanceRule] = None) -> None:
        self.taken.append(self._verify(rule, n_known=0))

    def certain(self) -> Tuple[Tensor, Tensor]:
        (answers,) = self._block(self._rows.answers)
        if self._has_trees:
            answers = answers.gather(1, self._block(self._rows.path)[0])
        return answers, self._rows.accepted[: self._batch.n_rows]

    def rest(self, n: int) -> Tuple[Tensor, Tensor]:
        n_rows = self._batch.n_rows
        return self._rows.rest[:n_rows, :n], self._rows.n_rest[:n_rows]

    def _verify(self, rule: Optional[AcceptanceRule], n_known: int) -> Union[int, Tensor]:
        """Feed the blocks and keep what is accepted; returns how many tokens each row took.

        Args:
            n_known: 1 if the rows have their blocks' first tokens already.
        """
        self._batch.count_step()
        asks = not (self._has_trees or rule is None or rule.is_exact)
        if asks or not self._verify_at_once(n_known):
            self._verify_in_parts(rule if asks else None, n_known)
        return self._count(n_known)

    def _verify_at_once(self, n_known: int) -> bool:
        """One call of compiled code; returns whether it did anything."""
        verification = self._verification
        if verification is None:
            return False
        self._direct.prepare(self._rows.n_new)
        chains = self._announced_task()
        n_ended = verification.run(*self._end_flags(1 - n_known), n_known, chains)
        if n_ended is None:
            return False
        self._n_ended, self._n_drafted = n_ended, verification.n_drafted
        if self._has_trees:
            self._commit()
        else:
            self._direct.extend_rows_to(*verification.lengths)
        return True

    def _verify_in_parts(self, rule: Optional[AcceptanceRule], n_known: int) -> None:
        """The same call by call, by any rule."""
        rows, first_step, self._n_drafted = self._rows, 1 - n_known, 0
        self._feed()
        self._answer(first_step, asks=rule is not None)
        verdict, self._own_scores = None, None
        if rule is not None:
            verdict = self._judge(rule)
        rows.accept(verdict)
        if self._batch.is_observed:
            self._tell(first_step)
        rows.keep(self._own_scores, n_known)
        self._n_ended = rows.end_rows()
        self._commit()

    def _commit(self) -> None:
        """Tell the session what the rows took."""
        accepted = self._rows.n_accepted()
        if self._has_trees:
            self._batch.session.commit(accepted, self._block(self._rows.path)[0])
        else:
            self._direct.commit(accepted)

    def _count(self, n_known: int) -> Union[int, Tensor]:
        """Tell the batch what the rows took; returns it."""
        batch, rows = self._batch, self._rows
        taken = rows.n_taken()
        if rows.n_new > n_known:
            is_alone = isinstance(taken, int)
            bounds = (taken, taken) if is_alone else (1 - n_known, rows.n_new - n_known)
            batch.count_block(taken, *bounds)
        return taken

    def _states(self) -> Tensor:
        return self._rows.states[: self._batch.n_rows]

    def _feed(self) -> None:
        rows = self._rows
        if not self._has_trees:
            rows.lead()
        parents = rows.parents.data_ptr() if self._has_trees else None
        self._direct.step(rows.tokens.data_ptr(), rows.n_new, rows.features.data_ptr(), parents)

    def _answer(self, first_step: int, asks: bool = False) -> None:
        """p_1's best token after each of the block; if it ``asks``, the proposals' scores, too."""
        rows, n = self._rows, self._batch.n_rows * self._rows.n_new
        states = rows.features
        if self._p1.heads is not None:
            states = torch.empty(n, self._direct.dim)
            self._p1.heads.compute_at(rows.features.data_ptr(), n, states.data_ptr())
        asked = (None, None)
        if asks:
            blocks = rows.asked[:n].view(-1, rows.n_new)
            blocks[:, :-1] = rows.tokens[:n].view(-1, rows.n_new)[:, 1:]
            blocks[:, -1] = -1
            asked = (rows.asked.data_ptr(), rows.asked_scores.data_ptr())
        flags = self._end_flags(first_step)
        forbidden = self._forbidden(first_step) if self._batch.repeats_no_ngrams else None
        places = (rows.answer_scores, rows.answers, *asked)
        self._choose(self._for_p1, states, flags, n, *places, forbidden=forbidden)

    def _end_flags(self, first_step: int) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        depths = self._block(self._rows.depths)[0] if self._has_trees else None
        return self._batch.end_flags(first_step, self._rows.n_new, depths)

    def _forbidden(self, first_step: int) -> Optional[Tensor]:
        tokens, parents = self._block(self._rows.tokens, self._rows.parents)
        return self._batch.forbidden_after(tokens, parents if self._has_trees else None, first_step)

    def _choose(
        self,
        best: BestToken,
        states: Tensor,
        flags: Tuple[Optional[Tensor], Optional[Tensor]],
        n: int,
        scores: Tensor,
        tokens: Tensor,
        *asked: Optional[int],
        forbidden: Optional[Tensor] = None,
        normalize: bool = True,
    ) -> None:
        """Choose the best tokens of n states; flags: those of :meth:`Batch.end_flags`."""
        no_end, only_end = (None if flag is None else flag.data_ptr() for flag in flags)
        best.choose_at(
            states.data_ptr(),
            n,
            scores.data_ptr(),
            tokens.data_ptr(),
            no_end,
            only_end,
            *asked,
            forbidden=forbidden,
            normalize=normalize,
        )

    def _head_trees(self, n_heads: int) -> Optional[HeadTrees]:
        """Trees of heads 2 ... n in one call; ``None`` if torch has to help."""
        output = self._direct.output(1, n_heads, rough=True)
        if output is None or output.heads is None or output.types is not None:
            return None
        return self._batch.best_tokens.head_trees(n_heads, output.heads, output.layer)

    def _rank_and_grow(self, n_heads: int, n_proposals: int) -> None:
        batch, n = self._batch, self._batch.n_rows
        ranked = batch.ranked_proposals(Features([self._states()]), n_heads, n_proposals)
        scores, tokens = (part.reshape(n, n_heads - 1, -1) for part in ranked)
        self._rows.grow(scores, tokens, n_proposals)

    def _choose_proposals(self, output: DirectOutput, n_heads: int) -> None:
        batch, rows = self._batch, self._rows
        n = batch.n_rows * (n_heads - 1)
        of_heads = torch.empty(n, self._direct.dim)
        assert output.heads is not None
        output.heads.compute_at(rows.states.data_ptr(), batch.n_rows, of_heads.data_ptr())
        flags = batch.end_flags(1, n_heads - 1)
        self._for_proposals.bind(output.layer, output.types)
        places = (rows.asked_scores, rows.proposals)
        self._choose(self._for_proposals, of_heads, flags, n, *places, normalize=False)

    def _judge(self, rule: AcceptanceRule) -> Tensor:
        tokens, answers, scores = self._block(
            self._rows.tokens, self._rows.answers, self._rows.asked_scores
        )
        self._own_scores = scores[:, :-1].contiguous()
        verdicts = Verdicts(tokens[:, 1:], answers[:, :-1], self._own_scores, None)
        return rule.judge(verdicts).contiguous()

    def _block(self, *of_blocks: Tensor) -> Tuple[Tensor, ...]:
        """Views ``[R, T]`` of what is kept for the blocks, in the memory of more."""
        n_rows, n_new = self._batch.n_rows, self._rows.n_new
        return tuple(part[: n_rows * n_new].view(n_rows, n_new) for part in of_blocks)

    def _tell(self, first_step: int) -> None:
        """Tell the batch's observer of the step; what it is told it may keep."""
        rows, n = self._rows, self._batch.n_rows
        tokens, answers, scores = self._block(rows.tokens, rows.answers, rows.answer_scores)
        accepted = rows.accepted[:n].clone()
        if not self._has_trees:
            args = (tokens[:, 1:].clone(), answers.clone(), scores.clone(), accepted)
            self._batch.observe(first_step, *args)
            return
        path = self._block(rows.path)[0][:, : int(accepted.max())]
        kept, answers, scores = (known.gather(1, path) for known in (tokens, answers, scores))
        self._batch.observe(1, kept[:, 1:], answers, scores, accepted, accepted)
