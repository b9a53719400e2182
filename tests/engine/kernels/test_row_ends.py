"""Rows that grow by compiled code: up to and including an end of sentence."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.row_ends import RowEnds
from tests.support.compiled import compiled

EOS = 2


def rows_of(sentence, lengths):
    return (
        torch.tensor(sentence, dtype=torch.long),
        torch.tensor(lengths, dtype=torch.long),
        torch.zeros(len(sentence), dtype=torch.bool),
    )


@compiled
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_rows_grow_up_to_an_end(data):
    n_rows, n_new, width = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4)), 12
    sentence = data.draw(st.permutations(range(5)))[:n_rows]
    lengths = data.draw(st.lists(st.integers(0, 8), min_size=n_rows, max_size=n_rows))
    new = data.draw(st.lists(st.integers(EOS, 5), min_size=n_rows * n_new, max_size=n_rows * n_new))
    new = torch.tensor(new).view(n_rows, n_new)
    scores = -torch.rand(n_rows, n_new, generator=torch.Generator().manual_seed(1))
    n = data.draw(
        st.integers(0, n_new)
        | st.lists(st.integers(0, n_new), min_size=n_rows, max_size=n_rows).map(torch.tensor)
    )
    tokens, all_scores = torch.ones(5, width, dtype=torch.long), torch.zeros(5, width)
    ends = RowEnds.of(tokens, all_scores, EOS)
    rows = rows_of(sentence, lengths)
    ends.bind(*rows)
    n_ended, taken = ends.append(new, scores, n)
    for row, own in enumerate(new.tolist()):
        given_tokens = own[: n if isinstance(n, int) else int(n[row])]
        if EOS in given_tokens:
            given_tokens = given_tokens[: given_tokens.index(EOS) + 1]
        first, last = lengths[row], lengths[row] + len(given_tokens)
        assert int(taken[row]) == len(given_tokens) and int(rows[1][row]) == last
        assert tokens[sentence[row], first:last].tolist() == given_tokens
        assert torch.equal(all_scores[sentence[row], first:last], scores[row, : len(given_tokens)])
        assert bool(rows[2][row]) == (EOS in given_tokens)
    assert n_ended == int(rows[2].sum())
    assert int(tokens.ne(1).sum()) == int(taken.sum())


@compiled
@pytest.mark.parametrize(
    "sentence, lengths, n, error",
    [
        ([2], [0], 1, IndexError),
        ([0], [7], 1, IndexError),
        ([0], [-1], 1, IndexError),
        ([0], [0], 3, ValueError),
        ([0], [0], -1, ValueError),
    ],
)
def test_what_is_out_of_bounds_is_refused(sentence, lengths, n, error):
    tokens, scores = torch.ones(2, 6, dtype=torch.long), torch.zeros(2, 6)
    ends = RowEnds.of(tokens, scores, EOS)
    ends.bind(*rows_of(sentence, lengths))
    with pytest.raises(error):
        ends.append(torch.tensor([[5, 6]]), torch.zeros(1, 2), n)
    assert bool(tokens.eq(1).all())


def test_without_compiled_code_there_are_none(nothing_compiled):
    assert RowEnds.of(torch.ones(1, 2, dtype=torch.long), torch.zeros(1, 2), EOS) is None
