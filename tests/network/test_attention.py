"""Which keys a token sees, one by one."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.network.attention import attend, sees_in_chain, sees_in_tree, visible_keys

CPU = torch.device("cpu")


@given(n_new=st.integers(1, 6), tokens_per_step=st.integers(1, 2))
def test_a_token_of_a_chain_sees_its_own_step_and_those_before(n_new, tokens_per_step):
    (sees,) = sees_in_chain(n_new, tokens_per_step, CPU).tolist()
    for token, own in enumerate(sees):
        assert own == [
            other // tokens_per_step <= token // tokens_per_step for other in range(n_new)
        ]


@given(data=st.data(), n_new=st.integers(1, 6))
def test_a_token_of_a_tree_sees_itself_and_its_ancestors(data, n_new):
    parents = [data.draw(st.integers(-1, token - 1)) for token in range(n_new)]
    (sees,) = sees_in_tree(torch.tensor([parents])).tolist()
    for token, own in enumerate(sees):
        path, ancestor = [], token
        while ancestor >= 0:
            path.append(ancestor)
            ancestor = parents[ancestor]
        assert [other for other, is_seen in enumerate(own) if is_seen] == sorted(path)


def test_all_earlier_tokens_are_visible_and_nothing_behind_the_new_ones():
    sees = sees_in_chain(2, 1, CPU)
    visible = visible_keys(torch.tensor([0, 3]), sees, 6).long().tolist()
    assert visible == [
        [[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]],
        [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]],
    ]


def test_attention_is_the_softmax_of_products_over_visible_keys():
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 2, 4, 6, dtype=torch.float64).unbind(0)
    visible = torch.tensor([[[True, False, True, True]], [[True, True, True, False]]])
    found = attend(queries, keys, values, visible, n_heads=3)
    for row in range(2):
        for head in range(3):
            part = slice(2 * head, 2 * head + 2)
            own = visible[row, 0]
            scores = queries[row, :, part] @ keys[row, own, part].t() / 2**0.5
            expected = scores.softmax(-1) @ values[row, own, part]
            torch.testing.assert_close(found[row, :, part], expected)
