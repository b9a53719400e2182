"""Pairs by compiled code; double_token/test_pair_candidates.py compares the results with numpy."""

import numpy as np
import pytest

from fairseq_fastdec.engine.kernels.pairs import DoubleTopK
from fairseq_fastdec.engine.kernels.top_k import Best
from tests.support.compiled import compiled

END, WIDTH, N_BEAMS, N_ENTRIES, N_BEST = 2, 3, 2, 2, 6


def rows_of(n):
    """The arrays of n rows, as ``place`` takes them."""
    return (
        np.zeros((n, 2), dtype=np.int64),
        np.zeros((n, 2), dtype=np.float32),
        np.zeros(n, dtype=np.int64),
    )


def found_of(n_best=N_BEST):
    """Left tokens 10, 11, ... of each beam's first entry, and right tokens 20, 21, ... of all."""
    shape = (N_BEAMS * (1 + N_ENTRIES), n_best)
    scores = np.empty(shape, dtype=np.float32)
    scores[:] = -np.arange(n_best)
    rows = np.zeros(shape, dtype=np.int64)
    rows[:N_BEAMS] = 2 * N_ENTRIES * np.arange(N_BEAMS)[:, None]
    tokens = np.empty_like(rows)
    tokens[:N_BEAMS] = 10 + np.arange(n_best)
    tokens[N_BEAMS:] = 20 + np.arange(n_best)
    return Best(scores, rows, tokens)


def double_top_k(n_rows=N_BEAMS * WIDTH):
    chooser, arrays = DoubleTopK.of(WIDTH, END), rows_of(n_rows)
    chooser.place(*arrays)
    return chooser, arrays


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert DoubleTopK.of(WIDTH, END) is None


@compiled
def test_what_goes_on_is_written_to_the_rows():
    chooser, (next_tokens, totals, origins) = double_top_k()
    chosen = chooser(found_of(), N_BEAMS, N_ENTRIES)
    assert chosen.best["total"].tolist() == [[0, -1, -1]] * N_BEAMS
    pairs = [[10, 20], [10, 21], [11, 20]]
    assert chosen.going_on["tokens"].tolist() == [pairs] * N_BEAMS
    assert (chosen.some_end, chosen.some_lost, chosen.moves) == (False, False, True)
    assert next_tokens.tolist() == pairs * N_BEAMS
    assert totals.tolist() == [[0, 0], [-1, 0], [-1, 0]] * N_BEAMS
    assert origins.tolist() == [0] * WIDTH + [N_ENTRIES] * WIDTH


@compiled
def test_results_keep_what_they_say():
    """The arrays of the rows are written again; those of a result are a step's own."""
    chooser, _ = double_top_k()
    found = found_of()
    before = chooser(found, N_BEAMS, N_ENTRIES)
    kept = before.best.copy()
    found.tokens[:] += 100
    after = chooser(found, N_BEAMS, N_ENTRIES)
    assert np.array_equal(before.best, kept)
    assert (after.best["tokens"] == kept["tokens"] + 100).all()


@compiled
@pytest.mark.parametrize("row", [-1, -2, 2 * N_ENTRIES, 2**40, -(2**62)])
def test_rows_that_are_not_there(row):
    """The first beam has rows 0 to 3 of the scores."""
    chooser, _ = double_top_k()
    found = found_of()
    found.rows[0, N_BEST - 1] = row
    with pytest.raises(IndexError, match="not there"):
        chooser(found, N_BEAMS, N_ENTRIES)
    found.scores[0, N_BEST - 1] = -np.inf
    assert not chooser(found, N_BEAMS, N_ENTRIES).some_lost


@compiled
def test_more_rows_than_there_is_room_for():
    chooser, _ = double_top_k(N_BEAMS * WIDTH - 1)
    with pytest.raises(IndexError, match="not there"):
        chooser(found_of(), N_BEAMS, N_ENTRIES)


@compiled
def test_lists_of_other_beams():
    chooser, _ = double_top_k(100)
    for n_beams, n_entries in ((N_BEAMS + 1, N_ENTRIES), (N_BEAMS, N_ENTRIES + 1)):
        with pytest.raises(ValueError, match="lists of tokens"):
            chooser(found_of(), n_beams, n_entries)


@compiled
def test_sizes_that_make_no_beam():
    chooser, _ = double_top_k()
    with pytest.raises(ValueError, match="sizes"):
        DoubleTopK.of(0, END)(found_of(), N_BEAMS, N_ENTRIES)
    with pytest.raises(ValueError, match="sizes"):
        chooser(found_of(0), N_BEAMS, N_ENTRIES)


@compiled
@pytest.mark.parametrize("name", ["scores", "rows", "tokens"])
def test_results_of_another_dtype(name):
    chooser, _ = double_top_k()
    found = found_of()
    with pytest.raises(ValueError, match=name):
        chooser(found._replace(**{name: getattr(found, name).astype(np.int32)}), N_BEAMS, N_ENTRIES)


@compiled
@pytest.mark.parametrize("number", range(3))
def test_rows_of_another_dtype_or_size(number):
    chooser, _ = double_top_k()
    for other in (lambda array: array.astype(np.float64), lambda array: array[::2]):
        arrays = list(rows_of(4))
        arrays[number] = other(arrays[number])
        with pytest.raises(ValueError, match="side by side"):
            chooser.place(*arrays)
