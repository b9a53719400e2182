"""Folding and unfolding: by hand, for every length, and by property."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.decoding.natural_order import natural
from fairseq_fastdec.orders.token_order import ORDERS, TokenOrder, fold, shifted

PAD, END = 1, 99
BOTH = [TokenOrder(name, n) for name in ORDERS for n in (1, 2)]
BIDIRECTIONAL = TokenOrder("bidirectional", 2)


def folded_by_hand(sentence, order):
    """The paper's section 3.2, one token at a time."""
    sentence = list(sentence)
    if order.name == "l2r":
        out = sentence
    elif order.name == "r2l":
        out = sentence[::-1]
    else:
        half = (len(sentence) + 1) // 2
        left, right = sentence[:half], sentence[half:][::-1]
        out = [token for pair in zip(left, right + [None]) for token in pair if token is not None]
    if order.tokens_per_step == 1:
        return out + [END]
    return out + [END] * (1 if len(out) % 2 else 2)


def batch(sentences):
    width = max(map(len, sentences), default=0)
    rows = [[*sentence, *[PAD] * (width - len(sentence))] for sentence in sentences]
    return torch.tensor(rows).long().view(len(sentences), width)


def unfold(folded, order):
    """The natural sentences that were folded, padded on the right."""
    found = []
    for row in map(without_pad, folded):
        sentence = natural(row, [0.0] * len(row), order, END, END)[0][:-1]
        found.append(sentence + [PAD] * (folded.size(1) - len(sentence)))
    return torch.tensor(found)


def without_pad(row):
    return [token for token in row.tolist() if token != PAD]


@pytest.mark.parametrize("order", BOTH, ids=str)
@pytest.mark.parametrize("length", range(12))
def test_every_length(order, length):
    sentence = list(range(10, 10 + length))
    folded = fold(batch([sentence]), order, END, PAD)
    assert without_pad(folded[0]) == folded_by_hand(sentence, order)
    assert order.folded_length(length) == len(folded_by_hand(sentence, order))
    assert without_pad(unfold(folded, order)[0]) == sentence


def test_the_papers_example():
    """Figure 2: "We will go to Tokyo ."."""
    we, will, go, to, tokyo, stop = range(10, 16)
    folded = fold(torch.tensor([[we, will, go, to, tokyo, stop]]), BIDIRECTIONAL, END, PAD)
    assert folded.tolist() == [[we, stop, will, tokyo, go, to, END, END]]


sentences_strategy = st.lists(st.lists(st.integers(3, 98), max_size=9), min_size=1, max_size=6)


@given(sentences_strategy, st.sampled_from(BOTH), st.integers(0, 3))
def test_batches_fold_and_unfold_row_by_row(sentences, order, extra):
    tokens = torch.nn.functional.pad(batch(sentences), (0, extra), value=PAD)
    folded = fold(tokens, order, END, PAD)
    unfolded = unfold(folded, order)
    for index, sentence in enumerate(sentences):
        assert without_pad(folded[index]) == folded_by_hand(sentence, order)
        assert without_pad(unfolded[index]) == sentence
        assert unfolded[index, : len(sentence)].tolist() == sentence


@given(sentences_strategy, st.sampled_from(BOTH))
def test_padding_is_on_the_right_only(sentences, order):
    folded = fold(batch(sentences), order, END, PAD)
    for row, sentence in zip(folded, sentences):
        n = order.folded_length(len(sentence))
        assert row[:n].ne(PAD).all() and row[n:].eq(PAD).all()


@pytest.mark.parametrize(
    "name, expected",
    [
        ("bidirectional", ([10, 12, 50, 13, 11], [10, 12, 50, 13, 11])),
        ("l2r", ([10, 11, 12, 13, 50], [10, 11, 12, 13, 50])),
        ("r2l", ([50, 13, 12, 11, 10], [50, 13, 12, 11, 10])),
    ],
)
def test_a_token_beside_the_end_belongs_to_the_sentence(name, expected):
    """On whichever side of its pair it is."""
    for ending, sentence in zip([(50, END), (END, 50)], expected):
        folded = torch.tensor([[10, 11, 12, 13, *ending, PAD, PAD]])
        unfolded = unfold(folded, TokenOrder(name, 2))
        assert unfolded.tolist() == [[*sentence, PAD, PAD, PAD]]


def test_where_the_tokens_are():
    found = natural([10, 11, 12, END], [-1.0, -2.0, -3.0, -4.0], BIDIRECTIONAL, END, 2)
    assert found == ([10, 12, 11, 2], [-1.0, -3.0, -2.0, -4.0])
    assert natural([END], [-4.0], BIDIRECTIONAL, END, 2) == ([2], [-4.0])


def test_shifted_by_a_step():
    folded = torch.tensor([[10, 11, 12, END], [13, END, PAD, PAD]])
    assert shifted(folded, (0, 2), PAD).tolist() == [[0, 2, 10, 11], [0, 2, PAD, PAD]]
    assert shifted(folded, (2,), PAD).tolist() == [[2, 10, 11, 12], [2, 13, PAD, PAD]]


@pytest.mark.parametrize(
    "name, n, message",
    [("middle", 2, "--token-order middle: choose"), ("l2r", 3, "--tokens-per-step 3: choose")],
)
def test_unknown_orders(name, n, message):
    with pytest.raises(ValueError, match=message):
        TokenOrder(name, n)
