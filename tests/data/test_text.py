"""All text that users give is read in UTF-8, without a byte order mark."""

import argparse
import ast
import bz2
import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.data.audio import data_cfg
from fairseq.data.audio.speech_to_text_dataset import SpeechToTextDatasetCreator
from fairseq.data.encoders import gpt2_bpe_utils
from fairseq.data.encoders.fastbpe import fastBPE, fastBPEConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from fairseq.data.indexed_dataset import IndexedRawTextDataset
from fairseq.data.multilingual import multilingual_data_manager
from fairseq_cli import interactive
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.compare.scoring import read_references
from fairseq_fastdec.corpora.text_files import TextInput
from fairseq_fastdec.data import text
from fairseq_fastdec.data.draft_lines import DraftLines
from fairseq_fastdec.data.model_files import bpe_of
from fairseq_fastdec.decoding import shortlist as shortlists
from fairseq_fastdec.fairseq_patches import faster_fairseq
from fairseq_fastdec.tools.prepare_data import read_lines
from fairseq_fastdec.tools.visualize.command import read_sentences
from fairseq_fastdec.translating.text import SubwordNMT
from fairseq_fastdec.translating.translation_memory import TranslationMemory
from tests.support import after_import

faster_fairseq.install()  # fairseq_cli.interactive is imported last
PACKAGE = Path(text.__file__).resolve().parents[1]
LINES = "Grüße a\nb ö\n"
CODES = "#version: 0.2\na b</w>\nü ß\n"


def lines_of(path):
    return list(TextInput([str(path)]).lines())


def packed(pack):
    def lines(path):
        compressed = path.with_suffix({gzip: ".gz", bz2: ".bz2"}[pack])
        compressed.write_bytes(pack.compress(path.read_bytes()))
        return lines_of(compressed)

    return lines


def from_standard_input(read):
    def lines(path):
        before = sys.stdin
        with open(path, encoding="ascii") as sys.stdin:
            try:
                return read()
            finally:
                sys.stdin = before

    return lines


def memory(path):
    split = str.split
    return list(TranslationMemory(str(path), str(path), split, split)._pairs())


def shortlist(path):
    words = Dictionary()
    for word in "Grüße a b ö".split():
        words.add_symbol(word)
    path.write_bytes(path.read_bytes().replace(b"\n", b" 0.5\n"))
    return shortlists.load(str(path), words, words).targets.tolist()


def subwords(path):
    return SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(path))).encode("ab aüß")


def bundled(path):
    return SubwordNMT(path.read_bytes(), "@@").encode("ab aüß")


def symbols(path):
    return Dictionary.load(str(path)).symbols


def raw(path):
    dataset = IndexedRawTextDataset(str(path), Dictionary())
    return dataset.lines


def gpt2(path):
    path.with_suffix(".json").write_bytes(path.read_bytes())
    path.with_suffix(".bpe").write_bytes(path.read_bytes())
    return gpt2_bpe_utils.get_encoder(path.with_suffix(".json"), path.with_suffix(".bpe")).encoder


def languages(path):
    given = argparse.Namespace(langs=None, lang_dict=str(path), lang_pairs=["b-d"])
    return multilingual_data_manager.MultilingualDatasetManager.load_langs(given)


def manifest(path):
    path.rename(path.with_suffix(".tsv"))
    return SpeechToTextDatasetCreator._load_samples_from_tsv(str(path.parent), path.name)


