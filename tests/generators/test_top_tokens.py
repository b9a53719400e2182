"""The best tokens of each row: compiled and by torch, against sorting everything."""

import math
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import Scores
from fairseq_fastdec.engine.kernels import top_k
from fairseq_fastdec.engine.kernels.top_k import Beams
from fairseq_fastdec.generators import top_tokens
from fairseq_fastdec.generators.constraints import ANY, GenerationRules, TokenConstraints
from tests.support.choosing import WAYS, chosen_by
from tests.support.compiled import compiled

PAD, EOS, UNK = 1, 2, 3


def choose(scores, n, normalized, only=None, no_end=None, never=(), **limits):
    constraints = None
    if only is not None:
        no_last = np.zeros(len(only), dtype=bool)
        constraints = TokenConstraints(np.array(only), np.array(no_end), no_last)
    rules = GenerationRules(pad=PAD, unk=UNK, eos=EOS, never=tuple(never), **limits)
    chooser = top_tokens.Chooser(rules)
    return chooser.choose_by_row(scores.clone(), n, constraints, normalize=not normalized)


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


SPECIAL = [0.0, -0.0, 1.0, -1.0, 3e38, -3e38, -math.inf, math.nan]


def scores_with_ties(seed, n_rows, n_types, n_values):
    """Scores of few values, or of many; some are ``-inf`` or NaN, and some rows nothing else."""
    random = np.random.default_rng(seed)
    values = np.concatenate([SPECIAL, 9 * random.standard_normal(n_values)]).astype(np.float32)
    scores = values[random.integers(random.integers(0, 9), values.size, (n_rows, n_types))]
    scores[random.random(n_rows) < 0.1] = random.choice([-math.inf, math.nan])
    return scores


