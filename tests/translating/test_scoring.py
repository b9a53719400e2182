"""Scores of given targets are those of fairseq's scorer."""

import asyncio
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec import SentenceError, Translation
from fairseq_fastdec.checkpoints.codec import TaskCodec
from fairseq_fastdec.checkpoints.translator import CheckpointTranslator
from fairseq_fastdec.tasks.translation_fastdec import (
    TranslationFastdecConfig,
    TranslationFastdecTask,
)
from fairseq_fastdec.tools.export import content_of
from fairseq_fastdec.translating.bundle import BundleTranslator
from fairseq_fastdec.translating.scoring import languages, pairs_of
from tests.support.compiled import compiled, examples
from tests.support.imported_models import ARCHITECTURES, FORMATS, written
from tests.support.reference_scores import reference_score
from tests.support.trained_models import (
    DOUBLE_TASKS,
    TASK,
    blockwise_model,
    double_model,
    stock_model,
)

MODELS = {
    "trained": lambda: [stock_model()],
    "random": lambda: [stock_model(trained=False)],
    "blockwise": lambda: [blockwise_model()],
    "ensemble": lambda: [stock_model(), stock_model(trained=False), blockwise_model()],
}
WORDS = [f"w{number}" for number in range(20)]
# The tiny models have 64 positions, of which EOS needs one.
MOST_WORDS = 63
SENTENCES = ["w1 w2 w3", "w5", "", "w7 w7 w1 w9 w4 w2 w3", "w0 unseen w19"]
TARGETS = ["w3 w2 w1", "", "w4", "w2 w4 unseen w1 w7", " ".join(WORDS * 3)]
# Where load's options would change translations.
RULES = dict(
    beam=4, nbest=2, lenpen=3.0, unkpen=5.0, min_len=7, max_len_b=9, temperature=0.3,
    no_repeat_ngram_size=2,
)  # fmt: skip


def translator_of(models, task=None, **options):
    dictionaries = TASK.source_dictionary, TASK.target_dictionary
    task = task or TranslationFastdecTask(TranslationFastdecConfig(), *dictionaries)
    return CheckpointTranslator(task, models, TaskCodec(task, None, None), "cpu", options)


@pytest.fixture(scope="module")
def translators():
    """A function of a key of MODELS: translators of the checkpoint, in torch, and of its bundle."""
    known = {}

    def made(name):
        if name not in known:
            checkpoint = translator_of(MODELS[name]())
            bundle = BundleTranslator(content_of(checkpoint), {})
            in_torch = translator_of(MODELS[name](), decoding="fairseq")
            known[name] = {"checkpoint": checkpoint, "bundle": bundle, "torch": in_torch}
        return known[name]

    yield made
    for own in known.values():
        for translator in own.values():
            translator.close()


def expected_of(models, source, target):
    dictionary = TASK.target_dictionary
    source, target = (
        dictionary.encode_line(text, add_if_not_exist=False).tolist() for text in (source, target)
    )
    return reference_score(models, dictionary, source, target)


def check(found, models, source, target):
    expected = expected_of(models, source, target)
    assert found.score == pytest.approx(expected["score"].item(), abs=1e-5)
    scores = expected["positional_scores"].numpy()
    np.testing.assert_allclose(found.positional_scores, scores, rtol=1e-5, atol=1e-5)
    words = [TASK.target_dictionary[token] for token in expected["tokens"].tolist()]
    assert [*found.tokens, "</s>"] == words


@compiled
@pytest.mark.parametrize("kind", ["checkpoint", "bundle", "torch"])
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_fairseqs_scorer(translators, name, kind):
    translator, models = translators(name)[kind], MODELS[name]()
    found = translator.score(SENTENCES, TARGETS, details=True)
    for own, source, target in zip(found, SENTENCES, TARGETS):
        check(own, models, source, target)
    scores = translator.score(SENTENCES, TARGETS)
    assert scores == [own.score for own in found]
    alone = [translator.score(*pair) for pair in zip(SENTENCES, TARGETS)]
    assert alone == (scores if kind != "torch" else pytest.approx(scores, abs=1e-5))
    one_by_one = [asyncio.run(translator.score_async(*own)) for own in zip(SENTENCES, TARGETS)]
    assert one_by_one == alone


