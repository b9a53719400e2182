"""translate-corpus with a bundle: the output of the checkpoint, without torch and fairseq."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.tools.translation import command
from fairseq_fastdec.tools.translation.bundle import BundleModel
from fairseq_fastdec.tools.translation.output_lines import OutputRules

COMMAND = [sys.executable, "-m", "fairseq_fastdec", "translate-corpus"]
LINES = ["Click the Save button.", "", "Don't close the document!", " größer als 1,000 ", "x"] * 4
OF_CHECKPOINT = [
    MODEL, "--path", MODEL / "checkpoint.pt", "-s", "en", "-t", "de", "--cpu",
    "--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", MODEL / "bpe.codes",
]  # fmt: skip


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture
def translate(source, tmp_path):
    """A function that runs the command with a model; it returns the output."""

    def run(*model, output="out", given=()):
        fixed = ["--input", source, "--output", tmp_path / output, "--workers", 2]
        words = [*model, *fixed, "--no-progress-bar", *given]
        command.main([str(word) for word in words])
        path = tmp_path / output
        return path.read_bytes() if path.exists() else None

    return run


@pytest.mark.parametrize(
    "given",
    [
        ["--decoding", "greedy", "--chunk-size", 7],
        ["--decoding", "beam", "--nbest", 2, "--beam", 3, "--format", "jsonl", "--lenpen", 0.5],
        ["--decoding", "greedy", "--format", "tsv", "--with-source", "--drop-longer-a", 1.5],
    ],
    ids=["plain", "jsonl", "tsv"],
)
def test_the_output_of_the_checkpoint(translate, bundle, given):
    expected = translate(*OF_CHECKPOINT, output="expected", given=given)
    assert translate(bundle, given=given) == expected and len(expected) > 200


def without_torch(directory):
    """An environment in which no process can import torch or fairseq."""
    for name in ("torch", "fairseq"):
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text("raise RuntimeError('imported')")
    return {**os.environ, "PYTHONPATH": str(directory)}


def test_a_filter_without_torch(bundle, tmp_path):
    done = subprocess.run(
        [*COMMAND, bundle, "--input", "-", "--output", "-", "--workers", "2"],
        input="\n".join(LINES).encode(), capture_output=True, env=without_torch(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = fairseq_fastdec.load(MODEL)
    assert done.stdout.decode().split("\n") == [*map(expected.translate, LINES), ""]


def test_a_kill_and_the_same_command(bundle, source, translate, tmp_path):
    """Neither torch nor fairseq is imported, in any process, and no chunk is done twice."""
    source.write_text("".join(f"{line} {n}\n" for n, line in enumerate(LINES * 100)))
    given = ["--chunk-size", "8"]
    process = subprocess.Popen(
        [*COMMAND, bundle, "--input", source, "--output", tmp_path / "out", *given],
        env=without_torch(tmp_path), stderr=subprocess.PIPE,
    )  # fmt: skip

    def chunks():
        return {p: p.stat().st_mtime_ns for p in (tmp_path / "out.parts").glob("*.chunk")}

    while len(chunks()) < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if children.exists():
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        time.sleep(0.05)
    process.kill()
    process.communicate()
    done = chunks()
    assert 5 <= len(done) < 250
    whole = translate(bundle, output="whole", given=given)
    translate(bundle, given=[*given, "--num-shards", 2, "--shard-id", 1])
    assert {path: own for path, own in chunks().items() if path in done} == done
    assert translate(bundle, given=given) == whole


def test_other_settings_do_not_mix(bundle, translate):
    translate(bundle, given=["--num-shards", 2])
    with pytest.raises(SystemExit, match="made with options = {}, but now it is .*beam"):
        translate(bundle, given=["--beam", 4])


def test_drafts_do_not_change_the_output(bundle, translate, tmp_path):
    expected = translate(bundle, output="expected").decode()
    drafts = tmp_path / "drafts"
    drafts.write_text(expected[: len(expected) // 2] + "Falsch.\n" * len(LINES), encoding="utf-8")
    assert translate(bundle, given=["--draft-file", drafts, "--chunk-size", 3]).decode() == expected


def memory_of(tmp_path, translations):
    """The options of a memory with the lines of the source."""
    files = {
        "--memory-source": "".join(f"{line}\n" for line in LINES),
        "--memory-target": translations,
    }
    for flag, text in files.items():
        (tmp_path / flag[2:]).write_text(text, encoding="utf-8")
    return [word for flag in files for word in (flag, tmp_path / flag[2:])]


def test_a_memory_does_not_change_the_output(bundle, translate, tmp_path):
    expected = translate(bundle, output="expected").decode()
    memory = memory_of(tmp_path, expected)
    assert translate(bundle, given=[*memory, "--chunk-size", 3]).decode() == expected
    # The index is made before the workers are forked.
    assert len(list(tmp_path.glob("memory-target.memory-*"))) == 1
    with pytest.raises(SystemExit, match="--draft-file: cannot be combined with --memory-source"):
        translate(bundle, output="other", given=[*memory, "--draft-file", os.devnull])


def test_each_line_has_its_own_draft(bundle, tmp_path, monkeypatch):
    """Lines are sorted by length, and a line that is not UTF-8 is left out."""
    drafts = tmp_path / "drafts"
    drafts.write_text("".join(f"draft {number}\n" for number in range(6)))
    translator = BundleModel(str(bundle), {}, 32, str(drafts)).translator(OutputRules(), None)
    stream, drafted = translator._translator.translate_stream, []

    def spy(texts, drafts, **options):
        texts = list(texts)
        drafted.extend(zip(texts, drafts))
        return stream(texts, drafts=drafts, **options)

    monkeypatch.setattr(translator._translator, "translate_stream", spy)
    translator.translate_lines(["Save.", "x", ""], numbers=[5, 2, 3])
    assert sorted(drafted) == [("", "draft 3"), ("Save.", "draft 5"), ("x", "draft 2")]


def test_lines_that_cannot_be_translated(bundle, source, translate, capsys):
    source.write_bytes(b"x\n" + b"x " * 3000 + b"\n\xff\n")
    with pytest.raises(SystemExit, match=f"{source}, line 2: too long: 3001 tokens .*--on-error"):
        translate(bundle)
    given = ["--format", "jsonl", "--on-error", "empty"]
    lines = translate(bundle, output="other", given=given).decode().splitlines()
    errors = [json.loads(line).get("error") for line in lines]
    assert errors == [None, "too long", "not UTF-8"]
    assert "1 translated, 1 not UTF-8, 1 too long" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, message",
    [
        (["--path", "model.pt"], "--path: not possible with a bundle, .* name a data directory"),
        (["--engine-precision", "int8"], "--engine-precision: not possible with a bundle"),
        (["--sampling"], "--sampling: not possible with a bundle"),
        (["--max-tokens=9"], "--max-tokens: not possible with a bundle"),
        (["--decoding", "jacobi"], "decoding jacobi: .* export it with --decoding jacobi"),
        (["--nbest", 3, "--beam", 2, "--format", "tsv"], "--nbest 3: more than --beam 2"),
        (["--nbest", 2], "--nbest: --format plain"),
        (["--nbest", 2, "--decoding", "variable_beam", "--format", "tsv"], "prunes the beam"),
        (["--shard-id", 1], "--shard-id 1: must be from 0 to 0"),
        (["--draft-file", "nowhere"], "--draft-file nowhere: cannot be read"),
        (["--draft-file", os.devnull], f"--draft-file {os.devnull}: has 0 lines, fewer"),
        (["--draft-file", os.devnull, "--decoding", "beam"], "does not verify drafts; choose"),
    ],
)
def test_options_that_are_refused(bundle, translate, given, message):
    with pytest.raises(
        SystemExit, match=f"fairseq_fastdec translate-corpus: .*{message}"
    ) as stopped:
        translate(bundle, given=given)
    assert "\n" not in str(stopped.value)


def test_the_same_command_without_the_mistake(bundle, translate):
    with pytest.raises(SystemExit, match="the bundle has greedy, beam"):
        translate(bundle, given=["--decoding", "gredy"])
    assert translate(bundle, given=["--decoding", "greedy"])


def test_a_bundle_in_the_place_of_a_checkpoint(bundle, translate):
    with pytest.raises(SystemExit, match="--path: not possible with a bundle"):
        translate(MODEL, "--path", bundle)


def test_a_bundle_for_another_machine(bundle, tmp_path, monkeypatch):
    memory = {"memory_source": "a", "memory_target": "b"}
    model, files = BundleModel(str(bundle), {}, 32, None, memory).portable()
    assert files == {"bundle": str(bundle), **memory}
    assert model.memory == {name: name for name in memory}
    model, files = BundleModel(str(bundle), {}, 32, "old.de").portable()
    assert files == {"bundle": str(bundle), "drafts": "old.de"}
    (tmp_path / "bundle").symlink_to(bundle)
    (tmp_path / "drafts").write_text("\n")
    monkeypatch.chdir(tmp_path)
    (outcome,) = model.translator(OutputRules(), None).translate_lines(["Click the Save button."])
    expected = fairseq_fastdec.load(bundle).translate("Click the Save button.")
    assert outcome.hypotheses[0].text == expected
