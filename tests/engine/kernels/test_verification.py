"""Verifying blocks in one call: what its parts find, one after the other."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.kernels.best_token import BestToken
from fairseq_fastdec.engine.kernels.blocks import RowBlocks
from fairseq_fastdec.engine.kernels.drafts import ChainRequest, Flags
from fairseq_fastdec.engine.kernels.verification import Verification
from tests.support import tiny
from tests.support.compiled import PRECISIONS, compiled
from tests.support.drawn import draw_tokens

PAD, EOS, UNK, WIDTH, MOST_NEW = 1, 2, 3, 40, 4
TASK = tiny.task(20)
MODEL = tiny.stir(tiny.build_model(TASK))
HEADS = dict(block_heads="sequential", identity_first_head=True)
WITH_HEADS = tiny.stir(tiny.build_model(TASK, "blockwise_transformer", **HEADS))


class Rows:
    """Three sentences, what they have so far, and p_1's output layer."""

    def __init__(self, precision="model", model=MODEL):
        self.session = DecoderSession(model, precision, equal_steps=True)
        self.session.reset(WIDTH)
        self.session.add(tiny.random_batch(TASK, [4, 6, 2])["net_input"])
        self.direct = self.session.direct()
        output = self.direct.output(0, 1)
        self.best = BestToken.of((PAD,), EOS, UNK, 0.0)
        self.best.bind(output.layer, output.types)
        self.blocks = RowBlocks.of(3, MOST_NEW, self.direct.dim)
        self.tokens, self.scores = torch.ones(3, WIDTH).long(), torch.zeros(3, WIDTH)
        self.blocks.write_to(self.tokens, self.scores, EOS, PAD)
        self.lengths, self.finished = torch.zeros(3).long(), torch.zeros(3).bool()
        self.blocks.bind(torch.arange(3), self.lengths, self.finished)
        self.blocks.next_tokens[:] = EOS
        self.n_ended = 0

    def chains(self, n_steps):
        """The model's heads, and what to ask them for: chains behind the rows."""
        drafts, blocks = self.direct.drafts(rough=True), self.blocks
        best = BestToken.of((PAD,), EOS, UNK, 0.0)
        best.bind(drafts.layer, drafts.types)
        places = blocks.states.data_ptr(), blocks.next_tokens.data_ptr()
        proposals = blocks.proposals.data_ptr()
        args = (self.direct.sources(), *places, n_steps, best, Flags(), proposals)
        return drafts.compiled, ChainRequest(*args)

    def draft(self, n_steps):
        drafter, request = self.chains(n_steps)
        assert drafter.chains_at(request) == n_steps
        self.blocks.take_chains(1 + n_steps)

    def extend(self, n_known):
        self.direct.prepare(self.blocks.n_new)
        self.verify_in_parts(n_known, is_tree=False)
        self.commit(is_tree=False)

    def verification(self):
        return Verification.of(self.blocks, self.direct.transformer, self.best)

    def propose(self, proposals, parents):
        """Chains of the next tokens and these ``[R, N]``, or trees."""
        blocks, (n_rows, n) = self.blocks, proposals.shape
        if parents is None:
            blocks.proposals[: n_rows * n] = proposals.flatten()
            return blocks.take_chains(1 + n)
        tokens = torch.cat([blocks.next_tokens[:, None], proposals], dim=1)
        parents = torch.tensor([[-1, *parents]] * n_rows)
        blocks.plant(tokens, parents, torch.zeros_like(parents), torch.zeros(parents.shape))

    def verify_in_parts(self, n_known, is_tree):
        blocks, best = self.blocks, self.best
        if not is_tree:
            blocks.lead()
        parents = blocks.parents.data_ptr() if is_tree else None
        features = blocks.features.data_ptr()
        self.direct.step(blocks.tokens.data_ptr(), blocks.n_new, features, parents)
        places = (blocks.answer_scores.data_ptr(), blocks.answers.data_ptr())
        best.choose_at(features, 3 * blocks.n_new, *places)
        blocks.accept()
        blocks.keep(None, n_known)
        self.n_ended = blocks.end_rows()

    def commit(self, is_tree):
        path = self.blocks.path[: 3 * self.blocks.n_new].view(3, -1) if is_tree else None
        self.session.commit(self.blocks.n_accepted(), path)

    def state(self):
        blocks = self.blocks
        known = (self.tokens, self.scores, self.lengths, self.finished, self.session.rows.lengths)
        of_blocks = (blocks.next_tokens, blocks.next_scores, blocks.states, blocks.ended)
        of_blocks = (*of_blocks, blocks.n_taken(), blocks.n_accepted())
        return [part.clone() for part in (*known, *of_blocks)]


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_it_finds_what_its_parts_find(precision, data):
    at_once, in_parts = Rows(precision), Rows(precision)
    verification = at_once.verification()
    for step in range(4):
        n = data.draw(st.integers(0, MOST_NEW - 1))
        is_tree = bool(step and data.draw(st.booleans()))
        parents = [data.draw(st.integers(0, i)) for i in range(n)] if is_tree else None
        proposals = draw_tokens(data, 3, n)
        if data.draw(st.booleans()):
            # p_1's own answers are proposed, so that some are accepted.
            proposals = at_once.blocks.answers[: 3 * n].view(3, n).clone()
        n_known = int(step == 0)
        for rows in (at_once, in_parts):
            rows.propose(proposals, parents)
        at_once.direct.prepare(at_once.blocks.n_new)
        n_ended = verification.run(None, None, n_known)
        if n_ended is None:
            at_once.verify_in_parts(n_known, is_tree)
            at_once.commit(is_tree)
        elif is_tree:
            at_once.commit(is_tree)
        else:
            at_once.direct.extend_rows_to(*verification.lengths)
        in_parts.verify_in_parts(n_known, is_tree)
        in_parts.commit(is_tree)
        assert (at_once.n_ended if n_ended is None else n_ended) == in_parts.n_ended
        for own, other in zip(at_once.state(), in_parts.state()):
            assert torch.equal(own, other)
        own, other = at_once.session.rows, in_parts.session.rows
        assert (own.shortest, own.longest) == (other.shortest, other.longest)


