"""Trees by compiled code: those that Python grows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.trees import TreeGrower
from fairseq_fastdec.generators.single.trees import best_tree
from tests.support.compiled import compiled

PAD, EOS = 1, 2


@compiled
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_python_grows(data):
    n_rows, n_heads, n_best, n = (data.draw(st.integers(1, most)) for most in (3, 4, 5, 14))
    n_rows -= data.draw(st.booleans())
    # Few different scores, so that many paths cost the same; and tokens that are impossible.
    score = st.sampled_from([-0.5, -1.0, -1.5, -2.0, -math.inf])
    size = n_rows * n_heads * n_best
    scores = data.draw(st.lists(score, min_size=size, max_size=size))
    tokens = data.draw(st.lists(st.integers(EOS, 9), min_size=size, max_size=size))
    scores = -np.sort(-np.array(scores, dtype=np.float32).reshape(n_rows, n_heads, n_best))
    tokens = np.array(tokens, dtype=np.int64).reshape(n_rows, n_heads, n_best)
    roots = torch.arange(10, 10 + n_rows)
    trees = TreeGrower.of(n, EOS, PAD)(roots, scores, tokens)
    expected = [
        best_tree(*row, n, EOS) for row in zip(roots.tolist(), scores.tolist(), tokens.tolist())
    ]
    longest = max([1, *(len(tree.tokens) for tree in expected)])
    expected = [tree.padded(longest, PAD) for tree in expected]
    assert list(zip(*(part.tolist() for part in trees))) == [tuple(tree) for tree in expected]
    assert all(part.shape == (n_rows, longest) for part in trees)


@compiled
def test_numbers_of_other_kinds_are_refused():
    grower = TreeGrower.of(4, EOS, PAD)
    scores, tokens = np.zeros((1, 2, 3), dtype=np.float32), np.zeros((1, 2, 3), dtype=np.int64)
    for wrong in (
        (torch.tensor([5, 6]), scores, tokens),
        (torch.tensor([5]), scores.astype(np.float64), tokens),
        (torch.tensor([5]), scores, tokens[:, :1]),
    ):
        with pytest.raises(ValueError):
            grower(*wrong)


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert TreeGrower.of(4, EOS, PAD) is None
