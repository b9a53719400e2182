"""The rules by which p_1 accepts proposals, each on its own."""

import math

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_fastdec.generators.blockwise.acceptance import (
    AmongBest,
    Distance,
    Exact,
    MinimumBlock,
    acceptance_rule,
)
from fairseq_fastdec.generators.options import DecodingOptions
from fairseq_fastdec.generators.single.blocks import Verdicts


def judged(rule, log_probs, best, proposals):
    """What a rule says of proposals ``[R, T]`` under distributions ``[R, T, V]``."""
    scores = log_probs.gather(-1, proposals[..., None]).squeeze(-1)
    return rule.judge(Verdicts(proposals, best, scores, log_probs))


def test_exact_accepts_p1s_best_only():
    verdict = judged(
        Exact(), torch.zeros(1, 3, 9), torch.tensor([[4, 5, 6]]), torch.tensor([[4, 6, 6]])
    )
    assert verdict.tolist() == [[True, False, True]]


@pytest.mark.parametrize("n, expected", [(1, [True, False, False]), (2, [True, True, False])])
def test_topk_accepts_p1s_best_n(n, expected):
    log_probs = torch.tensor([-1.0, -2.0, -3.0, -math.inf]).repeat(1, 3, 1)
    best = torch.zeros(1, 3, dtype=torch.long)
    verdict = judged(AmongBest(n), log_probs, best, torch.tensor([[0, 1, 2]]))
    assert verdict.tolist() == [expected]


def test_topk_never_accepts_what_the_limits_forbid():
    log_probs = torch.tensor([[[-1.0, -math.inf, -math.inf]]])
    verdict = judged(AmongBest(3), log_probs, torch.tensor([[0]]), torch.tensor([[1]]))
    assert verdict.tolist() == [[False]]


def integers():
    words = Dictionary()
    for value in range(10):
        words.add_symbol(str(value))
    words.add_symbol("madeupword0000")
    return words


def test_distance_accepts_near_integers():
    words = integers()
    rule = Distance(2, words)
    best = torch.tensor([[words.index("5")] * 4])
    proposals = torch.tensor([[words.index(symbol) for symbol in ("5", "7", "8", "3")]])
    verdict = judged(rule, torch.zeros(1, 4, len(words)), best, proposals)
    assert verdict.tolist() == [[True, True, False, True]]


def test_distance_never_accepts_what_the_limits_forbid():
    words = integers()
    log_probs = torch.zeros(1, 1, len(words))
    best, near = (torch.tensor([[words.index(symbol)]]) for symbol in "56")
    rule = Distance(2, words)
    assert judged(rule, log_probs, best, near).tolist() == [[True]]
    log_probs[..., words.index("6")] = -math.inf
    assert judged(rule, log_probs, best, near).tolist() == [[False]]


def test_distance_compares_other_symbols_exactly():
    words = integers()
    rule = Distance(100, words)
    best = torch.tensor([[words.eos(), words.index("1"), words.eos()]])
    proposals = torch.tensor([[words.index("1"), words.eos(), words.eos()]])
    verdict = judged(rule, torch.zeros(1, 3, len(words)), best, proposals)
    assert verdict.tolist() == [[False, False, True]]


def test_minimum_block_asks_nothing_of_the_first_proposals():
    log_probs = torch.zeros(1, 3, 9)
    log_probs[0, 0, 6] = -math.inf
    best, proposals = torch.tensor([[4, 4, 4]]), torch.tensor([[5, 5, 5]])
    assert judged(MinimumBlock(Exact(), 3), log_probs, best, proposals).tolist() == [
        [True, True, False]
    ]
    forbidden = torch.tensor([[6, 5, 5]])
    assert not judged(MinimumBlock(Exact(), 3), log_probs, best, forbidden)[0, 0]


INTEGERS = Dictionary()
for number in range(10, 15):
    INTEGERS.add_symbol(str(number))
TEN = INTEGERS.index("10")
# p_1 finds 10 best, then 11, and so on.
SCORES = torch.full((len(INTEGERS),), -9.0).index_copy(
    0, torch.arange(TEN, TEN + 5), -torch.arange(5.0)
)


def accepted(**options):
    """What the options' rule says of 10, 11, ... 14 where p_1 would say 10, and the rule."""
    rule = acceptance_rule(DecodingOptions(decoding="blockwise", **options), INTEGERS)
    verdict = judged(
        rule, SCORES.repeat(1, 5, 1), torch.full((1, 5), TEN), torch.arange(TEN, TEN + 5)[None]
    )
    return verdict[0].tolist(), rule


@pytest.mark.parametrize(
    "options, n_accepted, is_exact, needs_distributions",
    [
        ({}, 1, True, False),
        ({"acceptance": "topk", "acceptance_topk": 3}, 3, False, True),
        ({"acceptance": "topk", "acceptance_topk": 10**9}, 5, False, True),
        ({"acceptance": "distance", "acceptance_distance": 2}, 3, False, False),
        ({"min_block_size": 2}, 1, False, False),
        ({"min_block_size": 3}, 2, False, False),
        ({"acceptance": "topk", "acceptance_topk": 2, "min_block_size": 5}, 4, False, True),
        (
            {"acceptance": "distance", "acceptance_distance": 4, "min_block_size": 2},
            5,
            False,
            False,
        ),
    ],
)
def test_the_rule_that_the_options_ask_for(options, n_accepted, is_exact, needs_distributions):
    """Whoever verifies has to know what a rule looks at, and whether greedy's tokens come out."""
    verdict, rule = accepted(**options)
    assert verdict == [True] * n_accepted + [False] * (5 - n_accepted)
    assert (rule.is_exact, rule.needs_distributions) == (is_exact, needs_distributions)


def test_words_have_no_distance():
    words = Dictionary()
    words.add_symbol("7")
    words.add_symbol("madeupword0000")
    options = DecodingOptions(decoding="blockwise", acceptance="distance")
    assert isinstance(acceptance_rule(options, words), Distance)
    words.add_symbol("seven")
    with pytest.raises(ValueError, match="integers, but has 'seven'; use --acceptance exact or"):
        acceptance_rule(options, words)
