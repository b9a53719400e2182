"""What is accepted of blocks and kept, by compiled code: what the paper's rules say, in Python."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.blocks import RowBlocks
from fairseq_fastdec.generators.single.trees import Tree, best_tree
from tests.support.compiled import compiled
from tests.support.drawn import draw_tokens

PAD, EOS, DIM, WIDTH = 1, 2, 3, 16


class Rows:
    """Three rows with blocks of four tokens at most, and where they are written to."""

    def __init__(self, n_rows=3, most_new=4):
        self.blocks = RowBlocks.of(n_rows, most_new, DIM)
        self.tokens = torch.ones(n_rows, WIDTH, dtype=torch.long)
        self.scores = torch.zeros(n_rows, WIDTH)
        self.sentence = torch.arange(n_rows).flip(0).contiguous()
        self.lengths = torch.arange(n_rows)
        self.finished = torch.zeros(n_rows, dtype=torch.bool)
        self.blocks.write_to(self.tokens, self.scores, EOS, PAD)
        self.blocks.bind(self.sentence, self.lengths, self.finished)
        self.blocks.next_tokens[:] = torch.arange(5, 5 + n_rows)
        self.blocks.next_scores[:] = -0.5

    def make_trees(self, tokens, parents):
        """Any trees ``[R, T]``, which no scores would give."""
        n_rows, n_new = tokens.shape
        scores = np.zeros((n_rows, 1, n_new), dtype=np.float32)
        self.blocks.grow(scores, np.full(scores.shape, 9), n_new - 1)
        self.blocks.tokens[: tokens.numel()] = tokens.flatten()
        self.blocks.parents[: tokens.numel()] = parents.flatten()

    def answer(self, answers):
        """p_1's answers ``[R, T]``; each has its own score, and each position its own features."""
        n = answers.numel()
        self.blocks.answers[:n] = answers.flatten()
        self.blocks.answer_scores[:n] = -1.0 - torch.arange(n)
        self.blocks.features[: n * DIM] = torch.arange(n * DIM).float()


@compiled
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_chains(data):
    n_new, with_verdict = data.draw(st.integers(1, 4)), data.draw(st.booleans())
    rows = Rows()
    proposals, answers = draw_tokens(data, 3, n_new - 1), draw_tokens(data, 3, n_new)
    rows.blocks.proposals[: proposals.numel()] = proposals.flatten()
    rows.blocks.take_chains(n_new)
    rows.blocks.lead()
    block = torch.cat([rows.blocks.next_tokens[:, None], proposals], dim=1)
    assert torch.equal(rows.blocks.tokens[: block.numel()].view_as(block), block)
    rows.answer(answers)
    verdict = own_scores = None
    good = proposals.eq(answers[:, :-1])
    if with_verdict:
        verdict = good = draw_tokens(data, 3, n_new - 1).gt(3)
        own_scores = -50.0 - torch.arange(float(proposals.numel())).view_as(proposals)
    rows.blocks.accept(verdict)
    accepted = 1 + good.long().cumprod(dim=1).sum(dim=1)
    assert torch.equal(rows.blocks.accepted, accepted)
    scores = rows.blocks.answer_scores[: answers.numel()].view_as(answers)
    after = own_scores if with_verdict else scores[:, :-1]
    lengths, next_scores = rows.lengths.tolist(), rows.blocks.next_scores.clone()
    n_ended = rows.blocks.keep(own_scores)
    for row in range(3):
        n = int(accepted[row])
        kept = block[row, :n].tolist()
        kept = kept[: kept.index(EOS) + 1] if EOS in kept else kept
        place = slice(lengths[row], lengths[row] + len(kept))
        sentence = int(rows.sentence[row])
        assert rows.tokens[sentence, place].tolist() == kept
        expected = torch.cat([next_scores[row : row + 1], after[row]])[: len(kept)]
        assert torch.equal(rows.scores[sentence, place], expected)
        assert int(rows.blocks.taken[row]) == len(kept)
        assert bool(rows.finished[row]) == (EOS in kept)
        assert int(rows.blocks.next_tokens[row]) == int(answers[row, n - 1])
        assert float(rows.blocks.next_scores[row]) == float(scores[row, n - 1])
        first = (row * n_new + n - 1) * DIM
        assert rows.blocks.states[row].tolist() == [first, first + 1, first + 2]
    assert n_ended == int(rows.finished.sum())


