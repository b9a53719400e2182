"""Every option is honoured, refused by name, or without effect by definition: tables, and tests."""

import argparse
import math
import re
from dataclasses import fields

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.decoding import asked_for, build_generator
from fairseq_fastdec.decoding.option_rules import check_options, rule_of
from fairseq_fastdec.decoding.options import DecodingOptions, check_names
from fairseq_fastdec.processes.errors import flag_of
from fairseq_fastdec.translating.generation_options import (
    ALIGNMENTS,
    HONOURED,
    HONOURED_AS_GIVEN,
    LANGUAGE_MODEL,
    OF_BEAMS,
    READ_BY_TASKS,
    REFUSED,
    REFUSED_IF_ASKED_FOR,
    VALID,
    WITHOUT_EFFECT,
    shown,
)
from tests.support import tiny

TASK = tiny.task(20)
NAN, INF, HUGE = math.nan, math.inf, 10**20
FAIRSEQS = {option.name: option for option in fields(GenerationConfig)}


@pytest.fixture(scope="module")
def model():
    return tiny.train(tiny.build_model(TASK), TASK, updates=60, reverse=True)


@pytest.fixture(scope="module")
def heads():
    return tiny.stir(tiny.build_model(TASK, "blockwise_transformer"))


def decoded(model, decoding="greedy", method=None, **args):
    options = DecodingOptions(decoding=decoding, **(method or {}))
    check_options(options)
    args = argparse.Namespace(**{"beam": 1, "max_len_b": 12, **args})
    generator = build_generator([model], TASK.target_dictionary, args, options)
    hypotheses = generator.generate([model], tiny.random_batch(TASK, [3, 5, 1, 7]))
    return [own[0]["tokens"].tolist() for own in hypotheses]


def test_every_option_of_fairseqs_has_its_place():
    tables = [HONOURED, HONOURED_AS_GIVEN, OF_BEAMS, REFUSED, REFUSED_IF_ASKED_FOR, WITHOUT_EFFECT]
    tables += [READ_BY_TASKS, ALIGNMENTS, LANGUAGE_MODEL]
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names))
    # 0.12.2 does not have all that 0.12.3 has.
    assert set(FAIRSEQS) - {"_name"} <= set(names)


OTHER_THAN_DEFAULT = {
    "diversity_rate": 0.5, "print_step": True,
    "retain_iter_history": True,
    "retain_dropout_modules": ["TransformerDecoder"], "decoding_format": "unigram",
}  # fmt: skip


@pytest.mark.parametrize("decoding", ["greedy", "lookahead", "beam", "streaming"])
@pytest.mark.parametrize("name", sorted([*REFUSED, *REFUSED_IF_ASKED_FOR]))
def test_what_no_method_has_is_refused(model, name, decoding):
    default = REFUSED.get(name)
    value = OTHER_THAN_DEFAULT.get(name, True if default is False else None)
    if value is None:
        value = default + 1
    flag = flag_of(name)
    with pytest.raises(ValueError, match=f"^{flag}: not possible with --decoding {decoding};"):
        decoded(model, decoding, **{name: value})


@pytest.mark.parametrize("decoding", ["greedy", "jacobi", "double_token"])
@pytest.mark.parametrize(
    "name, value",
    [("constraints", "ordered"), ("match_source_len", True), ("diverse_beam_groups", 2)],
)
def test_what_only_beams_have(model, name, value, decoding):
    message = f"^{flag_of(name)}: not possible with --decoding {decoding}"
    with pytest.raises(ValueError, match=message):
        decoded(model, decoding, **{name: value})
    decoded(model, "beam", match_source_len=True)
    decoded(model, "beam", beam=4, diverse_beam_groups=2)


@pytest.mark.parametrize("decoding", ["variable_beam", "streaming"])
def test_what_only_fixed_beams_have(model, decoding):
    message = f"^--diverse-beam-groups: not possible with --decoding {decoding}; .*--decoding beam"
    with pytest.raises(ValueError, match=message):
        decoded(model, decoding, beam=4, diverse_beam_groups=2)


