"""The best extensions of ragged beams, against sorting everything."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import Scores
from fairseq_fastdec.engine.kernels.top_k import Beams
from fairseq_fastdec.generators.beams import candidates
from fairseq_fastdec.generators.beams.candidates import (
    Wanted,
    best_extensions,
    extensions_of_choices,
)
from fairseq_fastdec.generators.constraints import ANY, GenerationRules, TokenConstraints
from fairseq_fastdec.generators.top_tokens import Choices, Chooser
from tests.support.choosing import chosen_by
from tests.support.compiled import compiled


def beams_of(beam, column, totals):
    """Rows r that are the entries ``column[r]`` of beams ``beam[r]``."""
    starts = np.append(0, np.bincount(beam).cumsum())
    return Beams(np.lexsort((column, beam)), starts, totals)


def brute_force(own, totals, beam, n_beams, n):
    """For each beam its (score, row, token), best first, by sorting lists."""
    best = []
    for which in range(n_beams):
        pool = []
        for row in (beam == which).nonzero()[0]:
            scores = own.scores[row] + totals[row]
            pool += zip(scores.tolist(), [row] * scores.size, own.tokens[row].tolist())
        best.append(sorted(pool, reverse=True)[:n])
    return best


@settings(max_examples=120, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=5) | st.just([1, 1, 1]),
    n_own=st.integers(1, 12),
    n=st.integers(1, 30),
    impossible=st.floats(0, 0.99),
    seed=st.integers(0, 999),
)
def test_extensions_of_choices(widths, n_own, n, impossible, seed):
    random = np.random.default_rng(seed)
    beam = np.repeat(np.arange(len(widths)), widths)
    column = np.concatenate([random.permutation(width) for width in widths])
    shuffled = random.permutation(beam.size)
    beam, column = beam[shuffled], column[shuffled]
    scores = random.standard_normal((beam.size, n_own), dtype=np.float32)
    scores[random.random(scores.shape) < impossible] = -math.inf
    own = Choices(-np.sort(-scores, axis=1), random.integers(0, 99, scores.shape))
    totals = random.standard_normal(beam.size, dtype=np.float32)

    found = extensions_of_choices(own, beams_of(beam, column, totals), n)
    for which, expected in enumerate(brute_force(own, totals, beam, len(widths), n)):
        expected = [candidate for candidate in expected if candidate[0] > -math.inf]
        columns = (found.scores[which], found.rows[which], found.tokens[which])
        extensions = [one for one in zip(*(c.tolist() for c in columns)) if one[0] > -math.inf]
        assert extensions == expected


@pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "top-k"])
@settings(max_examples=40, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=5), n=st.integers(1, 60),
    per_row=st.none() | st.integers(1, 9) | st.just(60), n_types=st.integers(5, 9),
    seed=st.integers(0, 999), some_last=st.booleans(),
)  # fmt: skip
def test_best_extensions(way, widths, n, per_row, n_types, seed, some_last):
    """So many of each beam, of which so many from a row; and where EOS has to come, it does."""
    random = np.random.default_rng(seed)
    beam = random.permutation(np.repeat(np.arange(len(widths)), widths))
    column = np.zeros_like(beam)
    for which, width in enumerate(widths):
        column[beam == which] = random.permutation(width)
    scores = random.standard_normal((beam.size, n_types), dtype=np.float32)
    totals = random.standard_normal(beam.size, dtype=np.float32)
    rules = GenerationRules(pad=1, unk=3, eos=2)
    last = (random.random(len(widths)) < 0.5)[beam] & some_last
    no_eos = np.zeros(beam.size, dtype=bool)
    constraints = TokenConstraints(np.full(beam.size, ANY), no_eos, only_eos=last)
    with chosen_by(way):
        found = best_extensions(
            Chooser(rules), Scores([torch.from_numpy(scores.copy())], normalized=True),
            beams_of(beam, column, totals), Wanted(n, per_row), constraints,
        )  # fmt: skip
    assert found.scores.shape[1] <= min(n, max(widths) * n_types)
    for which in range(len(widths)):
        pool = []
        for row in (beam == which).nonzero()[0].tolist():
            tokens = [rules.eos] if last[row] else [t for t in range(n_types) if t != rules.pad]
            own = sorted(((scores[row, t] + totals[row], row, t) for t in tokens), reverse=True)
            pool += own[:per_row]
        expected = sorted(pool, reverse=True)[:n]
        there = found.scores[which] > -math.inf
        fields = (found.scores[which][there], found.rows[which][there], found.tokens[which][there])
        assert list(zip(*(field.tolist() for field in fields))) == expected


@pytest.mark.parametrize("few", [0, 10**9], ids=["many", "few"])
@given(
    n_rows=st.integers(1, 3), n_columns=st.integers(1, 30), n=st.integers(1, 30),
    n_values=st.integers(1, 9), seed=st.integers(0, 999),
)  # fmt: skip
def test_best_first_is_a_stable_sort(few, n_rows, n_columns, n, n_values, seed):
    random = np.random.default_rng(seed)
    scores = random.integers(0, n_values, (n_rows, n_columns)).astype(np.float32)
    scores[scores == 0] = -math.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "FEW_SCORES", few)
        found = candidates.best_first(scores, n)
    for row, order in zip(scores.tolist(), found.tolist()):
        assert order == sorted(range(n_columns), key=lambda place: -row[place])[:n]


def test_equal_scores_keep_their_order_beside_any_other_beam():
    own = Choices(np.zeros((7, 2), np.float32), np.arange(5, 19).reshape(7, 2))
    for beam in ([0, 0], [0, 0, 1], [0, 0, 1, 1, 1, 1, 1]):
        beam = np.array(beam)
        column = np.array([1, 0, 0, 1, 2, 3, 4])[: beam.size]
        beams = beams_of(beam, column, np.zeros(beam.size, np.float32))
        some = Choices(own.scores[: beam.size], own.tokens[: beam.size])
        assert extensions_of_choices(some, beams, 3).tokens[0].tolist() == [7, 8, 5]
