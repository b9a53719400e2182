"""The rows that a step of pairs is fed, and how their next tokens compete."""

import numpy as np
import pytest

from fairseq_fastdec.engine.kernels.pairs import PAIR
from fairseq_fastdec.generators.double_token.pair_rows import PairRows

START = (0, 2)


def pairs_of(columns):
    """Pairs with tokens of their own; the later, the worse."""
    columns = np.array(columns)
    pairs = np.zeros(columns.shape, dtype=PAIR)
    pairs["column"] = columns
    pairs["total"] = -np.arange(columns.size).reshape(columns.shape)
    pairs["tokens"] = np.arange(10, 10 + 2 * columns.size).reshape(*columns.shape, 2)
    return pairs


def test_beams_begin_with_one_entry():
    rows = PairRows(width=3)
    rows.begin(2, START)
    assert rows.tokens.tolist() == [[0, 2], [0, 2]]
    assert rows.totals[:2].tolist() == [[0, 0], [0, 0]]
    # The left tokens of rows 0 and 1, each a beam, then their right tokens.
    beams = rows.beams
    assert (beams.n_beams, beams.n_rows) == (4, 4)
    assert beams.rows[:4].tolist() == [0, 2, 1, 3]
    assert beams.starts[:5].tolist() == [0, 1, 2, 3, 4]


def test_left_tokens_of_a_beam_compete_and_right_tokens_of_an_entry():
    rows = PairRows(width=2)
    rows.begin(2, START)
    assert rows.write(pairs_of([[0, 0], [0, 0]]))
    rows.set_shape(2, 2)
    assert rows.tokens.tolist() == [[10, 11], [12, 13], [14, 15], [16, 17]]
    assert rows.totals[:4].tolist() == [[0, 0], [-1, 0], [-2, 0], [-3, 0]]
    assert rows.origins[:4].tolist() == [0, 0, 1, 1]
    beams = rows.beams
    assert (beams.n_beams, beams.n_rows) == (6, 8)
    assert beams.rows[:8].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert beams.starts[:7].tolist() == [0, 2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    "columns, beams, moves, origins",
    [
        ([[0, 1], [0, 1], [0, 1]], None, False, [0, 1, 2, 3, 4, 5]),
        ([[0, 1], [1, 0], [0, 1]], None, True, [0, 1, 3, 2, 4, 5]),
        ([[0, 1], [0, 0]], [0, 2], True, [0, 1, 4, 4]),
        # All stay where they are, but rows have left behind them.
        ([[0, 1]], [0], True, [0, 1]),
    ],
)
def test_whether_rows_move(columns, beams, moves, origins):
    rows = PairRows(width=2)
    rows.begin(3, START)
    rows.set_shape(3, 2)
    beams = None if beams is None else np.array(beams)
    assert rows.write(pairs_of(columns), beams) == moves
    assert rows.origins[: len(origins)].tolist() == origins


def test_a_larger_batch_has_other_memory_and_a_smaller_one_the_same():
    rows = PairRows(width=2)
    addresses = []
    for n_beams in (2, 3, 1, 3):
        rows.begin(n_beams, START)
        addresses.append(rows.tokens.data_ptr())
        assert rows.tokens.tolist() == [list(START)] * n_beams
    assert addresses[0] != addresses[1] == addresses[2] == addresses[3]
