"""The proof with kills, and the measurement of corpora: what they count, and that they run."""

import json
import os
import random
import shutil
import sys
from argparse import Namespace

import pytest

from examples.corpora import kills, speed
from fairseq_fastdec.corpora import command
from tests.support.forked import Forked


@pytest.fixture
def run(tmp_path):
    args = Namespace(workdir=tmp_path, lines=1000, chunk_size=10, kills=20, seed=1)
    run = kills.Run(args)
    (tmp_path / "killed.parts").mkdir()
    return run


def write_chunk(run, number, content=b"chunk"):
    path = kills.parts_of(run.killed) / f"{number:08}.chunk"
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def test_everything_happens_once_the_first_kill_has_been(run):
    schedule = kills.events(run)
    goals, kinds = zip(*schedule)
    assert kinds.count(kills.KILL) == 20 and kinds[0] == kills.KILL
    assert kinds.count(kills.DAMAGE) == kinds.count(kills.FILL_DISK) == 1
    assert list(goals) == sorted(goals) and goals[0] >= 1 and goals[-1] <= 95
    assert kills.events(run) == schedule


def test_chunks_that_are_written_again_are_counted(run):
    watch = kills.Watch(run)
    write_chunk(run, 0)
    assert watch.look() == 1
    write_chunk(run, 1)
    write_chunk(run, 0)
    assert watch.look() == 2 and run.state["done twice"] == 1
    assert kills.Run(run.args).state["done twice"] == 1
    assert "00000000.chunk was translated again" in (run.args.workdir / "log.txt").read_text()


def test_damage_is_a_byte_and_no_new_file(run):
    write_chunk(run, 0, b"12345")
    watch = kills.Watch(run)
    path = kills.damage(kills.parts_of(run.killed), random.Random(1))
    assert sum(a != b for a, b in zip(path.read_bytes(), b"12345")) == 1
    assert watch.look() == 1 and run.state["done twice"] == 0


def test_memory_of_the_first_and_the_last_tenth(tmp_path):
    rows = ["1\t1\t10\t20\t30", "2\t5\t90\t90\t90", "3\t9\t90\t90\t90", "4\t10\t12\t22\t32"]
    (tmp_path / "memory.tsv").write_text("\n".join(rows[:2] + rows[3:]) + "\n")
    found = kills.memory_at_ends(tmp_path / "memory.tsv")
    assert found == {"coordinator": [10, 12], "worker": [20, 22], "all": [30, 32]}


@pytest.mark.parametrize(
    "same, twice, message", [(False, 0, "the outputs differ"), (True, 9, "more chunks were")]
)
def test_what_must_not_be_fails(run, same, twice, message):
    run.alone.write_bytes(b"a")
    run.killed.write_bytes(b"a" if same else b"b")
    run.state["events"] = [f"{kills.KILL} of a worker"] * 8
    run.state["done twice"] = twice
    with pytest.raises(kills.Failure, match=message):
        kills.report(run)


@pytest.fixture
def model(corpus, baseline, tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    for language in ("en", "de"):
        shutil.copy(corpus / f"dict.{language}.txt", directory)
    shutil.copy(baseline, directory / "checkpoint.pt")
    (directory / "bpe.codes").write_text("#version: 0.2\na b</w>\n")
    return directory


class Started(Forked):
    """What the program needs of subprocess.Popen, without importing torch anew."""

    @property
    def returncode(self):
        return self.poll()


@pytest.fixture
def starts_quickly(monkeypatch, tmp_path):
    def popen(words, **_):
        return Started(command.main, words[4:], tmp_path / "printed")

    monkeypatch.setattr(kills, "subprocess", Namespace(Popen=popen))


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc here: run it on Linux")
@pytest.mark.usefixtures("starts_quickly")
def test_a_text_with_kills_is_the_same(model, tmp_path, monkeypatch):
    given = ["--lines", 1200, "--chunk-size", 5, "--kills", 1, "--model", model]
    given += ["--workdir", tmp_path / "work"]
    monkeypatch.setattr(sys, "argv", ["kills.py", *map(str, given)])
    kills.main()
    result = json.loads((tmp_path / "work" / "result.json").read_text())
    assert result["same output"] and result["lines"] == 1200 and result["starts"]["alone"] == 1
    kills.main()  # all is there already
    assert json.loads((tmp_path / "work" / "result.json").read_text()) == result


def test_ours_is_measured(tmp_path, monkeypatch, capsys):
    speed.prepare(tmp_path, 20)
    for name in ("text", "raw"):
        assert len((tmp_path / name).read_text().splitlines()) == 20
    for engine in (speed.OURS, speed.TOKENISING, speed.NOTHING):
        result = speed.measured(Namespace(one=f"{engine} 1x1 512", beams=[1], workdir=tmp_path))
        assert result["coordinator"] > 0 and 0 < result["seconds"] < 60
        assert (result["decoding"] > 0) == (engine != speed.NOTHING)


def test_the_table():
    rounds = {"seconds": 2.0, "decoding": 9.0, "workers": 9.5, "coordinator": 0.5}
    results = {"ours 1x1 9": [rounds], "CTranslate2 1x1 9": [{"seconds": 1.0}]}
    assert speed.table("title", results, 10).splitlines()[-2:] == [
        "| ours 1x1 9 | 5 | 1.00x | 10.0 % | 50000.0 | 2.00 |",
        "| CTranslate2 1x1 9 | 10 | 2.00x |  |  | 1.00 |",
    ]
