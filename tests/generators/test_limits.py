"""The rules for single steps, against those for many steps at once."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.generators.limits import Limits


@given(
    step=st.integers(0, 5), max_len=st.integers(0, 5), min_len=st.integers(0, 5),
    n_forced=st.integers(0, 5), unkpen=st.sampled_from([0.0, 2.0]),
    bad=st.sampled_from([0.0, math.nan, math.inf, -math.inf]), seed=st.integers(0, 9),
)  # fmt: skip
def test_one_step_for_all(step, max_len, min_len, n_forced, unkpen, bad, seed):
    limits = Limits(pad=0, unk=1, eos=2, min_len=min_len, unkpen=unkpen)
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(seed))
    scores[0] += bad
    expected = limits.constrain(scores.clone(), torch.full((3,), step), max_len, n_forced)
    assert torch.equal(limits.constrain_step(scores, step, max_len, n_forced), expected)
