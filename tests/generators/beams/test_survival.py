"""Candidates are judged: compiled code and numpy leave the same behind, step by step."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.kernels.top_k import Best
from fairseq_fastdec.generators.beams.finalization import FINALIZATIONS
from fairseq_fastdec.generators.beams.focus import Focus
from fairseq_fastdec.generators.beams.history import FEWEST_LENGTHS, History
from fairseq_fastdec.generators.beams.slots import Slots
from fairseq_fastdec.generators.beams.survival import CompiledSurvival, Survival
from fairseq_fastdec.generators.constraints import GenerationRules
from tests.support.compiled import compiled

EOS, BOS = 2, 0
BY_SLOT = ("length", "width", "steps", "expansions", "n_final", "n_waiting", "best_final")


class Search:
    """The tables of a search, and who changes them."""

    def __init__(self, width, rule, threshold):
        self.slots, self.history, self.focus = Slots(width), History(width), Focus(width)
        self.survival = Survival.of(
            self.slots, self.history, self.focus, FINALIZATIONS[rule], threshold, EOS
        )

    def admit(self, n):
        slots = self.slots.take(n, np.zeros((n, 0), dtype=np.int64))
        self.history.reserve(self.slots.n, 1)
        self.history.begin(slots, BOS)
        focus = self.focus
        self.focus.begin(
            np.concatenate([focus.slots, slots]),
            np.concatenate([focus.row_slots, slots]),
            np.concatenate([focus.columns, np.zeros_like(slots)]),
            self.slots,
            self.history,
        )

    def seen(self):
        """Everything that a later step reads."""
        focus, slots = self.focus, self.slots
        used = focus.slots
        beams = focus.beams
        rows = [focus.row_slots, focus.columns, focus.tokens.numpy()]
        return [
            *(array.tolist() for array in (used, *rows, beams.totals[: beams.n_rows])),
            beams.rows[: beams.n_rows].tolist(),
            beams.starts[: beams.n_beams + 1].tolist(),
            (focus.shortest, focus.longest),
            *(getattr(slots, name)[used].tolist() for name in BY_SLOT),
            [waiting(slots, slot) for slot in used.tolist()],
        ]


def waiting(slots, slot):
    """The candidates of a slot that wait, best first."""
    columns = (slots.waiting_scores, slots.waiting_lengths, slots.waiting_columns)
    rows = zip(*(column[slot].tolist() for column in columns))
    return [row for row in rows if row[0] > -math.inf][: slots.n_waiting[slot]]


def hypotheses(search, slots):
    """Those of the sentences in the slots: what the rules make of them is tested elsewhere."""
    rules = GenerationRules(pad=1, unk=3, eos=EOS)
    found = search.history.hypotheses(search.slots.ends(slots), rules, torch.device("cpu"))
    return [{name: value.tolist() for name, value in one.items()} for one in found]


def random_candidates(random, focus, n, n_values, ends):
    """Extensions of the rows, best first in each beam, some equal, some missing."""
    n_beams = focus.n_beams
    scores = -random.integers(0, n_values, (n_beams, n)).astype(np.float32) / 4
    scores[random.random(scores.shape) < 0.2] = -math.inf
    scores = -np.sort(-scores, axis=1)
    beams = focus.beams
    rows = np.zeros((n_beams, n), dtype=np.int64)
    for beam in range(n_beams):
        rows[beam] = random.choice(beams.rows[beams.starts[beam] : beams.starts[beam + 1]], n)
    tokens = np.where(random.random(rows.shape) < ends, EOS, random.integers(4, 99, rows.shape))
    return Best(scores, rows, tokens)


@compiled
@pytest.mark.parametrize("rule", list(FINALIZATIONS))
@settings(max_examples=150, deadline=None)
@given(
    width=st.integers(1, 7), n_values=st.sampled_from([3, 30, 3000]), seed=st.integers(0, 9999),
    threshold=st.sampled_from([0.0, 1.0, 4.0, math.inf]), ends=st.sampled_from([0.05, 0.3, 0.9]),
    begins=st.lists(st.integers(0, 5), min_size=1, max_size=12),
)  # fmt: skip
def test_compiled_code_does_what_numpy_does(rule, width, n_values, seed, threshold, ends, begins):
    random = np.random.default_rng(seed)
    ours = Search(width, rule, threshold)
    assert isinstance(ours.survival, CompiledSurvival)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "library", lambda: None)
        theirs = Search(width, rule, threshold)
    searches = (ours, theirs)
    n = width * FINALIZATIONS[rule].candidates_per_entry
    for n_new in begins:
        if n_new:
            for search in searches:
                search.admit(n_new)
        if not ours.focus.n_beams:
            continue
        extensions = random_candidates(random, ours.focus, n, n_values, ends)
        fates = [search.survival.judge(extensions) for search in searches]
        assert (fates[0] is None) == (fates[1] is None)
        order = None
        if fates[0] is not None:
            assert fates[0].tolist() == fates[1].tolist()
            done = [search.focus.slots[fates[0]] for search in searches]
            for search, slots in zip(searches, done):
                search.slots.end_as_they_stand(slots[search.slots.n_final[slots] == 0])
            assert hypotheses(ours, done[0]) == hypotheses(theirs, done[1])
            for search, slots in zip(searches, done):
                search.slots.give_back(slots)
            order = random.permutation((~fates[0]).nonzero()[0])
        moves = [search.survival.extend(order) for search in searches]
        assert moves[0] == moves[1]
        origins = [search.focus.origins_on(torch.device("cpu")).tolist() for search in searches]
        assert origins[0] == origins[1]
        assert ours.seen() == theirs.seen()


@pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "numpy"])
def test_a_sentence_may_be_longer_than_there_was_room_for(way, request):
    if way == "numpy":
        request.getfixturevalue("nothing_compiled")
    search = Search(1, "paper", math.inf)
    search.admit(1)
    tokens = [*range(4, 4 + 2 * FEWEST_LENGTHS), EOS]
    for step, token in enumerate(tokens):
        rows = np.zeros((1, 1), dtype=np.int64)
        best = Best(np.float32([[-step]]), rows, rows + token)
        done = search.survival.judge(best)
        assert (done is not None) == (token == EOS)
        if token != EOS:
            search.survival.extend(None)
    (found,) = hypotheses(search, search.focus.slots)
    assert found["tokens"] == tokens
    assert found["positional_scores"] == [0.0] + [-1.0] * (len(tokens) - 1)
