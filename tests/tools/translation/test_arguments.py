"""The command line, and what it refuses."""

import pytest

from fairseq_fastdec.tools.translation.arguments import check, parse_args

FILES = ["--input", "in", "--output", "out", "--path", "model.pt"]


def parsed(*arguments):
    return parse_args(["data", *FILES, *map(str, arguments)])


def test_the_default_search_is_streaming():
    assert parsed().decoding == "streaming" and parsed().beam == 5
    assert parsed("--decoding", "greedy").decoding == "greedy"
    assert parsed("--sampling").decoding == "streaming"
    assert parsed("--nbest", 3).decoding == "beam"
    assert parsed("--task", "translation_double_token").decoding is None


def test_several_files():
    assert parsed("--input", "a", "b").texts == ["a", "b"]


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
        (["--nbest", 6, "--format", "tsv"], "--nbest 6: more than --beam 5"),
        (["--sampling", "--format", "tsv"], "--sampling: draws --beam 5 .*give --nbest 5"),
        (["--results-path", "x"], "--results-path: not possible here; use --output"),
        (["--prefix-size", 1], "--prefix-size: .*no references"),
        (["--decoding-stats", "x"], "--decoding-stats: .*several processes"),
        (["--constraints"], "--constraints: not possible here"),
        (["--replace-unk"], "--replace-unk: not possible here"),
        (["--shard-id", 2, "--num-shards", 2], "--shard-id 2: must be from 0 to 1"),
        (["--num-shards", 2, "--output", "-"], "--num-shards: needs files"),
        (["--num-shards", 2, "--input", "-"], "--num-shards: needs files"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check(parsed(*arguments))


def test_a_model_and_one_directory():
    with pytest.raises(ValueError, match="--path: name the checkpoint"):
        check(parse_args(["data", *FILES[:4]]))
    with pytest.raises(ValueError, match="a:b: contains several data directories"):
        check(parse_args(["a:b", *FILES]))


@pytest.mark.parametrize("flag", ["--workers", "--threads-per-worker", "--chunk-size"])
def test_numbers_are_at_least_one(flag, capsys):
    with pytest.raises(SystemExit):
        parsed(flag, 0)
    assert f"argument {flag}: 0: must be a whole number of at least 1" in capsys.readouterr().err


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
