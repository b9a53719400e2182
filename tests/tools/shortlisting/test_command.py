"""``build-shortlist`` end to end: from a data directory to what fairseq-generate takes."""

import re

import pytest

from fairseq_fastdec.tools.shortlisting import command
from tests.support import after_import, command_line


@pytest.fixture(scope="module")
def table(corpus, tmp_path_factory):
    """Letters translate to themselves in this corpus."""
    path = tmp_path_factory.mktemp("table") / "lex.s2t"
    command.main([str(corpus), "-s", "en", "-t", "de", "--output", str(path)])
    return path


def entries(path):
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
    return [(target, source, float(probability)) for target, source, probability in lines]


def test_the_best_translation_of_every_word(table):
    best = {}
    for target, source, probability in entries(table):
        assert best.setdefault(source, (target, probability))[1] >= probability
    assert {source: target for source, (target, _) in best.items()} == {c: c for c in "abcdefghij"}


def test_thresholds_and_the_other_direction(corpus, tmp_path, capsys):
    path = tmp_path / "lex.s2t"
    fixed = [str(corpus), "-s", "de", "-t", "en", "--output", str(path), "--iterations", "8"]
    command.main([*fixed, "--threshold", "0.1", "--best", "2", "--sentences", "300"])
    printed = capsys.readouterr().out
    assert "300 sentence pairs" in printed and "iteration 8 of 8: perplexity" in printed
    assert f"{path}: {len(entries(path))} of " in printed
    assert all(probability >= 0.1 for *_, probability in entries(path))
    sources = [source for _, source, _ in entries(path)]
    assert set(sources) == set("abcdefghij") and len(sources) <= 20
    assert [file.name for file in tmp_path.iterdir()] == ["lex.s2t"]


def test_a_table_of_which_nothing_is_left(corpus, tmp_path, capsys):
    path = tmp_path / "lex.s2t"
    arguments = ["-s", "en", "-t", "de", "--output", str(path), "--iterations", "1"]
    command.main([str(corpus), *arguments, "--threshold", "1"])
    assert entries(path) == []
    assert re.search(r"for 0 of \d+ source types, 0.0 targets each; ", capsys.readouterr().out)


@pytest.mark.parametrize("empty", ["en", "de"])
def test_text_without_a_word_on_one_side(corpus, tmp_path, empty):
    for language in ("en", "de"):
        lines = ["\n"] * 3 if language == empty else ["a b\n"] * 3
        (tmp_path / f"train.{language}").write_text("".join(lines))
    data = tmp_path / "data"
    command_line.preprocess(
        "-s", "en", "-t", "de", "--trainpref", tmp_path / "train", "--destdir", data,
        "--srcdict", corpus / "dict.en.txt", "--tgtdict", corpus / "dict.de.txt",
    )  # fmt: skip
    with pytest.raises(SystemExit, match="the split 'train' has no words on one side"):
        command.main([str(data), "--output", str(tmp_path / "lex.s2t")])


def test_defaults_are_those_of_the_help():
    args = command.parse_args(["data", "--output", "lex.s2t"])
    assert (args.gen_subset, args.iterations, args.threshold, args.best) == ("train", 5, 1e-4, 100)
    assert args.sentences is None


@pytest.mark.parametrize("batch_size", [1, 8])
def test_fairseq_generate(corpus, baseline, table, batch_size):
    options = ["--decoding", "greedy", "--max-len-b", 12, "--batch-size", batch_size]
    full = command_line.hypotheses(command_line.generate(corpus, baseline, *options))
    few = ["--shortlist", table, "--shortlist-first", 0, "--shortlist-best", 1]
    short = command_line.generate(corpus, baseline, *options, *few)
    sources = dict(line[2:].split("\t") for line in short.splitlines() if line.startswith("S-"))
    translations = command_line.hypotheses(short)
    assert translations.keys() == full.keys()
    if batch_size == 1:
        for number, text in translations.items():
            assert set(text.split()) <= {*sources[str(number)].split(), "<unk>"}


def test_the_hub(corpus, baseline, table):
    from fairseq import hub_utils

    model = hub_utils.from_pretrained(
        str(baseline.parent), baseline.name, str(corpus), task="translation"
    )
    hub = hub_utils.GeneratorHubInterface(model["args"], model["task"], model["models"])
    narrow = dict(decoding="greedy", beam=1, shortlist=str(table), shortlist_best=1)
    assert set(hub.translate("a b c", shortlist_first=0, **narrow).split()) <= set("abc")


def test_the_script(corpus, tmp_path):
    done = after_import.run_ours("build-shortlist", corpus, "--output", tmp_path / "lex.s2t")
    assert done.returncode == 0, done.stderr
    assert entries(tmp_path / "lex.s2t")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere"], "nowhere"),
        (["{data}:{data}"], "several data directories"),
        (["{data}", "--gen-subset", "nothing"], "Dataset not found: nothing"),
        (["{data}", "--output", "missing/lex.s2t"], "--output missing/lex.s2t: there is no dir"),
    ],
)
def test_what_cannot_be_done(corpus, tmp_path, arguments, message):
    arguments = [argument.format(data=corpus) for argument in arguments]
    if "--output" not in arguments:
        arguments += ["--output", str(tmp_path / "lex.s2t")]
    with pytest.raises(SystemExit, match=f"fairseq_fastdec build-shortlist: .*{message}"):
        command.main(arguments)
    assert not (tmp_path / "lex.s2t").exists()


@pytest.mark.parametrize("value", ["0", "1", "0.5"])
def test_probabilities(value):
    args = command.parse_args(["data", "--output", "lex.s2t", "--threshold", value])
    assert args.threshold == float(value)


@pytest.mark.parametrize("value", ["-0.1", "1.5", "nan", "few"])
def test_what_is_no_probability(value, capsys):
    with pytest.raises(SystemExit):
        command.parse_args(["data", "--output", "lex.s2t", "--threshold", value])
    assert f"--threshold: {value}: must be a number from 0 to 1" in capsys.readouterr().err
