"""Hypotheses of double-token models as people read them."""

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_fastdec.decoding.hypothesis import hypothesis
from fairseq_fastdec.decoding.natural_order import in_natural_order
from fairseq_fastdec.orders.token_order import TokenOrder

WORDS = Dictionary()
EOS, END = WORDS.eos(), 99


def decoded(tokens, scores, total):
    """A hypothesis in the order of decoding; its other fields are the search's own."""
    return {
        **hypothesis(torch.tensor(tokens), total, torch.tensor(scores)),
        "attention": torch.ones(2, 2),
        "of the search": total,
    }


@pytest.mark.parametrize(
    "name, natural, scores",
    [
        ("bidirectional", [11, 13, 14, 12], [-1.0, -3.0, -4.0, -2.0]),
        ("l2r", [11, 12, 13, 14], [-1.0, -2.0, -3.0, -4.0]),
        ("r2l", [14, 13, 12, 11], [-4.0, -3.0, -2.0, -1.0]),
    ],
)
def test_sentences_come_back_with_their_scores(name, natural, scores):
    """EOS has the scores of both end tokens; hypotheses of other lengths change nothing."""
    even = decoded([11, 12, 13, 14, END, END], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0], -21.0)
    odd = decoded([15, END], [-7.0, -8.0], -15.0)
    nothing = decoded([END, END], [-0.5, -0.25], -0.75)
    found = in_natural_order([[even, odd], [], [nothing]], TokenOrder(name, 2), END, WORDS)
    assert [len(own) for own in found] == [2, 0, 1]
    (first, second), _, (third,) = found
    assert first["tokens"].tolist() == [*natural, EOS]
    assert first["positional_scores"].tolist() == [*scores, -11.0]
    assert second["tokens"].tolist() == [15, EOS]
    assert second["positional_scores"].tolist() == [-7.0, -8.0]
    assert third["tokens"].tolist() == [EOS]
    assert third["positional_scores"].tolist() == [-0.75]
    assert [one["score"].item() for one in (first, second, third)] == [-21.0, -15.0, -0.75]
    assert [one["of the search"] for one in (first, second, third)] == [-21.0, -15.0, -0.75]
    assert all(one["attention"].numel() == 0 for one in (first, second, third))
    storage = first["tokens"].untyped_storage()
    assert storage.size() == 5 * 8, "no hypothesis keeps the others' memory"


def test_where_there_is_no_hypothesis_there_is_nothing_to_order():
    assert in_natural_order([[], []], TokenOrder("l2r", 2), END, WORDS) == [[], []]
