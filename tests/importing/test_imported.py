"""Imported models that are written, loaded and decoded."""

import json
from dataclasses import replace

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

import fairseq_fastdec
from fairseq_fastdec.importing import recognising
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.registry import METHODS
from tests.support import imported_models, marian_writing
from tests.support.compiled import compiled
from tests.support.imported_models import ARCHITECTURES, DEFAULTS, FORMATS, random_model, written

LINES = ["w1 w2 w3", "w5", "w7 w7 w1 w9 w4 w2", "w0 w19 w19"]
PUBLISHED = {"beam": 3, "lenpen": 0.3, "max_len_a": 0.0, "max_len_b": 6, "nbest": 2}


def reference(imported, lines, beam=1, **options):
    """The texts of fairseq's own generator, with the tokens of the default pair."""
    model, task = imported_models.built(imported)
    words = task.source_dictionary
    around = imported_models.surroundings(imported, imported.source_lang, imported.target_lang)
    generator = SequenceGenerator([model], words, beam_size=beam, **options)
    unprinted = {*imported.languages.values(), "<s>", "</s>"}
    texts = []
    for line in lines:
        numbers = [words.indices[word] for word in line.split()]
        tokens = torch.tensor([around.around([*numbers, words.eos()])])
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}
        prefix = torch.tensor([around.prefix]) if around.prefix else None
        given = {"prefix_tokens": prefix, "bos_token": around.bos}
        (best,) = generator.generate([model], {"net_input": net_input}, **given)
        found = map(words.__getitem__, best[0]["tokens"].tolist())
        texts.append(" ".join(word for word in found if word not in unprinted))
    return texts