@compiled
@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10**6), n=st.integers(0, 40), name=st.sampled_from([*MODELS]))
def test_ragged_batches(translators, seed, n, name):
    draw = random.Random(seed)
    lines = [
        [" ".join(draw.choices([*WORDS, "unseen"], k=draw.randint(0, most))) for _ in range(n)]
        for most in (MOST_WORDS, MOST_WORDS)
    ]
    for translator in translators(name).values():
        found = translator.score(*lines, details=True)
        for own, source, target in zip(found, *lines):
            check(own, MODELS[name](), source, target)


@compiled
@pytest.mark.parametrize("kind", ["checkpoint", "bundle"])
def test_a_batch_is_one_decoder_invocation(translators, kind):
    translator = translators("trained")[kind]
    jobs = [
        translator._scoring_job(*pair, translator.request({})) for pair in zip(SENTENCES, TARGETS)
    ]
    search = jobs[0].recipe.new_search()
    for number, job in enumerate(jobs):
        job.recipe.admit(search, number, job.sentence)
    assert search.advance(1, 1) == 0
    assert search.counts.decoder_invocations == 1
    assert {id(job.recipe.search) for job in jobs} == {id(jobs[0].recipe.search)}


@compiled
def test_options_do_not_change_scores(translators):
    expected = translators("trained")["bundle"].score(SENTENCES, TARGETS)
    checkpoint = translator_of(MODELS["trained"](), **RULES)
    for own in (checkpoint, BundleTranslator(content_of(checkpoint), {})):
        assert own.score(SENTENCES, TARGETS) == expected
        own.close()


@compiled
@pytest.mark.parametrize("precision, error", [("bf16", 0.1), ("int8", 0.3)])
def test_other_precisions_are_close(translators, precision, error):
    expected = translators("trained")["bundle"].score(SENTENCES, TARGETS)
    own = translator_of(MODELS["trained"](), engine_precision=precision)
    found = own.score(SENTENCES, TARGETS)
    own.close()
    assert found != expected and found == pytest.approx(expected, abs=error)


@compiled
@pytest.mark.parametrize("kind", ["checkpoint", "bundle", "torch"])
def test_scores_of_translations_are_those_of_decoding(translators, kind):
    translator = translators("trained")[kind]
    sources = [line for line in SENTENCES if line]
    found = translator.translate(sources, details=True)
    scores = translator.score(sources, [own.text for own in found])
    assert scores == pytest.approx([own.score for own in found], abs=1e-5)


@compiled
@pytest.mark.parametrize("kind", ["checkpoint", "bundle", "torch"])
def test_errors(translators, kind):
    translator = translators("trained")[kind]
    longest = " ".join(["w1"] * MOST_WORDS)
    sources = ["w1", "w1", f"{longest} w1", "w1", "w1", "w1"]
    targets = [longest, f"{longest} w1", "w1", "w1 </s> w2", "<pad>", "w1"]
    found = translator.score(sources, targets, details=True)
    kinds = [own.error and own.error.kind for own in found]
    assert kinds == [None, "too long", "too long", "special symbol", "special symbol", None]
    check(found[0], MODELS["trained"](), "w1", longest)
    assert found[1].error == "too long: 65 target tokens including EOS; at most 64 are possible"
    with pytest.raises(SentenceError, match=r"^sentence 1 \(from 0\): too long") as raised:
        translator.score(sources, targets)
    assert sorted(raised.value.errors) == [1, 2, 3, 4]
    scores = raised.value.translations
    assert [own is None for own in scores] == [own.error is not None for own in found]
    with pytest.raises(SentenceError, match="too long"):
        translator.score(sources[1], targets[1])
    with pytest.raises(SentenceError, match="too long"):
        asyncio.run(translator.score_async(sources[1], targets[1]))
    failed = asyncio.run(translator.score_async(sources[1], targets[1], details=True))
    assert failed == found[1] == Translation(None, error=found[1].error)
    assert translator.score(sources[:0], targets[:0]) == []


