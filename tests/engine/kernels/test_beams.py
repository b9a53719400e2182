"""Beams between two steps by compiled code; tests/generators/beams/test_survival.py compares."""

import numpy as np
import pytest

from fairseq_fastdec.engine.kernels.beams import DTYPES, INT, BeamTable, Tracer
from tests.support.compiled import compiled

EOS, WIDTH, N_SLOTS, N_LENGTHS = 2, 3, 4, 5
BY_SLOT = "lengths widths steps expansions n_final n_waiting best_final"
BY_ENTRY = "final_scores final_lengths final_columns waiting_scores waiting_lengths waiting_columns"
BY_ROW = "row_slots columns next_tokens totals rows origins"


def zeros(shape, names):
    return {name: np.zeros(shape, dtype=DTYPES.get(name, INT)) for name in names.split()}


def arrays_of(most_beams):
    """All arrays, of beams that have one row each."""
    arrays = {
        **zeros(N_SLOTS, BY_SLOT),
        **zeros((N_SLOTS, WIDTH), BY_ENTRY),
        **zeros((N_SLOTS, N_LENGTHS, WIDTH), "tokens parents scores"),
        **zeros(most_beams * WIDTH, BY_ROW),
        **zeros(most_beams, "focus"),
        **zeros(most_beams + 1, "starts"),
    }
    arrays["widths"][:] = 1
    arrays["focus"][:] = np.arange(most_beams)
    return arrays


def table_of(arrays, most_beams=2, rule="fairseq"):
    table = BeamTable.of(WIDTH, EOS, lets_wait=rule == "paper", threshold=np.inf)
    table.place(N_SLOTS, N_LENGTHS, most_beams, **arrays)
    scores = np.full((most_beams, 2), -1, dtype=np.float32)
    rows = np.zeros((most_beams, 2), dtype=np.int64) + np.arange(most_beams)[:, None]
    tokens = np.full_like(rows, 7)
    table.place_candidates(scores, rows, tokens)
    return table, rows


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert BeamTable.of(WIDTH, EOS, False, 1.0) is Tracer.of() is None


@compiled
def test_beams_grow():
    arrays = arrays_of(2)
    table, _ = table_of(arrays)
    assert table.judge(2, 2) == 0
    assert table.extend(None) == (4, True)
    assert arrays["row_slots"][:4].tolist() == [0, 1, 0, 1]
    assert arrays["origins"][:4].tolist() == [0, 1, 0, 1]
    assert table.lengths == (1, 1)


@compiled
@pytest.mark.parametrize("number", [-1, 3, 2**40, -(2**62)])
@pytest.mark.parametrize("name", ["focus", "columns", "n_final", "n_waiting", "widths"])
def test_numbers_that_lead_elsewhere(name, number):
    arrays = arrays_of(2)
    table, _ = table_of(arrays, rule="paper")
    # There are three columns, and one more of everything else.
    arrays[name][1] = number + (number > 0 and name != "columns")
    with pytest.raises(IndexError, match="not there"):
        table.judge(2, 2)


@compiled
def test_candidates_of_rows_that_are_not_there():
    for row in (-1, 2, 2**40):
        table, rows = table_of(arrays_of(2))
        rows[1, 1] = row
        with pytest.raises(IndexError, match="not there"):
            table.judge(2, 2)


@compiled
@pytest.mark.parametrize("length", [-2, N_LENGTHS - 1, 2**40])
def test_no_room_for_longer_entries(length):
    arrays = arrays_of(2)
    table, _ = table_of(arrays)
    arrays["lengths"][1] = length
    table.judge(2, 2)
    with pytest.raises(IndexError, match="longer"):
        table.extend(None)


@compiled
@pytest.mark.parametrize("order", [[2], [-1], [0, 0, 0]])
def test_beams_that_are_not_there_do_not_go_on(order):
    table, _ = table_of(arrays_of(2))
    table.judge(2, 2)
    with pytest.raises(IndexError, match="not there"):
        table.extend(np.array(order))


@compiled
def test_more_beams_or_rows_than_there_is_room_for():
    for n_beams, n_rows, problem in (
        (3, 2, "candidates of 2 beams"), (-1, 2, "candidates"), (2, 7, "sizes"), (2, -1, "sizes"),
    ):  # fmt: skip
        table, _ = table_of(arrays_of(2))
        with pytest.raises(ValueError, match=problem):
            table.judge(n_beams, n_rows)


@compiled
def test_arrays_of_other_kinds():
    arrays = arrays_of(2)
    for name, wrong in (
        ("lengths", arrays["lengths"].astype(np.int32)),
        ("tokens", arrays["tokens"].astype(np.int64)),
        ("columns", np.zeros(12, dtype=np.int64)[::2]),
    ):
        with pytest.raises(ValueError, match=f"{name}: .* compiled code reads"):
            table_of({**arrays, name: wrong})


@compiled
def test_hypotheses_are_followed_to_their_first_token():
    tokens, parents = (np.zeros((2, 4, 2), dtype=np.int32) for _ in range(2))
    scores = np.zeros((2, 4, 2), dtype=np.float32)
    tokens[1] = [[0, 0], [5, 6], [7, 8], [9, 10]]
    parents[1] = [[0, 0], [0, 0], [1, 0], [1, 1]]
    scores[1] = [[0, 0], [-1, -2], [-4, -3], [-8, -9]]
    ends = (np.array([1, 1]), np.array([3, 0]), np.array([0, 0]), np.array([-10, -1], np.float32))
    found, own = Tracer.of()((tokens, parents, scores), ends, EOS)
    assert found.tolist() == [5, 8, 9, EOS, EOS]
    assert own.tolist() == [-1, -2, -5, -2, -1]


@compiled
def test_entries_that_are_not_there_are_not_followed():
    history = [np.zeros((2, 4, 2), dtype=np.int32) for _ in range(2)]
    history.append(np.zeros((2, 4, 2), dtype=np.float32))
    total = np.zeros(1, dtype=np.float32)
    for slot, length, column in ((2, 1, 0), (-1, 1, 0), (0, 4, 0), (0, 2, 2), (0, 1, -1)):
        ends = (*(np.array([number]) for number in (slot, length, column)), total)
        with pytest.raises(IndexError):
            Tracer.of()(history, ends, EOS)
    history[1][0, 2] = 9
    with pytest.raises(IndexError):
        Tracer.of()(history, (np.array([0]), np.array([2]), np.array([0]), total), EOS)