# On either side of the number from which on the best are not kept in order.
@compiled
@settings(max_examples=150, deadline=None)
@given(
    n_rows=st.integers(1, 4), n_types=st.integers(4, 900), share=st.floats(0, 1),
    few=st.integers(0, 40), n_values=st.sampled_from([1, 3, 20, 5000]), seed=st.integers(0, 9999),
    unkpen=st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_the_best_are_those_of_a_stable_sort(n_rows, n_types, share, few, n_values, seed, unkpen):
    n = min(n_types, few) if few else max(1, round(share * n_types))
    scores = scores_with_ties(seed, n_rows, n_types, n_values)
    found = choose(torch.from_numpy(scores), n, normalized=True, unkpen=unkpen)
    scores[:, PAD] = -math.inf
    scores[:, UNK] -= np.float32(unkpen)
    scores[np.isnan(scores)] = -math.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
    best = np.take_along_axis(scores, order, axis=1)
    assert found.scores.tolist() == best.tolist()
    there = best > -math.inf
    assert found.tokens[there].tolist() == order[there].tolist()


def beams_of(random, n_rows, n_beams, n_values):
    """Rows shuffled among some beams, of which some may be empty, and their scores so far."""
    beam = random.integers(0, n_beams, n_rows)
    rows = np.argsort(beam, kind="stable")
    totals = random.choice(3 * random.standard_normal(n_values), n_rows).astype(np.float32)
    totals[random.random(n_rows) < 0.1] = -math.inf
    return Beams(rows, np.searchsorted(beam[rows], np.arange(n_beams + 1)), totals)


@compiled
@pytest.mark.parametrize("normalized", [False, True], ids=["logits", "log-probs"])
@settings(max_examples=120, deadline=None)
@given(
    n_rows=st.integers(1, 40), n_beams=st.integers(1, 12), n_types=st.integers(4, 400),
    n=st.integers(1, 40) | st.integers(1, 1200), n_values=st.sampled_from([1, 3, 5000]),
    seed=st.integers(0, 9999), n_threads=st.integers(1, 3), unkpen=st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_the_best_of_beams_are_those_of_a_stable_sort(
    normalized, n_rows, n_beams, n_types, n, n_values, seed, n_threads, unkpen
):
    """Sorted are each row's own best, in their order: the search without compiled code does so."""
    random = np.random.default_rng(seed)
    scores = scores_with_ties(seed, n_rows, n_types, n_values)
    beams = beams_of(random, n_rows, n_beams, n_values)
    no_end = random.random(n_rows) < 0.5
    only = random.choice([ANY, ANY, EOS, PAD, UNK], n_rows)
    constraints = TokenConstraints(only, no_end, np.zeros(n_rows, dtype=bool))
    chooser = top_tokens.Chooser(GenerationRules(pad=PAD, unk=UNK, eos=EOS, unkpen=unkpen))
    own = chooser.choose_by_row(
        torch.from_numpy(scores.copy()), n_types, constraints, normalize=not normalized
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "FEW_SCORES", 0)
        patch.setattr(torch, "get_num_threads", lambda: n_threads)
        found = chooser.choose_by_beam(
            [torch.from_numpy(scores)], n, None, constraints, not normalized, beams
        )
    best, rows, tokens = found
    assert best.shape == rows.shape == tokens.shape == (n_beams, n)
    for which in range(n_beams):
        mine = beams.rows[beams.starts[which] : beams.starts[which + 1]]
        pool = (own.scores[mine] + beams.totals[mine, None]).reshape(-1)
        pool[np.isnan(pool)] = -math.inf
        order = np.argsort(-pool, kind="stable")[:n]
        expected = pool[order]
        n_there = int((expected > -math.inf).sum())
        assert best[which, :n_there].tolist() == expected[:n_there].tolist()
        assert (best[which, n_there:] == -math.inf).all()
        row, place = np.divmod(order[:n_there], n_types)
        assert rows[which, :n_there].tolist() == mine[row].tolist()
        assert tokens[which, :n_there].tolist() == own.tokens[mine[row], place].tolist()


@compiled
@pytest.mark.parametrize("normalized", [False, True], ids=["logits", "log-probs"])
@settings(max_examples=120, deadline=None)
@given(
    n_members=st.integers(2, 5), widths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    n_types=st.integers(5, 400), n=st.integers(1, 40), per_row=st.none() | st.integers(1, 9),
    impossible=st.sampled_from([0, 0.5, 0.99]), spread=st.sampled_from([1, 30, 300]),
    unkpen=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 9999), n_threads=st.integers(1, 3),
)  # fmt: skip
def test_the_probabilities_of_an_ensemble_are_averaged(
    normalized, n_members, widths, n_types, n, per_row, impossible, spread, unkpen, seed, n_threads
):
    """As torch averages them, with constraints; a member's NaN leaves a row without a token."""
    random = np.random.default_rng(seed)
    n_rows = sum(widths)
    members = spread * random.standard_normal((n_members, n_rows, n_types), dtype=np.float32)
    members[random.random(members.shape) < impossible] = -math.inf
    members[..., n_types // 2 :][random.random((n_members, n_rows)) < 0.1] = math.nan
    members = [torch.from_numpy(member) for member in members]
    if normalized:
        members = [member.log_softmax(-1) for member in members]
    starts = np.append(0, np.cumsum(widths))
    totals = random.standard_normal(n_rows, dtype=np.float32)
    beams = Beams(random.permutation(n_rows), starts, totals)
    has_to_end = random.random(n_rows) < 0.2
    only = np.where(has_to_end, ANY, random.choice([ANY, ANY, EOS, PAD, UNK, 4], n_rows))
    constraints = TokenConstraints(only, random.random(n_rows) < 0.3, has_to_end)
    constraints.no_eos[has_to_end] = False
    chooser = top_tokens.Chooser(GenerationRules(pad=PAD, unk=UNK, eos=EOS, unkpen=unkpen))
    mean, _ = Scores(members, normalized).averaged()
    own = chooser.choose_by_row(mean, per_row or n_types, constraints, normalize=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top_k, "FEW_SCORES", 0)
        patch.setattr(torch, "get_num_threads", lambda: n_threads)
        found = chooser.choose_by_beam(
            members, n, per_row, constraints, normalize=not normalized, beams=beams
        )
    for which in range(len(widths)):
        mine = beams.rows[starts[which] : starts[which + 1]]
        pool = {
            (row, token): score + totals[row]
            for row in mine.tolist()
            for score, token in zip(own.scores[row], own.tokens[row].tolist())
            if score > -math.inf
        }
        expected = sorted(pool.values(), reverse=True)[:n]
        there = found.scores[which] > -math.inf
        best = found.scores[which][there]
        np.testing.assert_allclose(best, expected, rtol=1e-5, atol=1e-4)
        chosen = list(zip(found.rows[which][there].tolist(), found.tokens[which][there].tolist()))
        assert len(set(chosen)) == len(chosen)
        if per_row is None:  # of equal ones of a row, others may be kept
            own_scores = [pool[pair] for pair in chosen]
            np.testing.assert_allclose(best, own_scores, rtol=1e-5, atol=1e-4)


@compiled
def test_the_time_for_wide_beams_does_not_grow_with_their_square():
    """Kept in order, 20,000 of 200,000 ascending scores take 4 * 10^9 moves, which is seconds."""
    scores = torch.arange(200_000.0)[None]
    started = time.process_time()
    found = choose(scores, 20_000, normalized=True)
    assert time.process_time() - started < 0.5
    assert found.tokens[0].tolist() == list(range(199_999, 179_999, -1))


@compiled
def test_among_equals_a_penalized_token_has_no_privilege():
    scores = torch.zeros(1, 300)
    scores[0, UNK] = 1
    assert choose(scores, 3, normalized=True, unkpen=1.0).tokens.tolist() == [[0, 2, 3]]
    scores[0, 250] = 1
    assert choose(scores, 99, normalized=True, unkpen=1.0).tokens[0, :4].tolist() == [250, 0, 2, 3]


@compiled
def test_among_equals_the_first_tokens_are_chosen():
    scores = torch.zeros(1, 300)
    scores[0, 200:] = 1
    assert choose(scores, 3, normalized=True).tokens.tolist() == [[200, 201, 202]]


def test_columns_are_used_where_they_pay():
    log_probs = torch.zeros(10, 37_000)
    assert top_tokens._block_length(log_probs, 10) > 8
    assert top_tokens._block_length(log_probs, 37_000) == 1
    assert top_tokens._block_length(log_probs[:1], 10) == 1
    assert top_tokens._block_length(log_probs[:, :4000], 10) == 1
