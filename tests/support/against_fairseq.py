"""Generators of this package and of fairseq, with the same models and options."""

import argparse

import torch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import assume
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support.trained_models import TASK


class OfTokensSoFar(torch.nn.Module):
    """Passes only the tokens so far to fairseq's n-gram rule, without the padding after them.

    In fairseq, the rule compares with the padding, and forbids nothing if its CUDA extension is not
    built: fairseq's issues 4709 and 5206.
    """

    def __init__(self, rule):
        super().__init__()
        self._rule = rule

    def forward(self, tokens, lprobs, bsz, beam_size, step):
        return self._rule(tokens[:, : step + 1], lprobs, bsz, beam_size, step)


def fairseq_generator(models, beam_size=1, **options):
    generator = SequenceGenerator(
        list(models), TASK.target_dictionary, beam_size=beam_size, **options
    )
    if generator.repeat_ngram_blocker is not None:
        generator.repeat_ngram_blocker = OfTokensSoFar(generator.repeat_ngram_blocker)
    return generator


def fairseq_hypotheses(models, sample, prefix_tokens=None, bos_token=None, **options):
    generator = fairseq_generator(models, **options)
    given = dict(prefix_tokens=prefix_tokens, bos_token=bos_token)
    try:
        return generator.generate(models, sample, **given)
    except AssertionError:
        # fairseq's own check, if its n-gram rule forbids EOS where a sentence has to end.
        assume(not options.get("no_repeat_ngram_size"))
        raise


NAMES = dict(len_penalty="lenpen", unk_penalty="unkpen")


def extra_of(options):
    """Remove what fairseq-generate gives to a task besides its options; fairseq's name for it."""
    return {name: options.pop(name) for name in ("lm_model", "lm_weight") if name in options}


def our_generator(models, decoding, method=None, **options):
    extra = extra_of(options)
    args = {NAMES.get(name, name): value for name, value in options.items()}
    if "normalize_scores" in args:
        args["unnormalized"] = not args.pop("normalize_scores")
    args = argparse.Namespace(**{"beam": 1, **args})
    return build_generator(
        list(models),
        TASK.target_dictionary,
        args,
        DecodingOptions(decoding=decoding, **(method or {})),
        extra,
    )


def our_hypotheses(
    models, sample, decoding, method=None, prefix_tokens=None, bos_token=None, **options
):
    generator = our_generator(models, decoding, method, **options)
    return generator.generate(models, sample, prefix_tokens=prefix_tokens, bos_token=bos_token)


def assert_same(ours, theirs, atol=1e-4):
    assert len(ours) == len(theirs)
    for own, reference in zip(ours, theirs):
        assert len(own) == 1
        own, reference = own[0], reference[0]
        assert own["tokens"].tolist() == reference["tokens"].tolist()
        assert own["tokens"].dtype == reference["tokens"].dtype
        torch.testing.assert_close(
            own["positional_scores"], reference["positional_scores"], atol=atol, rtol=0
        )
        torch.testing.assert_close(own["score"], reference["score"], atol=atol, rtol=0)


def assert_as_fairseq(
    models, sample, decoding, method=None, prefix_tokens=None, bos_token=None, **options
):
    """Compare a method's tokens and scores with those of fairseq's ``--beam 1``."""
    options = dict(options, prefix_tokens=prefix_tokens, bos_token=bos_token)
    assert_same(
        our_hypotheses(models, sample, decoding, method, **options),
        fairseq_hypotheses(models, sample, **options),
    )


options_strategy = st.fixed_dictionaries(
    dict(
        max_len_a=st.sampled_from([0, 0.5, 1.2]),
        max_len_b=st.integers(3, 14),
        min_len=st.integers(1, 3),
        normalize_scores=st.booleans(),
        len_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
        unk_penalty=st.sampled_from([0.0, -3.0, 5.0]),
        temperature=st.sampled_from([0.5, 1.0, 2.0]),
    )
)
lengths_strategy = st.lists(st.integers(0, 9), min_size=1, max_size=7)
