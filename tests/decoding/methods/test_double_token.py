"""Double-token decoding: DOUBLETOPK on lists, and the hypotheses of today."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.methods.double_token import (
    PairHypothesis,
    double_top_k,
    forced_slots,
)
from fairseq_fastdec.decoding.natural_order import natural
from fairseq_fastdec.orders.special_tokens import EOD
from fairseq_fastdec.orders.token_order import TokenOrder
from tests.support import tiny
from tests.support.against_fairseq import lengths_strategy
from tests.support.to_read import (
    assert_as_compiled,
    assert_same_lists,
    compiled_method,
    method_to_read,
)
from tests.support.trained_models import DOUBLE_TASKS, ORDERS, double_model

WORDS = DOUBLE_TASKS["l2r"].target_dictionary
PAD, EOS, END = WORDS.pad(), WORDS.eos(), WORDS.index(EOD)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=8)
@given(
    lengths=lengths_strategy, beam=st.integers(1, 5), trained=st.booleans(),
    max_len_a=st.sampled_from([0, 1.0]), max_len_b=st.integers(3, 11), min_len=st.integers(1, 3),
    lenpen=st.sampled_from([0.0, 1.0]), unnormalized=st.booleans(),
    unkpen=st.sampled_from([0.0, -2.0]), temperature=st.sampled_from([0.5, 1.0]),
)  # fmt: skip
def test_the_hypotheses_of_compiled_code(order, lengths, beam, trained, **options):
    task = DOUBLE_TASKS[order]
    models = [double_model(order), *([] if trained else [double_model(order, trained=False)])]
    sample = tiny.random_batch(task, lengths)
    assert_as_compiled(models, sample, "double_token", task=task, beam=beam, **options)


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4])
def test_prefixes(width):
    """Today's records also count rows without a hypothesis behind a prefix, so they differ."""
    task, models = DOUBLE_TASKS["l2r"], [double_model("l2r")]
    sample = tiny.random_batch(task, [3, 5, 0, 8])
    found = [
        make(models, "double_token", task=task, beam=3, max_len_b=9).generate(
            models, sample, prefix_tokens=sample["target"][:, :width]
        )
        for make in (method_to_read, compiled_method)
    ]
    assert_same_lists(*found)


def test_prefixes_of_other_orders_are_refused():
    task, models = DOUBLE_TASKS["bidirectional"], [double_model("bidirectional")]
    sample = tiny.random_batch(task, [3])
    with pytest.raises(ValueError, match="--prefix-size: with --token-order bidirectional"):
        method_to_read(models, "double_token", task=task).generate(
            models, sample, prefix_tokens=sample["target"][:, :1]
        )


def test_a_model_gone_bad():
    task = DOUBLE_TASKS["l2r"]
    model = tiny.build_model(task, "double_token_transformer")
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    with pytest.raises(NotFinite) as caught:
        method_to_read([model], "double_token", task=task, max_len_b=6).generate(
            [model], tiny.random_batch(task, [3, 5])
        )
    assert [own[0]["tokens"].tolist() for own in caught.value.hypotheses] == [[EOS], [EOS]]


def test_models_of_different_orders_cannot_decode_together():
    models = [double_model("l2r"), double_model("r2l")]
    with pytest.raises(ValueError, match="--path: models of --token-order l2r"):
        method_to_read(models, "double_token", task=DOUBLE_TASKS["l2r"])


@settings(max_examples=30)
@given(st.data())
def test_double_top_k(data):
    """The W best pairs of all whose left token is among the 2W best."""
    width = data.draw(st.integers(1, 3))
    scores = st.integers(-600, 0).map(lambda number: number / 64)
    draw_scores = st.lists(scores, min_size=5, max_size=5, unique=True)
    beam, sides = [], []
    for row in range(data.draw(st.integers(1, width))):
        beam.append(PairHypothesis([4, 5], [-1.0, 0.0], -1.0 - row / 1000, row))
        left, right = (
            sorted(zip(data.draw(draw_scores), range(5)), reverse=True) for _ in range(2)
        )
        sides.append((left[: 2 * width], right[: width + 1]))
    found = double_top_k(beam, sides, width)
    lefts = sorted(
        ((own.total + score, row, token) for row, own in enumerate(beam)
         for score, token in sides[row][0]), reverse=True,
    )[: 2 * width]  # fmt: skip
    expected = sorted(
        (total + score for (total, row, _), place in itertools.product(lefts, range(width + 1))
         for score, _ in sides[row][1][place : place + 1]), reverse=True,
    )  # fmt: skip
    assert [own.total for own in found] == pytest.approx(expected)
    assert all(len(own.tokens) == len(own.scores) == 4 for own in found)


@pytest.mark.parametrize(
    "order, expected",
    [("bidirectional", [4, 6, 8, 7, 5]), ("l2r", [4, 5, 6, 7, 8]), ("r2l", [8, 7, 6, 5, 4])],
)
def test_sentences_in_their_natural_order(order, expected):
    pairs = ([4, 5, 6, 7, 8, END], [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0])
    tokens, scores = natural(*pairs, TokenOrder(order, 2), END, EOS)
    assert tokens == [*expected, EOS]
    assert scores == [float(3 - token) for token in expected] + [-6.0]


def test_two_pairs_that_end_the_same_sentence():
    before = PairHypothesis([4, 5], [0.0, 0.0], 0.0, row=1)
    ends = [before.extended(pair, (-1.0, -1.0)) for pair in ((6, END), (END, 6), (END, END))]
    assert ends[1].ends_like(ends[0], END) and not ends[2].ends_like(ends[0], END)
    other = PairHypothesis([4, 5], [0.0, 0.0], 0.0, row=2).extended((6, END), (-1.0, -1.0))
    assert not other.ends_like(ends[0], END)
    assert not ends[0].ends_like(before.extended((6, 7), (-1.0, -1.0)), END)


def test_the_slots_that_a_prefix_forces():
    prefix = torch.tensor([[4, 5, 6], [EOS, PAD, PAD], [4, EOS, PAD]])
    assert forced_slots(prefix, EOS, END, PAD).tolist() == [
        [4, 5, 6, PAD], [END, END, PAD, PAD], [4, END, PAD, PAD],
    ]  # fmt: skip
