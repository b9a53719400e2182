"""The paper's DOUBLETOPK against loops over all pairs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators.double_token.pair_candidates import double_topk
from fairseq_fastdec.generators.top_tokens import Choices


@settings(max_examples=50, deadline=None)
@given(
    n_beams=st.integers(1, 3), n_entries=st.integers(1, 4), width=st.integers(1, 4),
    seed=st.integers(0, 999), sure=st.booleans(),
)  # fmt: skip
def test_double_topk_is_the_papers_3w_pairs(n_beams, n_entries, width, seed, sure):
    """Among the 3W best pairs are the best W, and W that go on, or as many as there are there."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n_beams, n_entries, 2, 11, generator=generator)
    if sure:
        logits[..., 10] += 6
    log_probs = logits.log_softmax(-1)
    totals = torch.randn(n_beams, n_entries, generator=generator)
    left, right = (
        Choices(*(field.numpy() for field in side.topk(min(2 * width, 11))))
        for side in log_probs.flatten(0, 1).unbind(1)
    )
    best, unfinished = double_topk(left, right, totals.numpy(), width, end=10)
    for beam in range(n_beams):
        lefts = (totals[beam, :, None] + log_probs[beam, :, 0]).flatten().sort(descending=True)
        pool = []
        for total, index in list(zip(*(part.tolist() for part in lefts)))[: 2 * width]:
            entry, left = divmod(index, 11)
            for right in range(11):
                score = total + log_probs[beam, entry, 1, right].item()
                pool.append((score, entry, left, right))
        pool.sort(reverse=True)
        assert_pairs(best, beam, pool[:width])
        going_on = [pair for pair in pool if 10 not in pair[2:]][:width]
        assert_pairs(unfinished, beam, going_on)
        in_the_papers_list = [pair for pair in pool[: 3 * width] if 10 not in pair[2:]][:width]
        assert going_on[: len(in_the_papers_list)] == in_the_papers_list


def assert_pairs(pairs, beam, expected):
    n = len(expected)
    assert pairs.totals[beam, :n].tolist() == pytest.approx([p[0] for p in expected], abs=1e-4)
    assert pairs.columns[beam, :n].tolist() == [p[1] for p in expected]
    assert pairs.tokens[beam, :n].tolist() == [list(p[2:]) for p in expected]
    assert (pairs.totals[beam, n:] == -math.inf).all()