def test_a_strength_without_groups(model):
    message = "^--diverse-beam-strength 0.3: has no effect without --diverse-beam-groups; remove it"
    for decoding in ("beam", "greedy"):
        with pytest.raises(ValueError, match=message):
            decoded(model, decoding, diverse_beam_strength=0.3)


@pytest.mark.parametrize("decoding", ["greedy", "lookahead", "beam", "streaming"])
def test_another_token_that_ends_sentences(model, decoding):
    """mBART's is the one of the language, and EOS is a token like others then."""
    words = TASK.target_dictionary
    sample = tiny.random_batch(TASK, [3, 5, 1, 7])
    args = argparse.Namespace(beam=1, max_len_b=6, eos_token="w3")
    options = DecodingOptions(decoding=decoding)
    extra = dict(eos=words.index("w3"))
    ours = build_generator([model], words, args, options, extra).generate([], sample)
    theirs = SequenceGenerator([model], words, beam_size=1, max_len_b=6, **extra)
    for own, expected in zip(ours, theirs.generate([], sample), strict=True):
        assert own[0]["tokens"].tolist() == expected[0]["tokens"].tolist()
        assert own[0]["tokens"][-1] == extra["eos"]
        torch.testing.assert_close(own[0]["score"], expected[0]["score"], atol=1e-4, rtol=0)


def test_a_token_that_does_not_end_sentences(model):
    assert decoded(model, eos_token="</s>") == decoded(model)
    for token in ("w3", "nowhere"):
        with pytest.raises(ValueError, match=f"^--eos-token {token}: sentences end with </s>"):
            decoded(model, eos_token=token)


def test_rates_that_are_no_numbers_are_not_ignored(model):
    with pytest.raises(ValueError, match="^--diversity-rate nan: must be a number"):
        decoded(model, diversity_rate=NAN)


def test_defaults_are_not_refused():
    defaults = argparse.Namespace(**{name: o.default for name, o in FAIRSEQS.items()})
    assert not any(asked_for(defaults, {"lm_weight": 0.0}, None).values())


