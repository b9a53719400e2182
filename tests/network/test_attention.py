"""Which keys a token sees, one by one."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.network.attention import attend, hidden_keys, mask_of


@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    n_steps=st.integers(1, 4),
    tokens_per_step=st.integers(1, 2),
)
def test_a_token_sees_those_before_its_step_and_those_of_its_step(
    lengths, n_steps, tokens_per_step
):
    n_new, n_keys = n_steps * tokens_per_step, max(lengths) + n_steps * tokens_per_step
    places = torch.tensor(lengths)[:, None] + torch.arange(n_new)
    hidden = hidden_keys(places, n_keys, tokens_per_step).tolist()
    for length, own in zip(lengths, hidden):
        for token, is_hidden in enumerate(own):
            assert is_hidden == [
                key >= length and (key - length) // tokens_per_step > token // tokens_per_step
                for key in range(n_keys)
            ]


def test_attention_is_the_softmax_of_products_over_visible_keys():
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 6, dtype=torch.float64).unbind(0)
    visible = torch.tensor([[[True, False, True, True]], [[True, True, True, False]]])
    found = attend(queries, keys, values, mask_of(~visible, queries), n_heads=3)
    for row in range(2):
        for head in range(3):
            part = slice(2 * head, 2 * head + 2)
            own = visible[row, 0]
            scores = queries[row, :, part] @ keys[row, own, part].t() / 2**0.5
            expected = scores.softmax(-1) @ values[row, own, part]
            torch.testing.assert_close(found[row, :, part], expected)