@compiled
@pytest.mark.parametrize(
    "format, arch",
    [*((format, "transformer") for format in FORMATS), *(("NLLB", arch) for arch in ARCHITECTURES)],
)
def test_imported_models(tmp_path, format, arch):
    folder = written(tmp_path / "model", format, arch)
    checkpoint = fairseq_fastdec.load(folder)
    bundle = BundleTranslator(content_of(checkpoint), {})
    has_languages = format not in ("BART", "one pair")
    pair = {"source": "fra_Latn", "target": "deu_Latn"} if has_languages else {}
    in_torch = fairseq_fastdec.load(folder, decoding="fairseq")
    dictionary = checkpoint.codec.target
    for own in (checkpoint, bundle, in_torch):
        for source, target in (("w1 w2", "w3 w4 w5"), ("w7", "")):
            found = own.score(source, target, details=True, **pair)
            start = checkpoint.of_pair(checkpoint.request(pair).pair).start
            source_tokens = start.of(checkpoint.codec.encode(source))
            forced = [*source_tokens.prefix, *checkpoint.codec.encode_target(target)]
            given = (checkpoint.models, dictionary, source_tokens.source.tolist(), forced)
            expected = reference_score(*given, source_tokens.bos)
            assert found.score == pytest.approx(expected["score"].item(), abs=1e-5)
            assert " ".join(found.tokens) == target
        own.close()


def test_batches_in_torch():
    models = MODELS["trained"]()
    expected = [expected_of(models, *pair)["score"].item() for pair in zip(SENTENCES, TARGETS)]
    for limits in (dict(batch_size=1), dict(batch_size=None), dict(max_tokens=61)):
        own = translator_of(models, decoding="fairseq", **limits)
        assert own.score(SENTENCES, TARGETS) == pytest.approx(expected, abs=1e-5)
    own = translator_of(models, decoding="fairseq", max_tokens=8)
    kinds = [
        found.error and found.error.kind for found in own.score(SENTENCES, TARGETS, details=True)
    ]
    assert kinds == [None, None, None, None, "too long"]


@compiled
def test_models_that_cannot_score():
    task, model = DOUBLE_TASKS["l2r"], double_model("l2r", torch.float32)
    checkpoint = translator_of([model], task, max_len_b=12)
    bundle = BundleTranslator(content_of(checkpoint), {})
    for own in (checkpoint, bundle):
        for texts in (("w1", "w1"), (["w1"] * 2, ["w1"] * 2)):
            with pytest.raises(ValueError, match="^score.*: .*two tokens a step|left to right"):
                own.score(*texts)
        own.close()


def test_arguments():
    assert pairs_of(" a ", "\ufeffb\n") == [("a", "b")]
    assert pairs_of(iter(["a", ""]), ("b", "c")) == [("a", "b"), ("", "c")]
    assert pairs_of([], []) == []
    with pytest.raises(ValueError, match="^targets: 1 for 2 sources; give one for each source$"):
        pairs_of(["a", "b"], ["c"])
    for sources, targets in (("a", ["b"]), (["a"], "b")):
        with pytest.raises(TypeError, match="^sources, targets: give two texts, or two iterables"):
            pairs_of(sources, targets)
    with pytest.raises(TypeError, match=r"^targets: sentence 1 \(from 0\) is of type NoneType"):
        pairs_of(["a", "b"], ["c", None])
    with pytest.raises(TypeError, match="^sources: of type int"):
        pairs_of(1, ["c"])
    assert languages("en", None) == {"source": "en"}
