"""The masks of attention."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.network.attention import CausalMasks, causal_mask


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), min_size=1, max_size=12),
    st.sampled_from([1, 2]),
)
def test_masks_of_rows_of_one_length_are_slices_of_a_table(shapes, together):
    masks = CausalMasks(torch.float32, torch.device("cpu"), together)
    for past, n_new in shapes:
        expected = causal_mask(torch.tensor([past]), n_new, past + n_new, torch.float32, together)
        assert torch.equal(masks.of(past, n_new), expected)
