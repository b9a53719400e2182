"""``ddgviz`` end to end, on the tiny models."""

import io
import json
import sys

import pytest

from fairseq_fastdec.tools.visualize import command, document
from tests.support import after_import, command_line, skips

skips.needs("matplotlib")


LINES = ["a b c d", "", "j i h g f e"]


@pytest.fixture()
def draw(tmp_path, corpus, baseline):
    """A function that runs the script; it returns the folder that it filled."""

    def run(*arguments, path=baseline, lines=LINES):
        (tmp_path / "input").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        fixed = [corpus, "--path", path, "--cpu", "--output", tmp_path / "out"]
        given = [] if "--sentences" in arguments else ["--sentences", tmp_path / "input"]
        command.main([str(argument) for argument in [*fixed, *given, *arguments]])
        return tmp_path / "out"

    return run


def traces(folder):
    return document.read((folder / "ddgviz.json").read_text(encoding="utf-8"))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_formats(draw, capsys):
    out = draw()
    names = ["ddgviz.html", "ddgviz.json"]
    names += [f"sentence-{n}.{ending}" for n in (1, 3) for ending in ("png", "svg")]
    assert files(out) == names
    printed = capsys.readouterr().out.splitlines()
    assert {str(out / name) for name in names} <= set(printed)
    first, second = traces(out)
    assert (first.id, second.id) == (0, 2)
    assert first.source == ["a", "b", "c", "d", "</s>"]
    assert first.method == "jacobi"


@pytest.mark.parametrize("method", ["jacobi", "gs_jacobi", "hybrid_jacobi", "lookahead"])
def test_every_parallel_method_shows_the_tokens_of_greedy(draw, method):
    parallel = traces(draw("--formats", "json", "--decoding", method))
    greedy = traces(draw("--formats", "json", "--decoding", "greedy"))
    assert [trace.tokens for trace in parallel] == [trace.tokens for trace in greedy]
    for trace in json.loads(document.write(parallel))["sentences"]:
        assert trace["steps"][-1]["frontier"] == len(trace["tokens"])
        assert None not in trace["decoded"]


def test_subwords(draw):
    assert {trace.subwords for trace in traces(draw("--formats", "json"))} == {"show"}
    out = draw("--formats", "json", "--subwords", "join")
    assert {trace.subwords for trace in traces(out)} == {"join"}


@pytest.mark.parametrize(
    "options",
    [
        ("blockwise",), ("jacobi",), ("gs_jacobi",),
        ("lookahead", "--ngram-pool", "sentence"), ("greedy",),
    ],
)  # fmt: skip
def test_blocks_are_those_of_the_statistics(draw, blockwise, corpus, tmp_path, options):
    """One count of a sentence's blocks, the paper's: the tokens that one verification accepts."""
    (method, *rest), path = options, tmp_path / "stats.jsonl"
    out = draw("--formats", "json", "--decoding", method, *rest, path=blockwise)
    lines = [line for line in LINES if line]
    options = ("--decoding", method, *rest, "--decoding-stats", path)
    command_line.interactive(corpus, blockwise, lines, tmp_path, *options)
    counted = [json.loads(line) for line in path.read_text().splitlines()]
    assert [trace.blocks for trace in traces(out)] == [record["blocks"] for record in counted]
    for trace in traces(out):
        assert sum(trace.blocks) == (0 if method == "greedy" else len(trace.tokens))


def test_greedy_is_a_chain(draw):
    for trace in json.loads((draw("--decoding", "greedy") / "ddgviz.json").read_text())[
        "sentences"
    ]:
        assert len(trace["steps"]) == len(trace["tokens"])
        assert trace["edges"] == [[n - 1, n] for n in range(len(trace["tokens"]))]


def test_blockwise(draw, blockwise):
    out = draw("--decoding", "blockwise", "--decoding-block-size", 2, path=blockwise)
    for trace in json.loads((out / "ddgviz.json").read_text())["sentences"]:
        assert trace["method"] == "blockwise"
        # The last proposal may be cut off with what lies behind the end.
        n_proposals = [len(step["drafts"]) for step in trace["steps"]]
        assert n_proposals[0] == 0 and set(n_proposals[1:-1]) <= {1} and n_proposals[-1] <= 1
        assert trace["steps"][-1]["frontier"] == len(trace["tokens"])


def test_batches_and_ensembles(draw, baseline):
    one = traces(draw("--formats", "json", "--decoding", "greedy"))
    many = traces(
        draw(
            *("--formats", "json", "--decoding", "greedy"),
            *("--batch-size", 2, "--buffer-size", 2),
            path=f"{baseline}:{baseline}",
        )
    )
    assert [(trace.id, trace.tokens) for trace in many] == [
        (trace.id, trace.tokens) for trace in one
    ]


def test_standard_input_formats_and_the_number_of_sentences(draw, monkeypatch, caplog):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nc\n")))
    out = draw("--sentences", "-", "--formats", "svg,json", "--max-sentences-shown", 2)
    assert files(out) == ["ddgviz.json", "sentence-1.svg", "sentence-2.svg"]
    assert "1 more" in caplog.text


@pytest.mark.parametrize(
    "arguments, lines, message",
    [
        (["--sentences", "nowhere"], LINES, "--sentences nowhere: cannot be read"),
        ([], [""], "has no sentence"),
        (["--decoding", "fairseq"], LINES, "--decoding fairseq: .* use --decoding greedy"),
        (["--decoding", "beam"], LINES, "--decoding beam: .* use greedy, "),
        (["--nbest", "2", "--beam", "2"], LINES, "--nbest"),
        (["--decoding", "blockwise"], LINES, "no prediction heads"),
        (["--output", __file__], LINES, "is a file; name a directory"),
        (["--path", "nowhere.pt"], LINES, "nowhere.pt"),
    ],
)
def test_errors_are_one_line(draw, arguments, lines, message):
    with pytest.raises(SystemExit, match=f"(?s)fairseq_fastdec ddgviz: .*{message}") as stopped:
        draw(*arguments, lines=lines)
    assert "\n" not in str(stopped.value)


def test_unknown_formats_are_refused(draw, capsys):
    with pytest.raises(SystemExit):
        draw("--formats", "png,pdf")
    assert "--formats: 'pdf': unknown; choose from png,svg,html,json" in capsys.readouterr().err


def test_pictures_without_matplotlib(draw, monkeypatch):
    monkeypatch.delitem(sys.modules, "fairseq_fastdec.tools.visualize.figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match="--formats png: .*pip install"):
        draw("--formats", "png")
    assert files(draw("--formats", "html,json", "--decoding", "greedy")) == [
        "ddgviz.html",
        "ddgviz.json",
    ]


def test_it_runs_from_any_directory(tmp_path):
    done = after_import.run_ours("ddgviz", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--sentences FILE" in done.stdout and "--decoding" in done.stdout