@pytest.mark.parametrize("way", ["compiled", "torch"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_translations(arch, format, way, tmp_path, request):
    """Of models with and without languages, as fairseq's generator translates."""
    if way == "torch":
        request.getfixturevalue("nothing_compiled")
    translator = fairseq_fastdec.load(written(tmp_path, format, arch))
    imported = random_model(format, arch)
    assert translator.translate(LINES) == reference(imported, LINES, **DEFAULTS)
    expected = reference(imported, LINES, beam=4, **DEFAULTS)
    assert translator.translate(LINES, beam=4) == expected


@compiled
@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_precisions(arch, precision, tmp_path):
    """Scores are close to those of fp32."""
    translator = fairseq_fastdec.load(written(tmp_path, "one pair", arch))
    expected = translator.translate(LINES, details=True)
    found = translator.translate(LINES, details=True, engine_precision=precision)
    for own, theirs in zip(found, expected):
        scores = zip(own.positional_scores[:1], theirs.positional_scores[:1])
        assert all(abs(score - other) < 0.2 for score, other in scores)


def test_shared_parameters_count_once():
    imported = random_model()
    imported = replace(imported, state=dict(imported.state))
    n_parameters = sum(own.numel() for own in imported.state.values())
    embeddings = imported.state["encoder.embed_tokens.weight"]
    imported.state["decoder.embed_tokens.weight"] = embeddings
    assert imported.n_parameters <= n_parameters
    imported.state["decoder.output_projection.weight"] = torch.zeros(2, 3)
    before = imported.n_parameters
    imported.state["decoder.output_projection.weight"] = embeddings
    assert imported.n_parameters == before - 6


# Recorded options


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A model that was published with options, and one without."""
    folder = tmp_path_factory.mktemp("published")
    defaults = ({**PUBLISHED, "finalize": "hf"}, {})
    paths = (folder / "with", folder / "without")
    made = [
        fairseq_fastdec.load(written(path, "one pair", defaults=own))
        for path, own in zip(paths, defaults)
    ]
    return made


GIVEN = [
    {},
    {"beam": 5},
    {"lenpen": 2.0},
    {"nbest": 1},
    {"max_len_b": 4},
    {"finalize": "fairseq"},
    {"beam": 4, "nbest": 3, "lenpen": 1.0, "max_len_a": 1.0, "max_len_b": 2},
    {"decoding": "beam"},
    {"no_repeat_ngram_size": 2},
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_they_apply_unless_others_are_given(published, given):
    with_options, without = published
    explicit = {**PUBLISHED, "finalize": "hf", **given}
    found = with_options.translate(LINES, details=True, **given)
    assert found == without.translate(LINES, details=True, **explicit)
    assert with_options.translate(LINES[0], **given) == without.translate(LINES[0], **explicit)


KEEPS_ONE = [name for name in METHODS if name not in ("double_token", "blockwise")]


@pytest.mark.parametrize("decoding", ["fairseq", *KEEPS_ONE])
def test_they_yield_to_the_method_of_a_call(published, decoding):
    """Those that a method does not have are left out."""
    with_options, without = published
    has_beams = decoding in ("fairseq", "beam", "variable_beam", "streaming")
    explicit = {name: own for name, own in PUBLISHED.items() if has_beams or name not in (
        "beam", "nbest", "finalize",
    )}  # fmt: skip
    if decoding == "beam":
        explicit["finalize"] = "hf"
    found = with_options.translate(LINES, decoding=decoding)
    assert found == without.translate(LINES, decoding=decoding, **explicit)
    assert isinstance(found[0], list) == has_beams


def test_the_rule_of_transformers_yields_to_pruning(published):
    with_options, without = published
    found = with_options.translate(LINES, prune_threshold=1.0)
    assert found == without.translate(LINES, prune_threshold=1.0, **PUBLISHED)
    with pytest.raises(ValueError, match="cannot be combined with --finalize hf; remove one"):
        with_options.translate(LINES, prune_threshold=1.0, finalize="hf")


def test_samples(published):
    with_options, without = published
    torch.manual_seed(3)
    found = with_options.translate(LINES, sampling=True)
    torch.manual_seed(3)
    assert found == without.translate(LINES, sampling=True, **PUBLISHED)


@pytest.mark.parametrize("finalize", ["hf", "hf_early"])
def test_rules_of_transformers_yield_to_other_methods(tmp_path, finalize):
    own = {**DEFAULTS, "beam": 3}
    recorded = written(tmp_path / "with", "one pair", defaults={**own, "finalize": finalize})
    with_options, without = map(
        fairseq_fastdec.load, (recorded, written(tmp_path / "without", "one pair", defaults=own))
    )
    explicit = {"finalize": finalize}
    assert with_options.translate(LINES) == without.translate(LINES, **explicit)
    for given in ({"decoding": "variable_beam"}, {"sampling": True, "sampling_topk": 1}):
        assert with_options.translate(LINES, **given) == without.translate(LINES, **given)


def test_a_beam_of_one_is_greedy(published):
    with_options, without = published
    limits = {"max_len_a": 0.0, "max_len_b": 6, "lenpen": 0.3}
    expected = without.translate(LINES, decoding="greedy", **limits)
    assert with_options.translate(LINES, beam=1) == expected
    assert with_options.translate(LINES, decoding="greedy") == expected


def test_options_of_load_come_first(tmp_path):
    folder = written(tmp_path, "one pair", defaults=PUBLISHED)
    translator = fairseq_fastdec.load(folder, beam=1, nbest=1, max_len_b=3)
    assert all(len(text.split()) <= 3 for text in translator.translate(LINES))
    longer = translator.translate(LINES, max_len_b=5, decoding="greedy")
    assert max(len(text.split()) for text in longer) in (4, 5)


@compiled
def test_bundles_have_them(published, tmp_path):
    translator, _ = published
    export(translator, tmp_path / "model.fastdec")
    bundle = fairseq_fastdec.load(tmp_path / "model.fastdec")
    for given in ({}, {"beam": 5}, {"nbest": 1}, {"lenpen": 1.0}):
        found = bundle.translate(LINES, **given)
        assert found == [translator.translate(line, **given) for line in LINES]
        assert found == translator.translate(LINES, **given)


@pytest.mark.parametrize("text", ["{", "[1]", '"a"', "\xff"])
def test_recorded_options_that_are_damaged(tmp_path, text):
    folder = written(tmp_path, "one pair")
    (folder / "generation.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match="generation.json: is not valid .*; import the model aga"):
        fairseq_fastdec.load(folder)


def test_recorded_options_that_do_not_exist(tmp_path):
    folder = written(tmp_path, "one pair", defaults={"beem": 3})
    with pytest.raises(ValueError, match="beem: .*did you mean beam"):
        fairseq_fastdec.load(folder)


def test_a_shortlist_is_beside_the_checkpoint(tmp_path, monkeypatch):
    lists = [[2 + number % 6] for number in range(22)]
    marian_writing.write_shortlist(tmp_path / "lex.bin", 2, lists)
    files = {"own.bin": (tmp_path / "lex.bin").read_bytes()}
    defaults = {**DEFAULTS, "shortlist": "own.bin"}
    folder = written(tmp_path / "model", "one pair", defaults=defaults, files=files)
    monkeypatch.chdir(folder.parent)
    translator = fairseq_fastdec.load("model")
    free = fairseq_fastdec.load(written(tmp_path / "free", "one pair"))
    expected = free.translate(LINES, shortlist="lex.bin")
    assert translator.translate(LINES) == expected != free.translate(LINES)
    stock = translator.translate(LINES, decoding="fairseq", beam=1)
    assert stock == free.translate(LINES) == translator.translate(LINES, shortlist=None)
    (folder / "own.bin").unlink()
    with pytest.raises(ValueError, match="--shortlist model.own.bin: cannot be read"):
        fairseq_fastdec.load("model").translate(LINES)


# Models that are imported by load()


def test_imported_by_load(tmp_path, monkeypatch, caplog):
    """The files that are written for it are removed with the translator."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.npz").touch()
    monkeypatch.setattr(recognising, "read", lambda path: random_model())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with caplog.at_level("INFO"):
        translator = fairseq_fastdec.load(folder, source_lang="de", target_lang="fr", beam=2)
    assert f"python -m fairseq_fastdec import {folder} --destdir DIR" in caplog.text
    own = fairseq_fastdec.load(written(tmp_path / "written"), beam=2)
    expected = own.translate(LINES, source="de", target="fr")
    assert translator.translate(LINES) == expected
    (made,) = tmp_path.glob("fastdec-*")
    assert json.loads((made / "generation.json").read_text()) == DEFAULTS
    del translator
    assert not made.exists()


def test_options_of_load_for_a_model_that_is_imported(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.npz").touch()
    monkeypatch.setattr(recognising, "read", lambda path: random_model("one pair"))

    class Swapped:
        def encode(self, text):
            return text.replace("w5", "w6")

        def decode(self, text):
            return text

    translator = fairseq_fastdec.load(folder, bpe=Swapped(), tokenizer=None)
    assert translator.translate("w1 w5") == fairseq_fastdec.load(folder).translate("w1 w6")
    with pytest.raises(ValueError, match="^data x: .* has dictionaries of its own; remove it$"):
        fairseq_fastdec.load(folder, data="x")
