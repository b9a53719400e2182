"""Language models (``--lm-path``): the hypotheses and scores of fairseq's ``SequenceGenerator``."""

import argparse
import copy
import shutil

import pytest
import torch
from fairseq.models.lstm_lm import LSTMLanguageModel
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.token_generation_constraints import pack_constraints
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.building import build_generator
from fairseq_fastdec.decoding.language_model import LanguageModel
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.network.support import UnsupportedModel
from tests.support import tiny
from tests.support.against_fairseq import fairseq_hypotheses, lengths_strategy, options_strategy
from tests.support.compiled import compiled, examples
from tests.support.compiled_searches import assert_alike_beams, prefixes
from tests.support.language_models import KINDS, random_model
from tests.support.lexical_tables import next_words
from tests.support.to_read import (
    BEAMS,
    assert_as_compiled,
    compiled_method,
    decoded,
    fp64_model,
    method_to_read,
)
from tests.support.trained_models import TASK, stock_model

WORDS = TASK.target_dictionary
BATCH = tiny.random_batch(TASK, [3, 5, 8, 2, 0])
# Random models hardly end sentences.
FUSED = dict(lm_weight=0.6, max_len_b=9, beam=4)
MODELS = {
    "trained": lambda: [stock_model()],
    "random": lambda: [stock_model(trained=False)],
    "two": lambda: [stock_model(), stock_model(trained=False)],
    "encoder in torch": lambda: [stock_model(trained=False, encoder_layers=0)],
}


def as_fairseq(beam, prefix_tokens=None, **options):
    return dict(options, beam_size=beam, prefix_tokens=prefix_tokens)


@settings(max_examples=examples(40))
@given(
    models=st.sampled_from(sorted(MODELS)), kind=st.sampled_from(sorted(KINDS)),
    weight=st.sampled_from([0.0, 0.3, 1.0, -0.4]), options=options_strategy,
    lengths=lengths_strategy, beam=st.integers(1, 6), n_forced=st.integers(0, 3),
    make=st.sampled_from([compiled_method, method_to_read]),
)  # fmt: skip
def test_the_hypotheses_of_fairseq(models, kind, weight, options, lengths, beam, n_forced, make):
    models, sample = MODELS[models](), tiny.random_batch(TASK, lengths, seed=beam)
    fusion = dict(options, lm_model=random_model(**KINDS[kind]), lm_weight=weight)
    draw = torch.Generator().manual_seed(n_forced)
    prefix = torch.randint(4, len(WORDS), (len(lengths), n_forced), generator=draw)
    prefix = prefix if n_forced else None
    generator = make(models, "beam", beam=beam, **fusion)
    ours = generator.generate(models, sample, prefix_tokens=prefix)
    theirs = fairseq_hypotheses(models, sample, **as_fairseq(beam, prefix, **fusion))
    assert_alike_beams(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["torch", "fp64", pytest.param("compiled", marks=compiled)])
def test_kinds_of_language_models(way, kind):
    lm, models = random_model(1, **KINDS[kind]), [stock_model()]
    if way == "fp64":
        lm, models = copy.deepcopy(lm).double(), [fp64_model()]
    fusion = dict(FUSED, lm_model=lm)
    generator = (compiled_method if way == "compiled" else method_to_read)(models, "beam", **fusion)
    assert generator.decodes_compiled() == (way == "compiled")
    beam = fusion.pop("beam")
    theirs = fairseq_hypotheses(models, BATCH, **as_fairseq(beam, **fusion))
    ours = generator.generate(models, BATCH)
    assert_alike_beams(ours, theirs, atol=1e-5 if way == "fp64" else 1e-4)
    without = decoded(models, BATCH, "beam", max_len_b=9, beam=beam)
    assert [own[0]["tokens"].tolist() for own in ours] != [
        own[0]["tokens"].tolist() for own in without
    ]


@compiled
@settings(max_examples=examples(15))
@given(
    decoding=st.sampled_from([*BEAMS, "greedy"]), models=st.sampled_from(sorted(MODELS)),
    weight=st.sampled_from([0.5, -0.2]), n_forced=st.integers(0, 3),
    more=st.sampled_from([
        {}, dict(no_repeat_ngram_size=2), dict(min_len=4, unk_penalty=-1.0),
        dict(temperature=0.5),
    ]),
)  # fmt: skip
def test_compiled_code_has_the_same_hypotheses_as_torch(decoding, models, weight, n_forced, more):
    fusion = dict(FUSED, lm_model=random_model(2), lm_weight=weight, **more)
    fusion["beam"] = 1 if decoding == "greedy" else 4
    prefix = prefixes(5, n_forced) if n_forced else None
    assert_as_compiled(MODELS[models](), BATCH, decoding, prefix=prefix, **fusion)