READERS = {
    "drafts": (LINES, lambda path: DraftLines(str(path)).of([0, 1])),
    "memory": (LINES, memory),
    "shortlist": (LINES, shortlist),
    "corpus": (LINES, lines_of),
    "corpus.gz": (LINES, packed(gzip)),
    "corpus.bz2": (LINES, packed(bz2)),
    "standard input": (LINES, from_standard_input(lambda: lines_of("-"))),
    "arriving": (LINES, from_standard_input(lambda: b"".join(TextInput(["-"]).arriving()))),
    "training text": (LINES, read_lines),
    "sentences to draw": (LINES, lambda path: read_sentences(str(path), 9)),
    "drawn from input": (LINES, from_standard_input(lambda: read_sentences("-", 9))),
    "references": (LINES, lambda path: read_references(path, 2)),
    "dictionary": ("Grüße 3\nb 2\n", symbols),
    "codes": (CODES, subwords),
    "codes of a bundle": (CODES, bundled),
    "kind of codes": ("a b 7\n", lambda path: bpe_of(str(path))),
    "json of codes": ('{"ü": 1}', gpt2),
    "lexicon": (LINES, lambda path: utils.load_align_dict(str(path))),
    "raw data": (LINES, raw),
    "languages": ("b\nd\nü\n", languages),
    "weights of languages": ('{"ü": 1}', multilingual_data_manager.load_sampling_weights),
    "manifest": ("id\ttext\n1\tü\n", manifest),
    "configuration": ("vocab_filename: ü\n", data_cfg.get_config_from_yaml),
    "interactive": (LINES, lambda path: list(interactive.buffered_read(str(path), 1))),
    "interactive input": (LINES, from_standard_input(lambda: [*interactive.buffered_read("-", 9)])),
}


@pytest.mark.parametrize("name", READERS)
def test_a_byte_order_mark_changes_nothing(name, tmp_path):
    content, read = READERS[name]
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.write_bytes(content.encode())
    marked.write_bytes(text.MARK + content.encode())
    assert read(marked) == read(plain)


def test_each_file_has_its_own_mark(tmp_path):
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(text.MARK + b"a\n")
    assert list(TextInput([*map(str, paths)]).lines()) == [b"a\n", b"a\n"]


@given(st.lists(st.binary(max_size=4)), st.booleans())
def test_pieces(pieces, is_marked):
    """Of any length: the mark can be cut."""
    whole = b"".join(pieces)
    if is_marked:
        pieces = [bytes([byte]) for byte in text.MARK] + pieces
    assert b"".join(text.without_mark(pieces)) == whole.removeprefix(
        b"" if is_marked else text.MARK
    )


def test_a_mark_that_arrives_in_pieces(monkeypatch):
    reading, writing = os.pipe()

    def write():
        for byte in text.MARK + b"a\nb":
            os.write(writing, bytes([byte]))
        os.close(writing)

    with open(reading) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        writer = threading.Thread(target=write)
        writer.start()
        assert b"".join(TextInput(["-"]).arriving()) == b"a\nb\n"
        writer.join()


def test_the_locale_does_not_matter(tmp_path):
    """Neither for our readers, nor for fairseq's."""
    path = tmp_path / "text"
    path.write_text(LINES, encoding="utf-8")
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "yaml").write_text("a: ü\n", encoding="utf-8")
    program = """
import locale, sys
assert locale.getpreferredencoding().lower() not in ("utf-8", "utf8")
from pathlib import Path
from fairseq import utils
from fairseq.data.audio.data_cfg import get_config_from_yaml
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
import fairseq_fastdec, fairseq_cli.interactive
from fairseq_fastdec.fairseq_patches import faster_fairseq
faster_fairseq.install()
assert get_config_from_yaml(Path(sys.argv[3])) == {"a": "\\u00fc"}
assert utils.load_align_dict(sys.argv[1])["b"] == "\\u00f6"
bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=sys.argv[2]))
assert bpe.encode("a\\u00fc\\u00df") == "a@@ \\u00fc@@ \\u00df", bpe.encode("a\\u00fc\\u00df")
for name in sys.argv[1], "-":
    (lines,) = fairseq_cli.interactive.buffered_read(name, 9)
    assert lines == ["Gr\\u00fc\\u00dfe a", "b \\u00f6"], lines
"""
    ended = after_import.subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, path, tmp_path / "codes",
         tmp_path / "yaml"],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        input=LINES.encode(), capture_output=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_named(tmp_path, encoding):
    path = tmp_path / "text"
    path.write_text(LINES, encoding=encoding)
    for name in ("drafts", "sentences to draw", "references", "interactive", "codes", "raw data"):
        with pytest.raises(ValueError, match=f"{path}.*not UTF-8|not UTF-8.*{path}"):
            READERS[name][1](path)


def test_fastbpe_opens_its_codes_itself(tmp_path):
    path = tmp_path / "codes"
    path.write_bytes(text.MARK + b"a b 7\n")
    with pytest.raises(ValueError, match=f"--bpe-codes {path}: begins with a byte order mark"):
        fastBPE(fastBPEConfig(bpe_codes=str(path)))


