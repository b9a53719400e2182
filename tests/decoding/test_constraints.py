"""fairseq's rules, each stated once: as torch obeys them."""

import argparse
import math

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.decoding.constraints import GenerationRules, prefix_lengths

PAD, EOS, UNK = 1, 2, 3

lengths = st.integers(0, 5)


def rules(**options):
    return GenerationRules(pad=PAD, unk=UNK, eos=EOS, **options)


def test_options_that_are_not_given_have_fairseqs_defaults():
    bare, full = (
        GenerationRules.from_args(args, Dictionary(), 1024)
        for args in (argparse.Namespace(), GenerationConfig())
    )
    assert bare == full == GenerationRules(pad=1, unk=3, eos=2)


@given(
    min_len=lengths, max_len=lengths, n_waived=lengths, unkpen=st.sampled_from([0.0, 2.0, -2.0]),
    never=st.sampled_from([(), (5,), (0, 6)]), bad=st.sampled_from([0.0, math.nan, math.inf]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_rules_about_next_tokens(min_len, max_len, n_waived, unkpen, never, bad, seed):
    own = rules(min_len=min_len, unkpen=unkpen, never=never)
    steps = torch.arange(6)
    scores = torch.randn(6, 8, generator=torch.Generator().manual_seed(seed))
    scores[:, EOS] += bad
    constrained = own.constrain(scores.clone(), steps, max_len, n_waived)
    for step, row in enumerate(constrained.tolist()):
        for token, score in enumerate(row):
            before = scores[step, token].item() - (unkpen if token == UNK else 0)
            possible = token not in (PAD, *never)
            if token == EOS:
                possible &= not n_waived <= step < min_len and not math.isnan(before)
            elif step >= max_len:
                possible = False
            if token == EOS and step >= max_len:
                assert score > -math.inf  # the sentence has to end
            elif possible:
                assert score == pytest.approx(before)
            else:
                assert score == -math.inf


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
    with pytest.raises(ValueError, match="--min-len 0: .* -3 .*--max-len-b -3"):
        rules(min_len=-5, max_len_b=-3).max_len(3)


def test_scores_are_normalised_by_length():
    assert rules(lenpen=2.0).score([-1.0, -3.0]) == -1.0
    assert rules(normalize=False).score([-1.0, -3.0]) == -4.0
    assert rules().normalized(-9.0, 3) == -3.0


def test_a_prefix_with_padding_inside():
    with pytest.raises(ValueError, match="prefix_tokens"):
        prefix_lengths(torch.tensor([[5, 1, 6]]), pad=1)
    assert prefix_lengths(torch.tensor([[5, 6, 1], [1, 1, 1]]), pad=1).tolist() == [2, 0]
