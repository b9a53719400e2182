"""The files and the text of a checkpoint are found, or the error names what is missing."""

import shutil

import pytest
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

import fairseq_fastdec
from fairseq_fastdec.tasks.registration import STOCK
from tests.support.words import write_words

LINES = ["a b c", "j i", "c a b d e", "f", "h g f e d c b a"]
LANGUAGES = dict(source_lang="en", target_lang="de")


@pytest.fixture(scope="module")
def translator(corpus, baseline):
    return fairseq_fastdec.load(baseline, corpus)


def test_files_beside_the_checkpoint(corpus, baseline, translator, tmp_path):
    shutil.copy(baseline, tmp_path / "checkpoint.pt")
    with pytest.raises(FileNotFoundError, match="^data .*: has no dictionaries"):
        fairseq_fastdec.load(tmp_path)
    for language in ("en", "de"):
        shutil.copy(corpus / f"dict.{language}.txt", tmp_path)
    with pytest.raises(ValueError, match="^source_lang, target_lang: neither the checkpoint nor"):
        fairseq_fastdec.load(tmp_path)
    own = fairseq_fastdec.load(tmp_path, **LANGUAGES)
    assert own.translate(LINES) == translator.translate(LINES)
    with pytest.raises(FileNotFoundError, match="dict.fr.txt: no such file; give source_lang"):
        fairseq_fastdec.load(tmp_path, source_lang="fr", target_lang="de")
    (tmp_path / "bpe.codes").write_text("#version: 0.2\na b</w>\n")
    with_codes = fairseq_fastdec.load(tmp_path, **LANGUAGES)
    assert with_codes.translate("a &") == with_codes.translate("a &amp;")
    own = fairseq_fastdec.load(tmp_path, tokenizer=None, bpe=None, **LANGUAGES)
    assert own.translate(LINES) == translator.translate(LINES)


def test_subwords_without_codes(baseline, tmp_path, corpus):
    shutil.copy(baseline, tmp_path / "checkpoint.pt")
    for language in ("en", "de"):
        text = (corpus / f"dict.{language}.txt").read_text().replace("a ", "a@@ ", 1)
        (tmp_path / f"dict.{language}.txt").write_text(text)
    with pytest.raises(ValueError, match=r"^bpe auto: .* subwords such as a@@, .*looked for bpe"):
        fairseq_fastdec.load(tmp_path, **LANGUAGES)
    assert fairseq_fastdec.load(tmp_path, bpe=None, **LANGUAGES).translate("a@@ b c")


@pytest.mark.parametrize("name", ["tokenizer", "bpe"])
def test_unknown_tokenisers(corpus, baseline, name):
    with pytest.raises(ValueError, match=f"^{name} foo: unknown; choose from auto, "):
        fairseq_fastdec.load(baseline, corpus, **{name: "foo"})


def test_files_that_do_not_fit(baseline, tmp_path):
    for language in ("en", "de"):
        write_words(tmp_path / f"dict.{language}.txt", [["x", "1"]])
    with pytest.raises(ValueError, match=r"^path .*: cannot be loaded \(.*; give a complete che"):
        fairseq_fastdec.load(baseline, tmp_path, **LANGUAGES)


def test_a_task_without_decoding_methods(corpus, baseline, monkeypatch):
    monkeypatch.setitem(TASK_REGISTRY, "translation", STOCK["translation"].task)
    monkeypatch.setitem(TASK_DATACLASS_REGISTRY, "translation", STOCK["translation"].options)
    with pytest.raises(ValueError, match="TranslationTask, has no decoding methods; call fair"):
        fairseq_fastdec.load(baseline, corpus)