@compiled
@pytest.mark.parametrize(
    "decoding, method, more",
    [
        ("beam", {}, dict(sampling=True, sampling_topk=4)),
        ("beam", {}, dict(sampling=True, sampling_topp=0.7, lm_weight=-0.3)),
        ("beam", {}, dict(sampling=True, sampling_topp=0.7)),
        ("beam", {}, dict(match_source_len=True)),
        ("beam", {}, dict(diverse_beam_groups=2)),
        ("beam", dict(prune_threshold=1.0), {}),
        ("beam", dict(finalize="hf"), {}),
        ("beam", dict(finalize="paper"), dict(lm_weight=-0.3)),
        ("streaming", dict(refill_threshold=0.9), dict(capacity=dict(sentences=2))),
    ],
    ids=str,
)
def test_other_rules_of_beams(decoding, method, more):
    fusion = dict(FUSED, lm_model=random_model(2), **more) | more
    assert_as_compiled([stock_model()], BATCH, decoding, method, **fusion)


@pytest.mark.parametrize("make", [compiled_method, method_to_read])
def test_constraints(make):
    """Of one token and one sentence that ends by itself: fairseq has faults in other cases."""
    sample, fusion = tiny.random_batch(TASK, [5]), dict(lm_model=random_model(3), lm_weight=0.1)
    search = LexicallyConstrainedBeamSearch(WORDS, "ordered")
    stock = SequenceGenerator([stock_model()], WORDS, 3, search_strategy=search, **fusion)
    own = make([stock_model()], "beam", beam=3, constraints="ordered", **fusion)
    for token in range(WORDS.nspecial, len(WORDS)):
        phrases = pack_constraints([[torch.tensor([token])]])
        given = dict(constraints=phrases)
        found = (one.generate([stock_model()], sample, **given) for one in (own, stock))
        assert_alike_beams(*found)


@compiled
@pytest.mark.parametrize("weight", [0.5, -0.2])
def test_shortlists(weight, tmp_path):
    """Each sentence has its own types, also in the language model."""
    table = next_words(tmp_path / "lex.s2t", 20)
    method = dict(shortlist=table, shortlist_first=0, shortlist_best=3)
    fusion = dict(FUSED, lm_model=random_model(2), lm_weight=weight)
    assert_as_compiled([stock_model(trained=False)], BATCH, "beam", method, **fusion)


@compiled
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("decoding", ["beam", "greedy"])
def test_precisions(precision, decoding):
    """Scores of the same outputs, which are forced."""
    lm = random_model(**KINDS["pre-norm"])
    fusion = dict(lm_model=lm, lm_weight=1.0, beam=1, max_len_b=20)
    target = BATCH["target"]
    exact = decoded([stock_model()], BATCH, decoding, prefix=target, **fusion)
    method = dict(engine_precision=precision)
    generator = compiled_method([stock_model()], decoding, method, **fusion)
    rounded = generator.generate([], BATCH, prefix_tokens=target)
    for own, other in zip(rounded, exact, strict=True):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
        scores = own[0]["positional_scores"], other[0]["positional_scores"]
        assert not torch.equal(*scores)
        torch.testing.assert_close(*scores, atol=0.4, rtol=0.1)


@pytest.mark.parametrize("make", [compiled_method, method_to_read])
def test_attention_is_that_of_the_translation_models(make):
    """For the same tokens, which are forced."""
    fusion = dict(beam=2, max_len_b=20, print_alignment="soft")
    target, found = BATCH["target"], []
    for lm in ({}, dict(lm_model=random_model(), lm_weight=0.5)):
        generator = make(MODELS["two"](), "beam", **fusion, **lm)
        hypotheses = generator.generate([], BATCH, prefix_tokens=target)
        found.append([own[0]["attention"] for own in hypotheses])
    for own, other in zip(*found, strict=True):
        torch.testing.assert_close(own, other, atol=1e-5, rtol=0)


@pytest.mark.parametrize("make", [compiled_method, method_to_read])
def test_learned_positions_limit_outputs(make):
    """fairseq's generator raises an IndexError there, but only there."""
    models, sizes = [stock_model(trained=False)], dict(tokens_per_sample=6, max_target_positions=6)
    given = dict(lm_weight=0.3, max_len_b=20, min_len=3, beam=2)
    limited = random_model(decoder_learned_pos=True, **sizes)
    ours = make(models, "beam", lm_model=limited, **given).generate([], BATCH)
    assert max(len(one["tokens"]) for own in ours for one in own) == 6
    fusion = dict(given, lm_model=random_model(**sizes))
    ours = make(models, "beam", **fusion).generate([], BATCH)
    assert max(len(one["tokens"]) for own in ours for one in own) > 6
    beam = fusion.pop("beam")
    assert_alike_beams(ours, fairseq_hypotheses(models, BATCH, **as_fairseq(beam, **fusion)))


