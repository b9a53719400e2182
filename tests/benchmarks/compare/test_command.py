"""``python -m benchmarks.compare`` end to end, on the tiny models."""

import json
from importlib import util

import pytest

from benchmarks.compare import command
from benchmarks.compare.methods import PROGRAM
from tests.support import after_import, command_line


def test_a_benchmark(corpus, baseline, blockwise, tmp_path):
    """Every kind of method, from another directory, as a user types it.

    In two workers where both ways are measured, in one process where that is asked for.
    """
    arguments = [
        corpus, "--path", baseline, "--post-process", "letter", "--device", "cpu",
        "--sentences", 5, "--rounds", 2, "--batch-size", 1, 4, "--threads", 2,
        "--processes", 1, "--flops",
        "--method", "fairseq: --decoding fairseq --beam 1",
        "--method", f"blockwise: --decoding blockwise --path '{blockwise}' --processes 2",
        "--method", "impossible: --decoding blockwise",
        "--method", "peer: --engine ctranslate2 --beam 1",
        "--output", "made/here",
    ]  # fmt: skip
    done = after_import.run_module("benchmarks.compare", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    output = tmp_path / "made" / "here"
    names = {"benchmark.md", "benchmark.json"}
    names |= {"benchmark.png"} if util.find_spec("matplotlib") else set()
    assert {path.name for path in output.iterdir()} == names
    assert (output / "benchmark.md").read_text(encoding="utf-8") in done.stdout
    assert "step" in done.stderr and "Traceback" not in done.stderr

    content = json.loads((output / "benchmark.json").read_text(encoding="utf-8"))
    peer = ["peer"] if util.find_spec("ctranslate2") else []
    expected = ["fairseq", "blockwise", *peer]
    results = content["results"]
    assert [(r["method"], r["batch_size"]) for r in results] == [
        (name, size) for size in (1, 4) for name in expected
    ]
    assert "no prediction heads" in content["left_out"]["impossible"]
    assert ("peer" in content["left_out"]) == (not peer)
    for result in results:
        assert result["sentences"] == 5
        # CTranslate2 leaves the empty sentence empty.
        assert result["identical"] == (4 if result["method"] == "peer" else 5)
        assert len(result["seconds"]) == 2 and result["memory"] > result["memory_before"] > 20
        assert (result["flops"] is None) == (result["method"] == "peer")
        assert (result["latency_p95"] is not None) == (result["batch_size"] == 1)
    tried = {r["method"]: [trial["division"] for trial in r["trials"]] for r in results}
    assert tried["fairseq"] == ["1 x 2"] and tried["blockwise"] == ["2 x 1"]
    assert not peer or tried["peer"] == ["1 x 2", "2 x 1"]
    alone = {r["method"]: r["flops"] for r in results if r["batch_size"] == 1}
    # It feeds fairseq's tokens, and others that it guessed.
    assert alone["blockwise"] > alone["fairseq"] > 0
    assert "tok:13a" in content["bleu_signature"]
    assert results[1]["tokens_per_invocation"] > results[0]["tokens_per_invocation"] == 1
    assert len({result["bleu"] for result in results if result["method"] != "peer"}) == 1


def test_all_streams_closed(corpus, baseline, tmp_path):
    arguments = [
        corpus, "--path", baseline, "--device", "cpu", "--sentences", 2, "--rounds", 1,
        "--processes", 1, "--threads", 1, "--method", "greedy: --decoding greedy",
        "--output", tmp_path,
    ]  # fmt: skip
    done = after_import.run_module("benchmarks.compare", *arguments, closed=(0, 1, 2))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((tmp_path / "benchmark.json").read_text(encoding="utf-8"))["results"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--method", "x"], "--method 'x': give a name, a colon"),
        (["--reference", "y", "--method", "x: --beam 1"], "--reference 'y': not the name"),
        (["--fp16"], "--fp16: .* --dtype fp16"),
        (["--output", __file__], "[Ee]xists"),
        (
            ["--reference-text", __file__, "--method", "x: --beam 1", "--processes", "1"],
            "--reference-text .*: has .* lines, but the subset has 29 s",
        ),
        (["--method", "x: --path nowhere.pt"], "'x', the reference .*nowhere.pt"),
    ],
)
def test_errors_are_one_line(corpus, baseline, arguments, message):
    fixed = [corpus, "--path", baseline, "--device", "cpu", "--no-progress-bar"]
    with pytest.raises(SystemExit, match=f"^{PROGRAM}: .*{message}") as stopped:
        command.main([str(argument) for argument in [*fixed, *arguments]])
    assert "\n" not in str(stopped.value)


def test_bleu_is_of_the_text_that_is_given(corpus, baseline, tmp_path):
    """The greedy translations themselves as references: nothing else can score 100."""
    printed = command_line.generate(corpus, baseline, "--beam", 1)
    texts = command_line.numbered("D", printed)
    text = tmp_path / "text.de"
    text.write_text("".join(texts[number] + "\n" for number in range(29)), encoding="utf-8")
    arguments = [
        corpus, "--path", baseline, "--device", "cpu", "--sentences", 8, "--rounds", 1,
        "--threads", 1, "--method", "x: --decoding greedy", "--reference-text", text,
        "--output", tmp_path,
    ]  # fmt: skip
    command.main([str(argument) for argument in arguments])
    (result,) = json.loads((tmp_path / "benchmark.json").read_text())["results"]
    assert result["bleu"] == pytest.approx(100)


def test_a_directory_without_data(tmp_path):
    with pytest.raises(SystemExit, match="has no binarised data"):
        command.main([str(tmp_path), "--path", "x.pt"])
    with pytest.raises(SystemExit, match="nowhere"):
        command.main([str(tmp_path / "nowhere"), "--path", "x.pt"])


def test_numbers_are_checked(capsys):
    for flag in ("--rounds", "--threads", "--sentences", "--batch-size"):
        with pytest.raises(SystemExit):
            command.main(["data", flag, "0"])
        assert f"{flag}: 0: must be a whole number of at least 1" in capsys.readouterr().err
