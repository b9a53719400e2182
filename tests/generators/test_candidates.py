"""The best extensions of ragged beams, against sorting everything."""

import math
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators import candidates
from fairseq_fastdec.generators.candidates import FullRows, Rows, best_extensions, best_of_each


def brute_force(log_probs, totals, beam, n_beams, n, per_row):
    """For each beam its (score, row, token), best first, by sorting lists."""
    best = []
    for which in range(n_beams):
        pool = []
        for row in (beam == which).nonzero().squeeze(1).tolist():
            scores = (log_probs[row] + totals[row]).tolist()
            own = sorted(((s, row, token) for token, s in enumerate(scores)), reverse=True)
            pool += own[:per_row]
        best.append(sorted(pool, reverse=True)[:n])
    return best


COLUMNS = dict(
    SMALLEST_SCAN=1, FEW_SCORES=0, SMALLEST_SCAN_OF_LONE_ROWS=1, FEW_SCORES_OF_LONE_ROWS=0
)  # fmt: skip
TOP_K = dict(SMALLEST_SCAN=10**9, SMALLEST_SCAN_OF_LONE_ROWS=10**9)
WAYS = pytest.mark.parametrize("way", [COLUMNS, TOP_K], ids=["columns", "top-k"])


@contextmanager
def patched(way):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in way.items():
            patch.setattr(candidates, name, value)
        yield


@WAYS
@settings(max_examples=80, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=5) | st.just([1, 1, 1]),
    vocabulary=st.integers(2, 150),
    n=st.integers(1, 30),
    per_row=st.sampled_from([None, 1, 2, 5, 200]),
    impossible=st.floats(0, 0.99),
    seed=st.integers(0, 999),
)
def test_best_extensions(way, widths, vocabulary, n, per_row, impossible, seed):
    random = torch.Generator().manual_seed(seed)
    beam = torch.arange(len(widths)).repeat_interleave(torch.tensor(widths))
    column = torch.cat([torch.randperm(width, generator=random) for width in widths])
    shuffled = torch.randperm(beam.numel(), generator=random)
    beam, column = beam[shuffled], column[shuffled]
    log_probs = torch.randn(beam.numel(), vocabulary, generator=random)
    log_probs[torch.rand(log_probs.shape, generator=random) < impossible] = -math.inf
    totals = torch.randn(beam.numel(), generator=random)
    rows = Rows(beam, column, len(widths), max(widths) + seed % 2)

    with patched(way):
        found = best_extensions(log_probs, totals, rows, n, per_row)
    for which, expected in enumerate(brute_force(log_probs, totals, beam, len(widths), n, per_row)):
        expected = [candidate for candidate in expected if candidate[0] > -math.inf]
        columns = (found.scores[which], found.rows[which], found.tokens[which])
        own = [found_ for found_ in zip(*(c.tolist() for c in columns)) if found_[0] > -math.inf]
        assert own == expected


@WAYS
@settings(max_examples=40, deadline=None)
@given(
    n_rows=st.integers(1, 5), vocabulary=st.integers(2, 150), n=st.integers(1, 30),
    seed=st.integers(0, 999),
)  # fmt: skip
def test_best_of_each_row(way, n_rows, vocabulary, n, seed):
    log_probs = torch.randn(n_rows, vocabulary, generator=torch.Generator().manual_seed(seed))
    with patched(way):
        scores, tokens = best_of_each(log_probs, n)
    expected = log_probs.sort(dim=1, descending=True)
    torch.testing.assert_close(scores, expected.values[:, :n], rtol=0, atol=0)
    assert torch.equal(tokens, expected.indices[:, :n])


@WAYS
@pytest.mark.parametrize("n_beams,width", [(1, 1), (4, 1), (1, 3), (3, 4)])
def test_full_rows_are_rows_that_lie_in_order(way, n_beams, width):
    row = torch.arange(n_beams * width)
    rows = Rows(row // width, row % width, n_beams, width)
    full = FullRows(n_beams, width, row.device)
    values = torch.randn(row.numel(), 7)
    assert torch.equal(full.grid(values, 0), rows.grid(values, 0))
    assert torch.equal(full.indices(), rows.indices())
    assert torch.equal(full.widths(), rows.widths())
    log_probs, totals = torch.randn(row.numel(), 90), torch.randn(row.numel())
    with patched(way):
        found, expected = (best_extensions(log_probs, totals, r, 6) for r in (full, rows))
    assert all(torch.equal(*pair) for pair in zip(found, expected))


def test_columns_are_used_where_they_pay():
    log_probs = torch.zeros(60, 4000)
    assert candidates._block_length(log_probs, 3, 10) > 8
    assert candidates._block_length(log_probs[:, :100], 3, 10) == 1
    assert candidates._block_length(log_probs, 3, 3000) == 1
    assert candidates._block_length(log_probs[:6], 3, 10) == 1
    assert candidates._block_length(log_probs[:6], 3, 100) > 1