@pytest.mark.parametrize(
    "options, part",
    [
        (dict(adaptive_softmax_cutoff="8,16"), "the model has an adaptive softmax"),
        (dict(adaptive_input=True, adaptive_input_cutoff="8,16"), "the target embedding is a"),
        (dict(decoder_layers=0), "the decoder has no layers"),
    ],
)
def test_other_language_models(options, part):
    lm = random_model(**options)
    with pytest.raises(UnsupportedModel, match=f"^--lm-path: {part}.*; use --decoding fairseq"):
        compiled_method([stock_model()], "beam", **FUSED, lm_model=lm)


def test_what_is_no_transformer():
    args = argparse.Namespace(
        decoder_embed_path=None, share_decoder_input_output_embed=False, decoder_embed_dim=8,
        decoder_hidden_size=8, decoder_out_embed_dim=8, decoder_layers=1, dropout=0.0,
        decoder_dropout_in=0.0, decoder_dropout_out=0.0, decoder_attention=False,
        adaptive_softmax_cutoff=None, criterion="cross_entropy", tokens_per_sample=64,
        max_target_positions=64, residuals=False, decoder_freeze_embed=False,
    )  # fmt: skip
    lm = LSTMLanguageModel.build_model(args, LanguageModelingTask(None, WORDS))
    with pytest.raises(UnsupportedModel, match="^--lm-path: .* LSTMDecoder, not a transformer"):
        compiled_method([stock_model()], "beam", **FUSED, lm_model=lm)
    with pytest.raises(UnsupportedModel, match="^--lm-path: TransformerModel is not a language"):
        compiled_method([stock_model()], "beam", **FUSED, lm_model=stock_model())


def test_torch_decodes_if_the_engine_does_not_have_the_language_model(caplog):
    lm = random_model(activation_fn="relu_squared")
    with caplog.at_level("INFO"):
        generator = compiled_method([stock_model()], "beam", **FUSED, lm_model=lm)
    assert not generator.decodes_compiled()
    assert "in the language model, the decoder: its activation is not" in caplog.text


@pytest.mark.parametrize("make", [compiled_method, method_to_read])
def test_drafts_do_not_change_the_output(make):
    generator = make([stock_model()], "greedy", lm_model=random_model(), lm_weight=0.3)
    expected = [own[0]["tokens"] for own in generator.generate([], BATCH)]
    before = generator.statistics.decoder_invocations
    found = generator.generate([], {**BATCH, "drafts": expected})
    assert [own[0]["tokens"].tolist() for own in found] == [own.tolist() for own in expected]
    assert generator.statistics.decoder_invocations - before == 1


def test_the_weight_of_fairseq():
    """1 for a model that a program gives without a weight; without a model there is none."""
    args, lm = argparse.Namespace(lm_weight=0.3), random_model()

    def weight(**extra):
        own = LanguageModel.of(args, extra, WORDS, stock_model())
        return own and own.weight

    assert weight(lm_model=lm) == 1 and weight(lm_model=lm, lm_weight=0.7) == 0.7
    assert weight() is None and weight(lm_model=lm, lm_weight=0.0) is None


def test_other_dictionaries():
    lm = random_model(words=tiny.dictionary(21))
    message = r"^--lm-path: the model's dictionary .*: it has 25 types, not 24; give one that was"
    with pytest.raises(ValueError, match=message):
        compiled_method([stock_model()], "beam", **FUSED, lm_model=lm)


def test_files_that_do_not_fit(language_model, tmp_path):
    def error(path):
        args = argparse.Namespace(beam=2, lm_path=str(path), lm_weight=0.5)
        with pytest.raises(ValueError) as found:
            build_generator([stock_model()], WORDS, args, DecodingOptions(decoding="beam"))
        return str(found.value)

    missing, damaged = tmp_path / "missing.pt", tmp_path / "damaged.pt"
    assert error(missing).startswith(f"--lm-path {missing}: cannot be loaded (FileNotFoundError")
    damaged.write_bytes(b"no checkpoint")
    assert error(damaged).startswith(f"--lm-path {damaged}: cannot be loaded (")
    assert "\n" not in error(damaged)
    lm = shutil.copy(language_model[1], tmp_path / "lm.pt")
    assert error(lm) == (
        f"--lm-path {lm}: the model has 16 types, and the target dictionary 24; give one that was "
        "trained with the target dictionary"
    )
    (tmp_path / "dict.txt").write_text("w1 1\n", encoding="utf-8")
    expected = f"--lm-path {lm}: the model's dictionary is not the target's: type 4 is w1, not w0;"
    assert error(lm).startswith(expected)
