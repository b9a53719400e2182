"""The command line, and what it refuses."""

import pytest

from fairseq_fastdec.corpora.arguments import check, parse_args

FILES = ["--input", "in", "--output", "out"]


def parsed(*arguments):
    return parse_args(["model.pt", *FILES, *map(str, arguments)])


def test_only_given_options_are_passed_on():
    assert parsed().model.options == {}
    given = parsed("--beam", 3, "--lenpen", 0.5, "--sampling", "--data", "d", "--bpe", "none")
    assert given.model.options == {
        "beam": 3, "lenpen": 0.5, "sampling": True, "data": "d", "bpe": None,
    }  # fmt: skip
    assert parsed("--decoding", "blockwise").model.options == {"decoding": "blockwise"}
    assert parsed("--draft-file", "x").model.draft_file == "x"


def test_several_files():
    assert parsed("--input", "a", "b").input == ["in", "a", "b"]
    args = parse_args(["a.pt", "b.pt"])
    assert (args.input, args.output, args.model.paths) == (None, "-", ["a.pt", "b.pt"])


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["--nbest", 2, "--format", "tsv"], ["--sampling", "--beam", 1],
        ["--drop-empty", "--with-source", "--format", "jsonl"], ["--num-shards", 3],
    ],
)  # fmt: skip
def test_what_goes(arguments):
    check(parsed(*arguments))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nbest", 2], "--nbest: --format plain has exactly one line of text per line"),
        (["--drop-empty"], "--drop-empty: --format plain .*use --format tsv or jsonl"),
        (["--drop-longer-b", 3], "--drop-longer-b: --format plain"),
        (["--with-source"], "--with-source: --format plain"),
        (["--nbest", 6, "--beam", 5, "--format", "tsv"], "--nbest 6: more than --beam 5"),
        (["--sampling", "--format", "tsv"], "--sampling: draws --beam 5 .*give --nbest 5"),
        (["--decoding-stats", "x"], "--decoding-stats: .*several processes"),
        (["--shard-id", 2, "--num-shards", 2], "--shard-id 2: must be from 0 to 1"),
        (["--num-shards", 2, "--output", "-"], "--num-shards: needs files"),
        (["--num-shards", 2, "--input", "-"], "--num-shards: needs files"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check(parsed(*arguments))


@pytest.mark.parametrize("flag", ["--workers", "--threads-per-worker", "--chunk-size"])
def test_numbers_are_at_least_one(flag, capsys):
    with pytest.raises(SystemExit):
        parsed(flag, 0)
    assert f"argument {flag}: 0: must be a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--results-path", "--prefix-size", "--constraints", "--path"])
def test_options_of_other_commands(flag, capsys):
    with pytest.raises(SystemExit):
        parsed(flag, 1)
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err


def test_clusters():
    assert parsed().cluster is None
    assert parsed("--cluster", "ray").cluster == "ray"
    assert parsed("--cluster", "ray://head:10001").cluster == "ray://head:10001"


@pytest.mark.parametrize("name", ["slurm", "ray://", "http://head:1"])
def test_other_clusters_are_refused(name, capsys):
    with pytest.raises(SystemExit):
        parsed("--cluster", name)
    told = capsys.readouterr().err
    assert f"argument --cluster: {name}: must be ray, or ray://HOST:PORT" in told
