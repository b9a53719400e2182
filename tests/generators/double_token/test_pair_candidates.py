"""The paper's DOUBLETOPK against loops over all pairs, and compiled code against numpy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import Scores
from fairseq_fastdec.engine.kernels.pairs import DoubleTopK
from fairseq_fastdec.generators.constraints import ANY, GenerationRules, TokenConstraints
from fairseq_fastdec.generators.double_token.pair_candidates import PairChooser, double_topk
from fairseq_fastdec.generators.double_token.pair_rows import PairRows
from fairseq_fastdec.generators.top_tokens import Choices
from tests.support.compiled import compiled

V, END = 11, 10


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
    pairs = pairs[beam]
    assert pairs["total"][:n].tolist() == pytest.approx([p[0] for p in expected], abs=1e-4)
    assert pairs["column"][:n].tolist() == [p[1] for p in expected]
    assert pairs["tokens"][:n].tolist() == [list(p[2:]) for p in expected]
    assert (pairs["total"][n:] == -math.inf).all()


class Search:
    """Rows, and who chooses what continues them."""

    def __init__(self, width, n_beams, totals):
        self.rows = PairRows(width)
        self.chooser = PairChooser(GenerationRules(pad=1, unk=3, eos=END), width, self.rows)
        self.rows.begin(n_beams, (0, END))
        self.rows.set_shape(*totals.shape)
        self.rows.totals[: totals.size, 0] = totals.reshape(-1)

    def choose(self, scores, constraints):
        """The rows' tokens have these log-probabilities."""
        return self.chooser.choose(
            Scores([torch.from_numpy(scores.copy())], normalized=True), constraints
        )

    def fed(self):
        """Everything that the next step reads."""
        rows = self.rows
        return [array.tolist() for array in (rows.next_tokens, rows.totals, rows.origins)]


def random_constraints(random, n):
    """Limits of n left and right tokens, or none; where a token is given, no other limit holds."""
    if random.random() < 0.4:
        return None
    only = np.where(random.random(n) < 0.1, random.integers(4, V, n), ANY)
    no_eos = (random.random(n) < 0.3) & (only == ANY)
    has_to_end = (random.random(n) < 0.2) & (only == ANY) & ~no_eos
    return TokenConstraints(only, no_eos, has_to_end)


@compiled
@settings(max_examples=300, deadline=None)
@given(
    n_beams=st.integers(1, 4), n_entries=st.integers(1, 5), more=st.integers(0, 4),
    n_values=st.sampled_from([2, 9, 3000]), missing=st.sampled_from([0, 0.3]),
    ends=st.sampled_from([0, 8]), seed=st.integers(0, 9999),
)  # fmt: skip
def test_compiled_code_does_what_numpy_does(
    n_beams, n_entries, more, n_values, missing, ends, seed
):
    """Sums of quarters are exact, so that what is equal for one is equal for both."""
    random = np.random.default_rng(seed)
    width, n_rows = n_entries + more, n_beams * n_entries
    totals = -random.integers(0, n_values, (n_beams, n_entries)).astype(np.float32) / 4
    totals[random.random(totals.shape) < missing] = -math.inf
    scores = -random.integers(0, n_values, (2 * n_rows, V)).astype(np.float32) / 4
    scores[random.random(scores.shape) < missing] = -math.inf
    scores[:, END] += ends
    constraints = random_constraints(random, 2 * n_rows)
    ours = Search(width, n_beams, totals)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DoubleTopK, "of", lambda width, end: None)
        theirs = Search(width, n_beams, totals)
    chosen = [search.choose(scores, constraints) for search in (ours, theirs)]
    for name in ("some_end", "some_lost"):
        assert getattr(chosen[0], name) == getattr(chosen[1], name)
    assert there(chosen[0].best) == there(chosen[1].best)
    going_on = [sorted(there(one.going_on)) for one in chosen]
    assert going_on[0] == going_on[1]
    # Pairs that are missing continue no entry in particular.
    if len(going_on[0]) == n_beams * width:
        assert there(chosen[0].going_on) == there(chosen[1].going_on)
        assert chosen[0].moves == chosen[1].moves
        assert ours.fed() == theirs.fed()


def there(pairs):
    """The pairs that are not missing, each behind the number of its beam."""
    where = (pairs["total"] > -math.inf).nonzero()
    there = pairs[where]
    fields = (there[name].tolist() for name in ("total", "column", "tokens", "scores"))
    return list(zip(where[0].tolist(), *fields))
