"""The files of a model of Marian: which is the model, and which are its vocabularies."""

import json
import os

import pytest

from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.marian_directory import found

LAYOUTS = {
    "Firefox": (
        "model.enpt.intgemm.alphas.bin vocab.enpt.spm lex.50.50.enpt.s2t.bin",
        "model.enpt.intgemm.alphas.bin",
        "vocab.enpt.spm vocab.enpt.spm vocab.enpt.spm vocab.enpt.spm",
        "en pt",
    ),
    "Firefox, two vocabularies": (
        "model.enja.intgemm.alphas.bin srcvocab.enja.spm trgvocab.enja.spm",
        "model.enja.intgemm.alphas.bin",
        "srcvocab.enja.spm trgvocab.enja.spm srcvocab.enja.spm trgvocab.enja.spm",
        "en ja",
    ),
    "Opus-MT": (
        "opus.npz opus.spm32k-spm32k.vocab.yml source.spm target.spm README.md",
        "opus.npz",
        "opus.spm32k-spm32k.vocab.yml opus.spm32k-spm32k.vocab.yml source.spm target.spm",
        "source target",
    ),
    "one model of pieces": (
        "model.npz model.npz.optimizer.npz vocab.yml pieces.spm",
        "model.npz",
        "vocab.yml vocab.yml pieces.spm pieces.spm",
        "source target",
    ),
    "sides by name": (
        "model.npz vocab.trg.spm vocab.src.spm",
        "model.npz",
        "vocab.src.spm vocab.trg.spm vocab.src.spm vocab.trg.spm",
        "source target",
    ),
    "three letters": (
        "lex.50.50.engpor.s2t.bin model.bin vocab.spm",
        "model.bin",
        "vocab.spm vocab.spm vocab.spm vocab.spm",
        "eng por",
    ),
}


def touched(folder, names):
    """Make a directory with empty files."""
    folder.mkdir(parents=True)
    for name in names.split():
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout, tmp_path):
    names, model, vocabularies, languages = LAYOUTS[layout]
    folder = touched(tmp_path / "files", names)
    files = found(folder)
    assert files.model == folder / model
    assert list(files.vocabularies) == [folder / name for name in vocabularies.split()]
    assert list(files.languages) == languages.split()
    lists = [name for name in names.split() if name.startswith("lex")]
    assert files.shortlist == (folder / lists[0] if lists else None)
    assert files.config.values == {}


@pytest.mark.parametrize(
    "name, languages",
    [
        ("opus-mt-en-pt", "en pt"),
        ("opus-mt-tc-big-en-pt", "en pt"),
        ("enpt-1693087644", "en pt"),
        ("en-pt", "en pt"),
        ("base-model", "source target"),
        ("opus-mt-en-ROMANCE", "source target"),
    ],
)
def test_languages_of_directories(name, languages, tmp_path):
    folder = touched(tmp_path / name, "model.npz vocab.spm")
    assert " ".join(found(folder).languages) == languages


@pytest.mark.parametrize(
    "name, values",
    [
        ("metadata.json", {"sourceLanguage": "en", "targetLanguage": "zh-Hans"}),
        ("model_info.json", {"shortName": "en-pt-tiny"}),
    ],
)
def test_languages_of_metadata(name, values, tmp_path):
    folder = touched(tmp_path / "files", "model.npz vocab.spm")
    (folder / name).write_text(json.dumps(values))
    assert found(folder).languages.source == "en"
    (folder / name).write_text("[" * 100000)
    with pytest.raises(UnreadableModel, match=f"{name}: is not JSON"):
        found(folder)


def test_the_configuration_names_files(tmp_path):
    folder = touched(tmp_path / "files", "a.npz b.npz x.yml y.yml vocab.yml s.spm lex.a.bin l.bin")
    (folder / "decoder.yml").write_text(
        "models: [../else/b.npz]\nvocabs: [y.yml, x.yml]\nshortlist: [l.bin, 50, 50]\n"
    )
    files = found(folder)
    assert files.model == folder / "b.npz"
    assert files.vocabularies[:2] == (folder / "y.yml", folder / "x.yml")
    assert files.shortlist == folder / "l.bin"
    assert found(folder / "a.npz").model == folder / "a.npz"
    (folder / "a.npz.decoder.yml").write_text("beam-size: 3")
    assert found(folder / "a.npz").config.values == {"beam-size": "3"}


def test_files_that_the_configuration_names_in_vain(tmp_path):
    folder = touched(tmp_path / "files", "a.npz vocab.spm")
    (folder / "config.intgemm8bitalpha.yml").write_text("models: [b.npz]\nvocabs: [c.spm, d.spm]\n")
    files = found(folder)
    assert files.model == folder / "a.npz" and files.vocabularies[0] == folder / "vocab.spm"


@pytest.mark.parametrize(
    "names, why",
    [
        ("vocab.spm", "has no model of Marian"),
        ("a.npz b.npz vocab.spm", r"has 2 models \(a.npz, b.npz\)"),
        ("a.npz", "has 0 vocabularies"),
        ("a.npz a.vocab.spm b.vocab.spm c.vocab.spm", "has 3 vocabularies"),
        ("a.npz vocab.yml source.bpe", "has 0 models of SentencePiece"),
        ("a.npz vocab.fsv", "factored vocabularies"),
    ],
)
def test_files_that_are_missing(names, why, tmp_path):
    folder = touched(tmp_path / "files", names)
    with pytest.raises(UnreadableModel, match=why) as error:
        found(folder)
    assert str(folder) in str(error.value)


def test_configurations_that_are_no_options(tmp_path):
    folder = touched(tmp_path / "files", "a.npz vocab.spm")
    for text, why in (("- a\n", "is not a list of options"), (" " * (1 << 20) + "a", "bytes")):
        (folder / "decoder.yml").write_text(text)
        with pytest.raises(UnreadableModel, match=f"decoder.yml: .*{why}"):
            found(folder)


def test_a_directory_that_is_missing(tmp_path):
    with pytest.raises((UnreadableModel, OSError), match="nowhere"):
        found(tmp_path / "nowhere")
    assert not os.path.exists(tmp_path / "nowhere")
