"""Lines of files, compressed or not, and what is wrong with some."""

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from pathlib import Path

import pytest

from fairseq_fastdec.corpora.text_files import GATHERED, DamagedFile, TextInput, packed
from tests.support import skips

LINES = [b"first", b"", b"a\rb\x85c\xe2\x80\xa8d\x0c", b"\xff\xfe no UTF-8", b"last"]
CONTENT = b"\n".join(LINES) + b"\n"
PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def zstd_of(content):
    return skips.needs("zstandard").ZstdCompressor().compress(content)


def write(path, content):
    path.write_bytes({**PACK, ".zst": zstd_of}.get(path.suffix, bytes)(content))
    return str(path)


def read(*paths):
    return [line.rstrip(b"\n") for line in TextInput(paths).lines()]


@pytest.mark.parametrize("ending", ["", ".txt", ".gz", ".xz", ".bz2", ".zst"])
def test_lines_end_with_newlines_and_nowhere_else(tmp_path, ending):
    assert read(write(tmp_path / f"text{ending}", CONTENT)) == LINES


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_parts_packed_one_after_the_other(tmp_path, ending):
    """As ``cat a.gz b.gz`` and pzstd make them."""
    paths = [write(tmp_path / f"part{number}{ending}", CONTENT * 2000) for number in range(2)]
    whole = tmp_path / f"whole{ending}"
    whole.write_bytes(b"".join(Path(path).read_bytes() for path in paths))
    assert read(str(whole)) == LINES * 4000


def test_several_files_and_ends_without_newlines(tmp_path):
    paths = [
        write(tmp_path / "a", b"one\ntwo"),
        write(tmp_path / "empty", b""),
        write(tmp_path / "b.gz", b"three"),
    ]
    text = TextInput(paths)
    assert list(text.lines()) == [b"one\n", b"two\n", b"three\n"]
    assert text.place(1) == f"{paths[0]}, line 2" and text.place(2) == f"{paths[2]}, line 1"
    assert list(text.lines()) == [b"one\n", b"two\n", b"three\n"]


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTENT)))
    text = TextInput(["-"])
    assert [line[:-1] for line in text.lines()] == LINES
    assert text.place(1) == "standard input, line 2"
    assert not text.can_be_read_again and text.content() == [None] and text.share_read() is None


def test_standard_input_goes_alone(tmp_path):
    with pytest.raises(ValueError, match="--input -: standard input cannot be combined"):
        TextInput(["-", write(tmp_path / "a", b"")])


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        TextInput([str(tmp_path / "nowhere")])


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("damage", ["cut", "other"])
def test_damaged_files_are_named(tmp_path, ending, damage):
    path = write(tmp_path / f"text{ending}", os.urandom(5000).replace(b"\n", b"") + b"\n")
    whole = Path(path).read_bytes()
    with open(path, "wb") as file:
        file.write(whole[: len(whole) // 2] if damage == "cut" else CONTENT)
    with pytest.raises(
        DamagedFile, match=f"^{path}: damaged, or not in the format of its extension"
    ):
        read(path)


def test_a_directory_is_no_damage(tmp_path):
    with pytest.raises(IsADirectoryError):
        TextInput([str(tmp_path)])


def test_the_content_is_told(tmp_path):
    plain, without_end = write(tmp_path / "a", CONTENT), write(tmp_path / "b", b"x\ny")
    empty, zipped = write(tmp_path / "c", b""), write(tmp_path / "d.gz", CONTENT)
    sizes, digests, lines = zip(*TextInput([plain, without_end, empty, zipped]).content())
    assert sizes[:3] == (len(CONTENT), 3, 0) and lines == (5, 2, 0, None)
    assert len(set(digests)) == 4
    write(tmp_path / "a", CONTENT.replace(b"first", b"First"))
    assert TextInput([plain]).content()[0].sha256 != digests[0]


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_share_that_has_been_read(tmp_path, ending):
    paths = [write(tmp_path / f"{name}{ending}", os.urandom(200_000)) for name in "ab"]
    text = TextInput(paths)
    shares = [text.share_read() for _ in text.lines()]
    assert shares == sorted(shares) and 0 < shares[0] < 0.5 and 0.9 < shares[-1] <= 1


def test_what_a_pipe_holds_nobody_knows(tmp_path):
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    keep_open = os.open(pipe, os.O_RDWR)
    try:
        text = TextInput([pipe])
        assert text.content() == [None] and text.share_read() is None
        assert not text.can_be_read_again
    finally:
        os.close(keep_open)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".bz2", ".zst"])
def test_files_are_written_as_their_name_says(tmp_path, ending):
    if ending == ".zst":
        skips.needs("zstandard")
    files = []
    for name in "ab":
        with packed(tmp_path / name, f"out.txt{ending}") as file:
            file.write(CONTENT)
            file.write(b"x\n")
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    assert (files[0] == CONTENT + b"x\n") == (ending == "")
    (tmp_path / f"text{ending}").write_bytes(files[0])
    assert read(str(tmp_path / f"text{ending}")) == [*LINES, b"x"]


def test_without_the_package_for_zst(tmp_path, monkeypatch):
    (tmp_path / "a.zst").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ValueError, match=r"zstandard, .* pip install 'fastdec-runtime\[zstd\]'"):
        read(str(tmp_path / "a.zst"))


def test_lines_that_arrive(monkeypatch):
    """No line is awaited, cut, or lost, whatever its length; the last one needs no end."""
    source, sink = os.pipe()
    with open(source) as reader, open(sink, "wb", buffering=0) as writer:
        monkeypatch.setattr(sys, "stdin", reader)
        arriving = TextInput(["-"]).arriving()
        assert next(arriving) == b""
        writer.write(b"a\n\nb")
        assert next(arriving) == b"a\n\n"
        assert next(arriving) == b""
        long_line = b"x" * (2 * GATHERED)
        thread = threading.Thread(target=lambda: (writer.write(long_line + b"\nc"), writer.close()))
        thread.start()
        assert b"".join(arriving) == b"b" + long_line + b"\nc\n"
        thread.join()