@pytest.mark.parametrize(
    "args",
    [
        dict(temperature=0), dict(temperature=-1.0), dict(temperature=NAN), dict(temperature=INF),
        dict(temperature=1e-30), dict(temperature="1"), dict(temperature=True),
        dict(unkpen=NAN), dict(unkpen=-INF), dict(lenpen=NAN), dict(lenpen=INF), dict(lenpen=-INF),
        dict(lenpen=1e300), dict(max_len_a=NAN), dict(max_len_a=INF), dict(max_len_a=-0.5),
        dict(max_len_b=2.5), dict(max_len_b=NAN), dict(min_len=1.5), dict(prefix_size=-1),
        dict(no_repeat_ngram_size=2.0), dict(no_repeat_ngram_size=NAN),
        *({name: None} for name in sorted(VALID)), *({name: "x"} for name in sorted(VALID)),
        *({name: [1]} for name in sorted(VALID)),
        dict(unnormalized="no"), dict(unnormalized=1), dict(sampling="yes"),
        dict(diverse_beam_groups=2.0), dict(print_step=0), dict(lm_weight="0"),
        dict(nbest=0), dict(nbest=-1), dict(beam=0), dict(beam=2.0), dict(beam="5"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_values_that_mean_nothing(model, args, decoding):
    (name,) = args
    given = f"{flag_of(name)} {shown(args[name])}: must be "
    with pytest.raises(ValueError, match=re.escape(given)):
        decoded(model, decoding, **args)


def test_flags_that_change_nothing_change_nothing(model):
    plain = decoded(model)
    for name in WITHOUT_EFFECT:
        assert decoded(model, **{name: True}) == plain


@pytest.mark.parametrize(
    "args, theirs",
    [
        (dict(unkpen=INF), dict(unk_penalty=INF)),
        (dict(temperature=1e-4), dict(temperature=1e-4)),
        (dict(lenpen=10), dict(len_penalty=10)),
        (dict(lenpen=-10), dict(len_penalty=-10)),
        (dict(max_len_a=0.5, max_len_b=-1), dict(max_len_a=0.5, max_len_b=-1)),
        (dict(min_len=-5), dict(min_len=-5)),
        (dict(unnormalized=True), dict(normalize_scores=False)),
    ],
)
@pytest.mark.parametrize("decoding", ["greedy", "beam"])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_ends_of_what_is_honoured(model, args, theirs, decoding, compiled, request):
    if not compiled:
        request.getfixturevalue("nothing_compiled")
    beam = 3 if decoding == "beam" else 1
    batch = tiny.random_batch(TASK, [3, 5, 1, 7])
    expected = SequenceGenerator(
        [model], TASK.target_dictionary, beam_size=beam, **{"max_len_b": 12, **theirs}
    ).generate([model], batch)
    options = DecodingOptions(decoding=decoding)
    args = argparse.Namespace(**{"beam": beam, "max_len_b": 12, **args})
    generator = build_generator([model], TASK.target_dictionary, args, options)
    for own, their in zip(generator.generate([model], batch), expected):
        assert [h["tokens"].tolist() for h in own] == [h["tokens"].tolist() for h in their]
        for ours, reference in zip(own, their):
            torch.testing.assert_close(ours["score"], reference["score"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "args",
    [dict(max_len_b=HUGE), dict(max_len_b=10**400), dict(max_len_a=1e308)],
    ids=["b", "", "a"],
)
def test_lengths_end_with_the_models_positions(model, args):
    assert decoded(model, **args) == decoded(model, max_len_b=1000)
    assert decoded(model, "variable_beam", beam=2, **args) == decoded(
        model, "variable_beam", beam=2, max_len_b=1000
    )


@pytest.mark.parametrize(
    "decoding, option",
    [
        ("lookahead", "lookahead_window"),
        ("gs_jacobi", "jacobi_block_size"),
        ("hybrid_jacobi", "jacobi_block_size"),
        ("hybrid_jacobi", "parallel_len_b"),
    ],
)
def test_more_than_there_is_to_solve_is_all_of_it(model, decoding, option):
    assert decoded(model, decoding, {option: HUGE}) == decoded(model)


@pytest.mark.parametrize("value", [0.5, 1e9])
def test_the_share_that_is_solved_in_parallel(model, value):
    assert decoded(model, "hybrid_jacobi", {"parallel_len_a": value}) == decoded(model)


@pytest.mark.parametrize("option, all_of_them", [("max_candidates", 24), ("max_beam_rows", None)])
def test_more_candidates_than_there_are(model, option, all_of_them):
    expected = decoded(model, "streaming", {option: all_of_them}, beam=3)
    assert decoded(model, "streaming", {option: HUGE}, beam=3) == expected


def test_more_accepted_than_there_are_types(heads):
    topk = {"acceptance": "topk", "acceptance_topk": len(TASK.target_dictionary)}
    assert decoded(heads, "blockwise", {**topk, "acceptance_topk": HUGE}) == decoded(
        heads, "blockwise", topk
    )


def test_a_shortlist_of_more_than_there_are_types(model, tmp_path):
    path = tmp_path / "lex"
    path.write_text("w1 w2 0.5\nw2 w1 0.5\n")
    everything = {"shortlist": str(path), "shortlist_first": HUGE, "shortlist_best": HUGE}
    assert decoded(model, method=everything) == decoded(model)


def test_the_longest_ngrams(model):
    longest, _ = rule_of(DecodingOptions.__dataclass_fields__["ngram_order"]).at_most
    for guess in ("ngram", "source"):
        method = {"guess": guess, "ngram_order": longest}
        assert decoded(model, "lookahead", method) == decoded(model)


@pytest.mark.parametrize(
    "name, message",
    [
        ("decodign", "decodign: not an option of the hub; did you mean decoding?"),
        ("lookahead_windows", "did you mean lookahead_window?"),
        ("tempreature", "did you mean temperature?"),
        ("qqq", "qqq: not an option of the hub; remove it"),
        ("prefix_size", "prefix_size: only fairseq-generate reads it, the hub does not"),
    ],
)
def test_names_that_nobody_knows(name, message):
    with pytest.raises(ValueError) as refusal:
        check_names(["beam", "guess", name], "the hub")
    assert message in str(refusal.value)
