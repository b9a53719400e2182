"""The best extensions of ragged beams, against sorting everything."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators import candidates
from fairseq_fastdec.generators.candidates import Rows, best_extensions


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


@pytest.mark.parametrize("smallest_scan", [1, 10**9], ids=["columns", "top-k"])
@settings(max_examples=80, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    vocabulary=st.integers(2, 150),
    n=st.integers(1, 30),
    per_row=st.sampled_from([None, 1, 2, 5, 200]),
    impossible=st.floats(0, 0.99),
    seed=st.integers(0, 999),
)
def test_best_extensions(smallest_scan, widths, vocabulary, n, per_row, impossible, seed):
    random = torch.Generator().manual_seed(seed)
    beam = torch.arange(len(widths)).repeat_interleave(torch.tensor(widths))
    column = torch.cat([torch.randperm(width, generator=random) for width in widths])
    shuffled = torch.randperm(beam.numel(), generator=random)
    beam, column = beam[shuffled], column[shuffled]
    log_probs = torch.randn(beam.numel(), vocabulary, generator=random)
    log_probs[torch.rand(log_probs.shape, generator=random) < impossible] = -math.inf
    totals = torch.randn(beam.numel(), generator=random)
    rows = Rows(beam, column, len(widths), max(widths) + seed % 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "SMALLEST_SCAN", smallest_scan)
        found = best_extensions(log_probs, totals, rows, n, per_row)
    for which, expected in enumerate(brute_force(log_probs, totals, beam, len(widths), n, per_row)):
        expected = [candidate for candidate in expected if candidate[0] > -math.inf]
        columns = (found.scores[which], found.rows[which], found.tokens[which])
        own = [found_ for found_ in zip(*(c.tolist() for c in columns)) if found_[0] > -math.inf]
        assert own == expected


def test_columns_are_used_where_they_pay():
    log_probs = torch.zeros(6, 4000)
    rows = Rows(torch.arange(6) // 3, torch.arange(6) % 3, 2, 3)
    assert candidates._block_length(log_probs, rows, 10) > 8
    assert candidates._block_length(log_probs[:, :100], rows, 10) == 1
    assert candidates._block_length(log_probs, rows, 3000) == 1
