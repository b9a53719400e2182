"""Chunks are handed out, lost, found again, and put together."""

import functools
import io

import pytest

from fairseq_fastdec.corpora import coordinator as coordinator_module
from fairseq_fastdec.corpora.chunks import Chunk, ChunkStore, Translated, chunks_of
from fairseq_fastdec.corpora.coordinator import (
    Coordinator,
    InOrder,
    put_together,
)
from fairseq_fastdec.corpora.output_lines import UntranslatedLine
from fairseq_fastdec.corpora.pool import LocalPool
from fairseq_fastdec.corpora.progress_bar import LineBar
from fairseq_fastdec.corpora.text_files import TextInput
from fairseq_fastdec.corpora.worker import Place
from tests.support.capitals import Capitals


class Job:
    """A text of some lines, and a coordinator for it; chunks have two lines."""

    def __init__(self, directory, lines):
        self.store = ChunkStore(directory / "chunks")
        self.store.directory.mkdir()
        (directory / "text").write_text("".join(f"{line}\n" for line in lines))
        self.text = TextInput([str(directory / "text")])
        self.bars, self.n_pools = [], 0
        self._directory = directory

    def start_pool(self, progress):
        self.n_pools += 1
        return LocalPool(
            [Place()] * 2, lambda _: Capitals(self._directory), self.store, progress, forks=True
        )

    def new_bar(self):
        self.bars.append(LineBar(None, False))
        return self.bars[-1]

    @property
    def coordinator(self):
        chunks = functools.partial(chunks_of, self.text, 2)
        return Coordinator(chunks, self.store, self.start_pool, self.new_bar)

    def complete(self, output):
        return self.coordinator.complete(output)


@pytest.fixture
def job(tmp_path):
    return functools.partial(Job, tmp_path)


def test_all_is_translated_in_order(job, tmp_path):
    run = job(["a", "b", "c", "d", "e"])
    told = run.complete(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "A\nB\nC\nD\nE\n"
    assert told["counts"] == {"translated": 5} and told["size"] == 10
    assert len(run.bars) == 1


def test_an_empty_text(job, tmp_path):
    run = job([])
    assert run.complete(tmp_path / "out")["counts"] == {}
    assert (tmp_path / "out").read_bytes() == b"" and run.n_pools == 0


def test_what_is_there_is_not_translated_again(job, tmp_path):
    run = job("abcdef")
    run.store.write(Chunk(1, 2, b"c\nd\n"), Translated(b"kept\n", {"translated": 2}))
    run.complete(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "A\nB\nkept\nE\nF\n"
    assert run.n_pools == 1
    (tmp_path / "out").unlink()
    run.complete(tmp_path / "out")
    assert run.n_pools == 1


def test_workers_may_die(job, tmp_path):
    job(["a", "die once", "c", "d", "die once", "f"]).complete(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "A\nDIE ONCE\nC\nD\nDIE ONCE\nF\n"


def test_parts(job, tmp_path):
    run = job("abcdefghij")
    assert run.coordinator.translate(1, 2) == 5
    assert sorted(p.name for p in run.store.directory.iterdir()) == [
        "00000001.chunk", "00000003.chunk",
    ]  # fmt: skip
    run.coordinator.translate(0, 2)
    run.complete(tmp_path / "out")
    assert run.n_pools == 2 and len((tmp_path / "out").read_text()) == 20


def test_damaged_chunks_are_translated_again(job, tmp_path, caplog):
    run = job("abcdef")
    run.coordinator.translate()
    run.store.path(1).write_bytes(b"nonsense")
    run.complete(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "A\nB\nC\nD\nE\nF\n"
    assert "00000001.chunk: damaged; translated again" in caplog.text


def test_a_chunk_that_is_damaged_at_the_last_moment(job, tmp_path, monkeypatch):
    run = job("abcdef")
    whole = coordinator_module.put_together
    damages = iter([run.store.path(2), None])

    def damage_first(*given):
        if (path := next(damages)) is not None:
            path.unlink()
        return whole(*given)

    monkeypatch.setattr(coordinator_module, "put_together", damage_first)
    run.complete(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "A\nB\nC\nD\nE\nF\n"


def test_a_line_that_is_not_translated_is_found(job):
    with pytest.raises(UntranslatedLine, match=r"too long; with --on-error keep-") as stopped:
        job(["a", "b", "c", "stop"]).coordinator.translate()
    assert stopped.value.number == 3


def test_a_full_disk_says_that_the_command_goes_on(job):
    with pytest.raises(OSError, match="No space left on device; fix this and run the same command"):
        job(["a", "fail"]).coordinator.translate()


def test_a_mistake_is_a_mistake(job):
    with pytest.raises(RuntimeError, match="in a worker:\n(.*\n)*KeyError: 'a mistake'"):
        job(["crash"]).coordinator.translate()


def test_lines_that_have_changed(job):
    run = job("abcd")
    run.coordinator.translate()
    with open(run.text.paths[0], "w") as file:
        file.write("a\nb\nc\nx\n")
    with pytest.raises(ValueError, match="00000001.chunk: was made from other lines"):
        run.coordinator.translate()


def test_a_full_disk_while_the_output_is_made(job, tmp_path, monkeypatch):
    run = job("abcd")
    run.coordinator.translate()
    message = "out: full; fix this and run the same command again to continue"
    with monkeypatch.context() as patch, pytest.raises(OSError, match=message):
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
        put_together(run.store, 2, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(list(run.store.directory.iterdir())) == 2


def test_in_order_as_they_come(tmp_path):
    store, output = ChunkStore(tmp_path), io.BytesIO()
    in_order = InOrder(store, output)
    seen = []
    for number in (1, 0, 3, 2):
        content = f"{number}\n".encode()
        store.write(Chunk(number, number, content), Translated(content, {"translated": 1}))
        in_order.advance()
        seen.append(output.getvalue().decode().split())
    assert seen == [[], ["0", "1"], ["0", "1"], ["0", "1", "2", "3"]]
    assert list(tmp_path.iterdir()) == [] and in_order.counts == {"translated": 4}
