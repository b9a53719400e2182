"""fairseq's rules, each stated once: the same for numbers, numpy, torch and compiled code."""

import argparse
import math

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.generators import top_tokens
from fairseq_fastdec.generators.constraints import GenerationRules, prefix_lengths
from tests.support.choosing import chosen_by

PAD, EOS, UNK = 1, 2, 3

lengths = st.integers(0, 5)
WAYS = ("top-k",) if library() is None else ("top-k", "compiled")


def rules(**options):
    return GenerationRules(pad=PAD, unk=UNK, eos=EOS, **options)


def test_options_that_are_not_given_have_fairseqs_defaults():
    bare, full = (
        GenerationRules.from_args(args, Dictionary(), 1024)
        for args in (argparse.Namespace(), GenerationConfig())
    )
    assert bare == full == GenerationRules(pad=1, unk=3, eos=2)


@given(min_len=lengths, max_len=lengths, n_waived=lengths)
def test_a_rule_is_the_same_for_numbers_arrays_and_tensors(min_len, max_len, n_waived):
    own = rules(min_len=min_len)
    steps = list(range(7))
    for rule, arguments in (
        (own.has_to_end, (max_len,)),
        (own.may_not_end, (n_waived,)),
        (own.leaves_open, (max_len, n_waived)),
    ):
        numbers = [bool(rule(step, *arguments)) for step in steps]
        assert rule(np.array(steps), *arguments).tolist() == numbers
        assert rule(torch.tensor(steps), *arguments).tolist() == numbers


@given(min_len=lengths, max_len=lengths, n_forced=lengths)
def test_a_step_is_open_if_no_rule_restricts_it(min_len, max_len, n_forced):
    own = rules(min_len=min_len)
    for step in range(7):
        restricted = own.has_to_end(step, max_len) or own.may_not_end(step, 0) or step < n_forced
        assert own.leaves_open(step, max_len, n_forced) == (not restricted)
        assert (step in own.open_steps(max_len)) == own.leaves_open(step, max_len)


@given(
    min_len=lengths, max_len=lengths, n_waived=lengths, unkpen=st.sampled_from([0.0, 2.0, -2.0]),
    never=st.sampled_from([(), (5,), (0, 6)]), bad=st.sampled_from([0.0, math.nan, math.inf]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_constrained_scores_and_constrained_choices_agree(
    min_len, max_len, n_waived, unkpen, never, bad, seed
):
    """Once the rules change scores, and once, as constraints, the choice of tokens."""
    own = rules(min_len=min_len, unkpen=unkpen, never=never)
    steps = torch.arange(6)
    scores = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    scores[:, EOS] += bad
    constrained = own.constrain(scores.clone(), steps, max_len, n_waived)
    constraints = own.constraints_at(steps.numpy(), max_len, n_waived)
    for way in WAYS:
        with chosen_by(way):
            chooser = top_tokens.Chooser(own)
            found = chooser.choose_by_row(scores.clone(), 8, constraints, normalize=False)
        for row, own_scores, own_tokens in zip(constrained.tolist(), *found):
            there = [token for token in range(8) if row[token] > -math.inf]
            chosen = own_tokens[own_scores > -math.inf].tolist()
            assert chosen == sorted(there, key=lambda token: -row[token])
            assert own_scores[: len(chosen)].tolist() == [row[token] for token in chosen]


def test_impossible_tokens_and_those_that_are_not_a_number():
    scores = torch.tensor([[math.nan, 1.0, 2.0, 3.0, 4.0]])
    penalized = rules(unkpen=0.5, never=(4,)).penalize(scores)
    assert penalized.tolist() == [[-math.inf, -math.inf, 2.0, 2.5, -math.inf]]


@pytest.mark.parametrize(
    "options, longest",
    [
        (dict(max_len_a=2.0, max_len_b=3), 13),
        (dict(max_len_b=10**400), 63),
        (dict(max_len_a=1e300, max_len_b=10**400), 63),
        (dict(max_len_b=5, min_len=5), 5),
    ],
)
def test_the_longest_output(options, longest):
    assert rules(max_positions=64, **options).max_len(5) == longest


def test_a_minimum_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="--min-len 9: .*--max-len-b 4"):
        rules(min_len=9, max_len_b=4).max_len(3)


def test_scores_are_normalised_by_length():
    scores = torch.tensor([-1.0, -3.0])
    assert rules(lenpen=2.0).sentence_score(scores).item() == -1.0
    assert rules(normalize=False).sentence_score(scores).item() == -4.0
    totals = rules().normalized(torch.tensor([-4.0, -9.0]), torch.tensor([2, 3]))
    assert totals.tolist() == [-2.0, -3.0] and totals.dtype == torch.float32


def test_a_prefix_with_padding_inside():
    with pytest.raises(ValueError, match="prefix_tokens"):
        prefix_lengths(torch.tensor([[5, 1, 6]]), pad=1)
    assert prefix_lengths(torch.tensor([[5, 6, 1], [1, 1, 1]]), pad=1).tolist() == [2, 0]
