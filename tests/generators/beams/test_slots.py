"""The table of sentences under way: rows are used again, and remember nothing."""

import math

import numpy as np
import pytest

from fairseq_fastdec.generators.beams.slots import Slots

WIDTH = 3
NO_PREFIX = np.zeros((2, 0), dtype=np.int64)


@pytest.fixture()
def slots():
    """A table with two sentences, slots 0 and 1."""
    table = Slots(WIDTH)
    assert table.take(2, NO_PREFIX).tolist() == [0, 1]
    return table


def finish(table, slot, scores, final, lengths=(4, 5, 6), columns=(2, 0, 1)):
    rows = (np.array([row]) for row in (final, np.float32(scores), lengths, columns))
    table.finish(np.array([slot]), *rows)


def test_a_slot_that_is_used_again_knows_nothing_of_before(slots):
    finish(slots, 1, [-1.0, -2.0, -3.0], [True, False, True])
    waiting = np.array([[True, True, False]])
    numbers = np.array([[4, 5, 6]])
    slots.set_waiting(np.array([1]), waiting, np.float32([[-1, -2, -3]]), numbers, numbers)
    for name in ("length", "steps", "expansions", "width"):
        getattr(slots, name)[1] = 7
    slots.give_back(np.array([1]))
    assert slots.take(1, np.array([[8, 9]])).tolist() == [1]
    for name in ("length", "n_final", "n_waiting", "steps", "expansions"):
        assert getattr(slots, name)[1] == 0, name
    assert slots.width[1] == 1
    assert slots.best_final[1] == -math.inf
    assert (slots.waiting_scores[1] == -math.inf).all()
    assert slots.ends(np.array([1])).slots.size == 0


def test_prefixes_of_any_length(slots):
    slots.give_back(np.array([0, 1]))
    slots.take(2, np.array([[4, 5], [6, 7]]))
    slots.give_back(np.array([0, 1]))
    slots.take(2, np.array([[8], [9]]))
    assert slots.forced[:2, 0].tolist() == [8, 9]
    slots.give_back(np.array([0, 1]))
    slots.take(2, np.array([[1, 2, 3], [4, 5, 6]]))
    assert slots.forced[:2].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_more_sentences_than_ever_before(slots):
    slots.length[:] = [3, 4]
    version = slots.version
    new = slots.take(1, NO_PREFIX[:1])
    assert new.tolist() == [2] and slots.n >= 3 and slots.version != version
    assert slots.length[:2].tolist() == [3, 4]
    version = slots.version
    slots.give_back(new)
    assert slots.take(1, NO_PREFIX[:1]).size == 1 and slots.version == version
    assert len({*range(2), *slots.take(5, np.zeros((5, 0), dtype=np.int64)).tolist()}) == 7


def test_hypotheses_are_added_behind_those_that_are_final(slots):
    finish(slots, 1, [-1.0, -2.0, -3.0], [False, True, False])
    finish(slots, 1, [-1.0, -2.0, -3.0], [True, False, True], lengths=(7, 8, 9))
    assert slots.n_final.tolist() == [0, 3]
    assert slots.best_final.tolist() == [-math.inf, -1]
    finish(slots, 0, [-6.0, -7.0, -8.0], [False, False, True])
    ends = slots.ends(np.array([1, 0]))
    assert ends.slots.tolist() == [1, 1, 1, 0]
    assert ends.lengths.tolist() == [5, 7, 9, 6]
    assert ends.columns.tolist() == [0, 2, 1, 1]
    assert ends.scores.tolist() == [-2, -1, -3, -8]
    finish(slots, 0, [-9.0, -9.5, -9.9], [True, False, False])
    assert slots.best_final[0] == -8, "a later one may be worse"


def test_only_those_that_are_marked_wait(slots):
    both, numbers = np.array([0, 1]), np.array([[4, 5, 6], [7, 8, 9]])
    marks = np.array([[True, True, True], [False, True, False]])
    slots.set_waiting(both, marks, np.float32([[-1, -2, -3], [-4, -5, -6]]), numbers, numbers + 9)
    assert slots.n_waiting.tolist() == [3, 1]
    assert slots.waiting_scores.tolist() == [[-1, -2, -3], [-math.inf, -5, -math.inf]]
    assert slots.waiting_lengths.tolist() == numbers.tolist()
    assert slots.waiting_columns.tolist() == (numbers + 9).tolist()
    # Fewer candidates than the beam is wide.
    few = numbers[:, :1]
    slots.set_waiting(both, marks[:, :1], np.float32([[-7], [-8]]), few, few)
    assert slots.n_waiting.tolist() == [1, 0]
    assert slots.waiting_scores.tolist() == [[-7, -math.inf, -math.inf], [-math.inf] * 3]


def test_a_sentence_without_a_next_token_ends_as_it_stands(slots):
    slots.length[1] = 4
    slots.final_columns[1] = 2
    slots.end_as_they_stand(np.array([1]))
    ends = slots.ends(np.array([0, 1]))
    assert [field.tolist() for field in ends] == [[1], [4], [0], [-math.inf]]


def test_the_arrays_of_compiled_code_are_the_tables_own(slots):
    arrays = slots.arrays
    assert arrays["lengths"] is slots.length and arrays["widths"] is slots.width
    others = {name: array for name, array in arrays.items() if name not in ("lengths", "widths")}
    assert all(array is getattr(slots, name) for name, array in others.items())
    assert {"steps", "expansions", "n_final", "n_waiting", "best_final"} < set(others)
