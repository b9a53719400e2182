"""The best tokens of each row: compiled and by torch, against sorting everything."""

import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.native.loading import library
from fairseq_fastdec.generators import choices
from fairseq_fastdec.generators.choices import ANY, Demands
from fairseq_fastdec.generators.limits import Limits
from tests import skips

PAD, EOS, UNK = 1, 2, 3

compiled = pytest.mark.skipif(library() is None, reason=skips.COMPILER)
BY_TORCH = dict(library=lambda: None)
PATCHES = {
    "compiled": {},
    "columns": dict(BY_TORCH, SMALLEST_SCAN=1, FEW_SCORES=0),
    "top-k": BY_TORCH,
}
WAYS = pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "columns"])


@contextmanager
def chosen_by(way):
    """One of the ways in which tokens are chosen."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PATCHES[way].items():
            patch.setattr(choices, name, value)
        yield


def choose(scores, n, normalized, only=None, no_end=None, never=(), **limits):
    demands = None
    if only is not None:
        demands = Demands(np.array(only), np.array(no_end), np.zeros(len(only), dtype=bool))
    limits = Limits(pad=PAD, unk=UNK, eos=EOS, **limits)
    return choices.Chooser(limits, never)(scores.clone(), n, demands, normalize=not normalized)


def expected_of(scores, n, normalized, only, no_end, never, unkpen):
    """Each row's (token, score), best first, by the plain rules."""
    log_probs = scores.double() if normalized else scores.double().log_softmax(-1)
    for row, one, unended in zip(log_probs.tolist(), only, no_end):
        row = [-math.inf if math.isnan(score) else score for score in row]
        row[UNK] -= unkpen
        impossible = {PAD, *never} | ({EOS} if unended else set())
        found = [
            (token, score)
            for token, score in enumerate(row)
            if token not in impossible and one in (ANY, token) and score > -math.inf
        ]
        yield sorted(found, key=lambda pair: -pair[1])[:n]


# Any width of registers has several chunks in the longest.
@WAYS
@pytest.mark.parametrize("normalized", [False, True], ids=["logits", "log-probs"])
@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_rows=st.integers(1, 4), n_types=st.sampled_from([5, 64, 150, 700]))
def test_the_best_of_each_row(way, normalized, data, n_rows, n_types):
    n = data.draw(st.integers(1, min(30, n_types)))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    scores = 5 * torch.randn(n_rows, n_types, generator=generator)
    impossible = torch.rand(scores.shape, generator=generator)
    scores[impossible < data.draw(st.sampled_from([0, 0.5, 0.99, 1]))] = -math.inf
    if normalized:
        scores = scores.log_softmax(-1)
    token = st.sampled_from([ANY, ANY, PAD, EOS, UNK, 4])
    rules = dict(
        only=data.draw(st.lists(token, min_size=n_rows, max_size=n_rows)),
        no_end=data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)),
        never=data.draw(st.sampled_from([(), (4,), (0, 4)])),
        unkpen=data.draw(st.sampled_from([0.0, 0.7, -20.0])),
    )
    with chosen_by(way):
        found = choose(scores, n, normalized, **rules)
    expected = expected_of(scores, n, normalized, **rules)
    assert found.scores.shape == found.tokens.shape == (n_rows, n)
    for own_scores, own_tokens, best in zip(found.scores, found.tokens, expected):
        assert own_tokens[: len(best)].tolist() == [token for token, _ in best]
        assert own_scores[: len(best)] == pytest.approx([s for _, s in best], abs=1e-4)
        assert (own_scores[len(best) :] == -math.inf).all()


@WAYS
@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_a_row_with_logits_that_are_no_numbers_has_no_token(way, unknown):
    scores = torch.randn(3, 90)
    scores[1, 77] = unknown
    with chosen_by(way):
        found = choose(scores, 4, normalized=False)
    assert (found.scores[1] == -math.inf).all()
    assert (found.scores[[0, 2]] > -math.inf).all()


@WAYS
def test_log_probabilities_that_are_no_numbers_are_of_no_token(way):
    scores = torch.randn(2, 90)
    scores[0, :] = math.nan
    scores[0, 50] = -3
    with chosen_by(way):
        found = choose(scores, 2, normalized=True)
    assert found.tokens[0, 0] == 50 and found.scores[0].tolist() == [-3, -math.inf]


@compiled
@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_and_long_vocabularies(n_threads):
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        scores = 3 * torch.randn(7, 50_001)
        found = choose(scores, 12, normalized=False)
    finally:
        torch.set_num_threads(before)
    log_probs = scores.double().log_softmax(-1)
    log_probs[:, PAD] = -math.inf
    best = log_probs.topk(12)
    assert found.tokens.tolist() == best.indices.tolist()
    np.testing.assert_allclose(found.scores, best.values.numpy(), atol=1e-5)


@compiled
def test_among_equals_the_first_tokens_are_chosen():
    scores = torch.zeros(1, 300)
    scores[0, 200:] = 1
    assert choose(scores, 3, normalized=True).tokens.tolist() == [[200, 201, 202]]


def test_columns_are_used_where_they_pay():
    log_probs = torch.zeros(10, 37_000)
    assert choices._block_length(log_probs, 10) > 8
    assert choices._block_length(log_probs, 37_000) == 1
    assert choices._block_length(log_probs[:1], 10) == 1
    assert choices._block_length(log_probs[:, :4000], 10) == 1


@given(
    min_len=st.integers(0, 4), max_len=st.integers(0, 4), n_waived=st.integers(0, 3),
    bad=st.sampled_from([0.0, math.nan, math.inf]), seed=st.integers(0, 99),
)  # fmt: skip
def test_demands_of_limits_are_their_constraints(min_len, max_len, n_waived, bad, seed):
    """Here tokens are chosen, there scores are changed."""
    limits = Limits(pad=PAD, unk=UNK, eos=EOS, min_len=min_len)
    steps = torch.arange(5)
    scores = torch.randn(5, 8, generator=torch.Generator().manual_seed(seed))
    scores[:, EOS] += bad
    constrained = limits.constrain(scores.clone(), steps, max_len, n_waived)
    demands = Demands.of(limits, steps.numpy(), max_len, n_waived)
    for way in ("top-k", "compiled"):
        with chosen_by(way):
            found = choices.Chooser(limits)(scores.clone(), 8, demands, normalize=False)
        for row, own_scores, own_tokens in zip(constrained.tolist(), *found):
            there = [token for token in range(8) if row[token] > -math.inf]
            own = own_tokens[own_scores > -math.inf].tolist()
            assert own == sorted(there, key=lambda token: -row[token])
            assert own_scores[: len(own)].tolist() == [row[token] for token in own]