@compiled
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_trees(data):
    n_new = data.draw(st.integers(1, 4))
    rows = Rows()
    tokens, answers = draw_tokens(data, 3, n_new), draw_tokens(data, 3, n_new)
    parents = torch.tensor(
        [[-1, *(data.draw(st.integers(0, i)) for i in range(n_new - 1))] for _ in range(3)]
    )
    rows.make_trees(tokens, parents)
    rows.answer(answers)
    rows.blocks.accept()
    trees = [Tree(*row, [], []) for row in zip(tokens.tolist(), parents.tolist())]
    paths = [tree.path(row) for tree, row in zip(trees, answers.tolist())]
    found = rows.blocks.path[: 3 * n_new].view(3, n_new).tolist()
    assert rows.blocks.accepted.tolist() == [len(path) for path in paths]
    assert [row[: len(path)] for row, path in zip(found, paths)] == paths
    lengths = rows.lengths.tolist()
    rows.blocks.keep()
    for row, path in enumerate(paths):
        kept = [tokens[row, place].item() for place in path]
        kept = kept[: kept.index(EOS) + 1] if EOS in kept else kept
        place = slice(lengths[row], lengths[row] + len(kept))
        assert rows.tokens[int(rows.sentence[row]), place].tolist() == kept
        assert int(rows.blocks.next_tokens[row]) == int(answers[row, path[-1]])


@compiled
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_trees_are_those_that_python_grows(data):
    n_rows, n_heads, n_best, n = (data.draw(st.integers(1, most)) for most in (3, 4, 5, 14))
    n_rows -= data.draw(st.booleans())
    # Few different scores, so that many paths cost the same; and tokens that are impossible.
    score = st.sampled_from([-0.5, -1.0, -1.5, -2.0, -math.inf])
    size = n_rows * n_heads * n_best
    scores = data.draw(st.lists(score, min_size=size, max_size=size))
    tokens = data.draw(st.lists(st.integers(EOS, 9), min_size=size, max_size=size))
    scores = -np.sort(-np.array(scores, dtype=np.float32).reshape(n_rows, n_heads, n_best))
    tokens = np.array(tokens, dtype=np.int64).reshape(n_rows, n_heads, n_best)
    rows = Rows(n_rows, 1 + n)
    blocks, roots = rows.blocks, rows.blocks.next_tokens.tolist()
    blocks.grow(scores, tokens, n)
    expected = [best_tree(*row, n, EOS) for row in zip(roots, scores.tolist(), tokens.tolist())]
    longest = max([1, *(len(tree.tokens) for tree in expected)])
    expected = [tree.padded(longest, PAD) for tree in expected]
    assert blocks.n_new == longest
    grown = (
        part[: n_rows * longest].view(n_rows, longest).tolist()
        for part in (blocks.tokens, blocks.parents, blocks.depths, blocks.path_scores)
    )
    assert list(zip(*grown)) == [tuple(tree) for tree in expected]


@compiled
def test_trees_of_other_numbers_are_refused():
    scores, tokens = np.zeros((3, 2, 3), dtype=np.float32), np.zeros((3, 2, 3), dtype=np.int64)
    for wrong in (
        (scores[:1], tokens[:1], 2),
        (scores, tokens, 4),
        (scores.astype(np.float64), tokens, 2),
        (scores, tokens[:, :1], 2),
    ):
        with pytest.raises(ValueError):
            Rows().blocks.grow(*wrong)


@compiled
def test_rows_whose_next_token_is_the_end_have_ended():
    rows = Rows()
    rows.blocks.next_tokens[:] = torch.tensor([EOS, 7, EOS])
    rows.finished[2] = True
    assert rows.blocks.end_rows() == 2
    assert rows.blocks.ended.tolist() == rows.blocks.n_ended().tolist() == [1, 0, 0]
    assert rows.finished.tolist() == [True, False, True]
    assert rows.tokens[2, 0] == EOS and float(rows.scores[2, 0]) == -0.5
    assert int(rows.tokens.ne(1).sum()) == 1 and rows.lengths.tolist() == [1, 1, 2]


@compiled
def test_rows_that_leave():
    rows = Rows()
    rows.blocks.states[:] = torch.arange(9.0).view(3, 3)
    rows.blocks.select(torch.tensor([2, 1]))
    assert rows.blocks.next_tokens[:2].tolist() == [7, 6]
    assert rows.blocks.states[:2].tolist() == [[6, 7, 8], [3, 4, 5]]


@compiled
@pytest.mark.parametrize("accepted", [0, 3, -1])
def test_counts_that_no_block_has_are_refused(accepted):
    rows = Rows()
    rows.blocks.take_chains(2)
    rows.blocks.accepted[:] = accepted
    with pytest.raises(ValueError, match="sizes"):
        rows.blocks.keep()


@compiled
def test_a_path_beyond_the_tree_is_refused():
    rows = Rows()
    tokens = torch.full((3, 2), 5)
    rows.make_trees(tokens, torch.tensor([[-1, 0]] * 3))
    rows.blocks.accepted[:] = 2
    rows.blocks.path[:6] = 2
    with pytest.raises(ValueError, match="tree"):
        rows.blocks.keep()


def test_without_compiled_code_there_are_none(nothing_compiled):
    assert RowBlocks.of(1, 1, 1) is None