@compiled
def test_without_scratch_memory_no_row_changes():
    rows = Rows()
    verification = rows.verification()
    before = rows.state()
    rows.blocks.take_chains(1)
    rows.direct.prepare(1)
    assert verification.run(None, None, 1) is None
    for own, other in zip(rows.state(), before):
        assert torch.equal(own, other)


@compiled
@pytest.mark.parametrize("precision", PRECISIONS)
def test_chains_are_drafted_behind_what_the_rows_keep(precision):
    n_steps = MOST_NEW - 1
    at_once, apart = (Rows(precision, WITH_HEADS) for _ in range(2))
    for rows in (at_once, apart):
        # Behind two blocks all parts have the memory that they want.
        rows.blocks.take_chains(1)
        rows.extend(1)
        rows.draft(n_steps)
        rows.extend(0)
        rows.draft(n_steps)
        rows.direct.prepare(MOST_NEW)
    drafter, request = at_once.chains(n_steps)
    verification = at_once.verification()
    assert verification.run(None, None, 0, drafter.prepare_chains(request)) == 0
    assert verification.n_drafted == n_steps
    at_once.direct.extend_rows_to(*verification.lengths)
    apart.extend(0)
    apart.draft(n_steps)
    n = 3 * n_steps
    assert torch.equal(at_once.blocks.proposals[:n], apart.blocks.proposals[:n])
    for own, other in zip(at_once.state(), apart.state()):
        assert torch.equal(own, other)


@compiled
def test_nothing_is_drafted_where_rows_leave_or_memory_is_missing():
    rows = Rows(model=WITH_HEADS)
    verification = rows.verification()
    rows.blocks.take_chains(1)
    rows.extend(1)
    rows.direct.prepare(1)
    # The drafter has no scratch memory yet.
    drafter, request = rows.chains(2)
    assert verification.run(None, None, 0, drafter.prepare_chains(request)) == 0
    assert verification.n_drafted == 0
    rows.direct.extend_rows_to(*verification.lengths)
    drafter.chains_at(request)
    rows.blocks.next_tokens[1] = EOS
    rows.direct.prepare(1)
    assert verification.run(None, None, 0, drafter.prepare_chains(request)) == 1
    assert verification.n_drafted == 0


@compiled
@pytest.mark.parametrize("name, wrong", [("n_rows", 2), ("dim", 8)])
def test_parts_of_other_sizes_are_refused(name, wrong):
    """The rows of the blocks are those of the step, whose features p_1 takes."""
    rows = Rows()
    verification = rows.verification()
    rows.blocks.take_chains(1)
    rows.direct.prepare(1)
    owner = rows.blocks.structure.rows if name == "n_rows" else rows.blocks.structure
    setattr(owner, name, wrong)
    with pytest.raises(ValueError, match="sizes"):
        verification.run(None, None, 1)


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert Verification.of(None, None, None) is None
