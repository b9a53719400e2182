"""The example of parallel decoding, on a tiny checkpoint, with some of its methods."""

import sys

import pytest
from fairseq import options
from fairseq_cli import generate

from examples.common import commands, in_torch
from examples.jacobi import run as example
from fairseq_fastdec.engine.kernels import loading
from tests.support import example_in_process

WITH_ORACLE = "gs_jacobi (PGJ, b = 3, oracle length)"


def test_the_papers_rows_are_methods():
    assert set(example.PAPER) < set(example.METHODS)


def one_real_process(caplog):
    """In place of ``commands.run``: only the method whose log is read gets a process of its own."""
    real = commands.run
    _, in_process = example_in_process.runner(caplog)

    def run(command, log):
        (real if "--oracle-length" in command else in_process)(command, log)

    return run


def test_the_table(corpus, baseline, tmp_path, monkeypatch, capsys, caplog):
    some = (
        "fairseq --beam 1",
        "greedy",
        "lookahead",
        WITH_ORACLE,
        "gs_jacobi (PGJ, b = 3)",
        "hybrid_jacobi (HGJ, b = 3)",
    )
    monkeypatch.setattr(example, "METHODS", {name: example.METHODS[name] for name in some})
    monkeypatch.setattr(commands, "run", one_real_process(caplog))
    arguments = [
        corpus,
        "--path",
        baseline,
        "--batch-size",
        8,
        "--rounds",
        1,
        "--workdir",
        tmp_path,
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, arguments)])
    example.main()
    table = (tmp_path / "table.md").read_text()
    assert table in capsys.readouterr().out
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert [line[0] for line in lines] == ["| method", *(f"| {name}" for name in some)]
    iterations, same = map(lines[0].index, ("iterations", "identical sentences"))
    assert [line[iterations] for line in lines[1:3]] == ["1.00x", "1.00x"]
    assert float(lines[3][iterations][:-1]) > 1
    assert all(line[same] == "29 of 29" for line in lines[1:])
    assert len({line[-1] for line in lines[1:]}) == 1  # the checksum
    assert "BLEU: sacrebleu's, against fairseq's detokenised targets, `nrefs:1|" in table
    # Nothing joins the letters of the tiny corpus to words.
    assert "(of tokens as they are: --tokenizer and --bpe make text of them)" in table
    to_the_end, up_to_eos = lines[6][iterations].split(" (")
    assert float(to_the_end[:-1]) <= float(lines[5][iterations][:-1])
    assert up_to_eos == f"{lines[5][iterations]} up to EOS)"
    # That method's log tells the time that found lengths, and the table leaves it out.
    output = tmp_path / "table" / f"{list(example.METHODS).index(WITH_ORACLE)}-1"
    timed, whole = (
        read(output, "", WITH_ORACLE) for read in (example.read_timed, example.read_run)
    )
    assert 0 < timed.seconds < whole.seconds


def test_the_table_in_the_size_of_opus_is_beside_the_papers(
    corpus, baseline, tmp_path, monkeypatch, caplog
):
    page = tmp_path / "page.md"
    page.write_text("<!-- jacobi table -->\nold\n<!-- end of jacobi table -->\n")
    some = ("fairseq --beam 1", "greedy", "gs_jacobi (PGJ, b = 3)", "hybrid_jacobi (HGJ, b = 3)")
    monkeypatch.setattr(example, "METHODS", {name: example.METHODS[name] for name in some})
    monkeypatch.setattr(example, "PAGE", page)
    given = (str(corpus), str(baseline))
    monkeypatch.setattr(example, "write_opus_sized", lambda work, options: (*given, options))
    monkeypatch.setattr(commands, "run", one_real_process(caplog))
    words = ["--opus-sized", "--batch-size", "8", "--rounds", "1", "--workdir", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    example.main()
    text = page.read_text(encoding="utf-8")
    assert (tmp_path / "table.md").read_text(encoding="utf-8") in text and "old" not in text
    assert f"commit {commands.commit()} · threads: " in text
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    columns = [lines[0].index(name) for name in example.PAPERS_COLUMNS]
    papers = {line[0][2:]: [line[i] for i in columns] for line in lines[1:]}
    assert papers["hybrid_jacobi (HGJ, b = 3)"] == ["1.34x", "1.16x", "1.04x"]
    assert papers["fairseq --beam 1"] == ["", "", ""]


def test_every_command_of_a_sweep_parses(tmp_path, monkeypatch):
    """Without compiled code, fairseq-generate is called by another program."""
    ran = []
    monkeypatch.setattr(commands, "generate_into", lambda *given: ran.append(given))
    monkeypatch.setattr(example, "read_timed", lambda *given: None)
    monkeypatch.setattr(example, "table", lambda *given: "")
    monkeypatch.setattr(commands, "origin", lambda output: {})
    words = ["data-bin", "--path", "model.pt", "--workdir", str(tmp_path), "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["run.py", *words, "--sweep", "--torch"])
    example.main()
    parsed = []
    for output, arguments, program in ran:
        assert output.parent == tmp_path / "sweep-torch" and program == example.IN_TORCH
        parser = options.get_generation_parser()
        parsed.append(options.parse_args_and_arch(parser, [str(word) for word in arguments]))
    assert [args.jacobi_block_size for args in parsed[2:12]] == list(range(1, 11))
    assert [(args.parallel_len_a, args.parallel_len_b) for args in parsed[12:]] == [
        (0.5, 0), (1, 0), (1.5, 0),
    ]  # fmt: skip


def test_decoding_without_compiled_code(monkeypatch):
    found = []
    monkeypatch.setattr(loading, "library", loading.library)
    monkeypatch.setattr(generate, "cli_main", lambda: found.append(loading.library()))
    in_torch.main()
    assert found == [None]


SPEED = "Translated 2 sentences (1,000 tokens) in 2.5s (0.80 sentences/s, 400.00 tokens/s)"
SUMMARY = "INFO:x:jacobi decoding: 2 sentences, 9 tokens, {}acceptance p_2=0.5\n"


@pytest.mark.parametrize("log", ["log.txt", "generate-test.txt"])
def test_the_time_that_found_lengths_does_not_count(tmp_path, log):
    results = "T-0\tja\nH-0\t-1\tja\nD-0\t-1\tja\n"
    (tmp_path / "generate-test.txt").write_text(results)
    with open(tmp_path / log, "a") as file:
        file.write(f"INFO:x:{SPEED}\n" + SUMMARY.format(""))
    assert example.read_timed(tmp_path, "model", "greedy").seconds == pytest.approx(2.5)
    with open(tmp_path / log, "a") as file:
        file.write(SUMMARY.format("0.750 seconds before it for --oracle-length, "))
    assert example.read_timed(tmp_path, "model", "jacobi").seconds == pytest.approx(1.75)


def test_text_is_told_from_tokens(tmp_path):
    results = "T-0\tja\nH-0\t-1\tj@@ a\nD-0\t-1\tja\n"
    (tmp_path / "generate-test.txt").write_text(results + SPEED)
    assert example.caution([example.read_timed(tmp_path, "model", "greedy")]) == ""


def test_data_without_a_checkpoint(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "data-bin"])
    with pytest.raises(SystemExit):
        example.main()
    assert "give both data and --path, or neither" in capsys.readouterr().err