def test_codes_that_are_none(tmp_path):
    path = tmp_path / "codes"
    path.write_text("a b c d\n")
    with pytest.raises(ValueError, match=f"--bpe-codes {path}: .*invalid line 1"):
        subwords(path)


def test_what_is_read_twice_is_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for read in (memory, shortlist, lambda path: bpe_of(str(path))):
        with pytest.raises(ValueError, match="not a regular file; write it to a file first"):
            read(argparse.Namespace(**{"__str__": str}) if read is None else _Path(pipe))


class _Path(type(Path())):
    """A path whose content is not touched."""

    def read_bytes(self):
        return b""

    def write_bytes(self, content):
        pass


# Files that open what users do not write as text: the file, the call, and what it reads.
OTHERS = {
    ("data/atomic_files.py", "open"): "files that were written",
    ("data/model_files.py", "read_text"): "options that the package has written",
    ("decoding/shortlist.py", "open"): "bytes, without_mark",
    ("decoding/shortlist.py", "read_bytes"): "a binary file",
    ("decoding/statistics.py", "open"): "only writes",
    ("engine/kernels/loading.py", "open"): "a library",
    ("fairseq_patches/compat.py", "open"): "the first bytes of codes",
    ("fairseq_patches/mapped_checkpoints.py", "open"): "checkpoints and the kernel's files",
    ("importing/marian.py", "read_bytes"): "models of SentencePiece and binary shortlists",
    ("importing/marian_directory.py", "read_bytes"): "YAML and JSON",
    ("importing/marian_files.py", "open"): "parameters",
    ("importing/marian_files.py", "read_bytes"): "parameters",
    ("importing/tensors.py", "read_bytes"): "parameters",
    ("importing/vocabularies.py", "read_bytes"): "JSON and models of SentencePiece",
    ("importing/marian_vocabulary.py", "read_bytes"): "YAML and models of SentencePiece",
    ("processes/cores.py", "read_text"): "the kernel's files",
    ("processes/streams.py", "open"): "standard streams",
    ("serving/app.py", "read_text"): "a page of the package",
    ("serving/config.py", "open"): "TOML",
    ("tasks/translation_languages.py", "open"): "JSON that prepare-data has written",
    ("tools/export.py", "read_bytes"): "codes, which translating/text.py decodes",
    ("data/kept_settings.py", "read_text"): "settings that the package has written",
    ("corpora/chunks.py", "read_bytes"): "chunks",
    ("corpora/ray_pool.py", "open"): "files for another machine",
    ("corpora/text_files.py", "open"): "bytes, without_mark",
    ("tools/visualize/page.py", "read_text"): "a page of the package",
    ("translating/bundle_file.py", "open"): "bundles",
    ("translating/translation_memory.py", "open"): "bytes, without_mark",
}
OPENING = {"open", "read_text", "read_bytes", "fdopen", "input", "FileInput", "TextIOWrapper"}


def openings(path):
    """The calls of a file that open or read another one, unless they write."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        mode = node.args[1] if len(node.args) > 1 else None
        writes = isinstance(mode, ast.Constant) and str(mode.value)[:1] in ("w", "a", "x")
        if name in OPENING and not writes and owner not in ("os", "archive", "batch", "elements"):
            yield name


def test_no_other_file_opens_text():
    """Text is opened by ``data/text.py``; bytes of text go through its ``without_mark``."""
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "data" / "text.py"
        for name in openings(path)
    }
    assert sorted(found) == sorted(OTHERS)
    for file, _ in [pair for pair, what in OTHERS.items() if "without_mark" in what]:
        assert "without_mark(" in (PACKAGE / file).read_text(encoding="utf-8")
    assert "without_mark(" in (PACKAGE / "tools/prepare_data.py").read_text(encoding="utf-8")


def test_the_test_sees_what_opens(tmp_path):
    for line in ("open(p)", "io.open(p, 'r')", "p.open()", "codecs.open(p, 'rb')", "p.read_text()"):
        (tmp_path / "file.py").write_text(line)
        assert list(openings(tmp_path / "file.py"))
    for line in ("open(p, 'w')", "opened(p)", "os.open(p)"):
        (tmp_path / "file.py").write_text(line)
        assert not list(openings(tmp_path / "file.py"))
    assert io.open is open
