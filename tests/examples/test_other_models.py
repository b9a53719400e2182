"""Published models' sizes beside fairseq: what is written, measured and printed."""

import argparse
import json
import os
import re
import sys

import pytest
from fairseq_cli import generate as generate_cli

from benchmarks.compare import command as benchmark
from benchmarks.compare.methods import Method, Settings, check_methods
from examples.common import commands
from examples.other_models import beside_fairseq as example
from examples.other_models import published
from tests.support import command_line

TINY = dict(
    encoder_layers=1, decoder_layers=1, encoder_embed_dim=16, decoder_embed_dim=16,
    encoder_ffn_embed_dim=16, decoder_ffn_embed_dim=16, encoder_attention_heads=2,
    decoder_attention_heads=2,
)  # fmt: skip


def tiny(name):
    """A published model with small layers, and 200 types."""
    model = published.MODELS[name]
    return model._replace(arguments={**model.arguments, **TINY}, n_types=200)


@pytest.mark.parametrize("name", published.MODELS)
def test_they_are_decoded_as_by_fairseq_to_the_same_length(name, tmp_path):
    model = tiny(name)
    published.build(model, tmp_path)

    def printed(task, *options):
        return command_line.run(
            generate_cli, tmp_path, "--path", tmp_path / "checkpoint.pt", *command_line.COMMON,
            "--task", task, *model.options, *example.FORCED, "--num-workers", 0, *options,
        )  # fmt: skip

    for beam, decoding in ((1, "greedy"), (5, "beam")):
        options = ["--beam", beam, "--batch-size", 16]
        theirs = printed(model.task, *options)
        ours = printed(model.task, *options, "--decoding", decoding)
        assert command_line.hypotheses(ours) == command_line.hypotheses(theirs)
        # Scores, because some tokens are not printed.
        scores = re.findall(r"(?m)^P-\d+\t(.*)$", ours)
        assert [len(own.split()) for own in scores] == [example.TARGET_LENGTH] * 16
    assert len(command_line.hypotheses(printed(model.task, "--gen-subset", "one"))) == 1


@pytest.mark.parametrize("name", ["m2m_100", "s2t_m"])
def test_every_measurement_is_a_command_that_exists(name, tmp_path):
    model = published.MODELS[name]
    found = list(example.measurements(model, tmp_path, n_rounds=2, n_threads=2))
    assert len({measurement.name for measurement in found}) == len(found)
    compared = [measurement for measurement in found if not measurement.is_timed]
    assert len(compared) == len(example.SEARCHES) * len(example.BATCHES)
    words = [str(word) for word in compared[-1].command[3:]]
    args, rest = benchmark.parse_args(words)
    settings = Settings((args.data, *rest), args.device, args.dtype, args.threads)
    methods = [Method.parse(spec) for spec in args.methods]
    assert (example.SHORTLIST in [own.name for own in methods]) == model.has_table
    check_methods(settings, (methods[0], methods[-1]))


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Runs the example with commands that do nothing, and says which those were."""
    ran = []

    def run(command, log=None, environment=None):
        words = [str(word) for word in command]
        # What is measured has the threads that were asked for.
        assert environment == (None if log is None else {"OMP_NUM_THREADS": "2"})
        ran.append(words)
        if "--output" in words:
            results = [
                {"method": method, "sentences_per_second": 2.0, "time_ratio": ratio}
                for method, ratio in ((example.FAIRSEQ, 1.0), ("fp32", 0.5), ("int8", 0.1))
            ]
            directory = tmp_path / "m2m_100" / words[words.index("--output") + 1].split("/")[-1]
            text = json.dumps({"results": results})
            (directory / "benchmark.json").write_text(text, encoding="utf-8")
        elif "published.py" in words[1]:
            (tmp_path / "m2m_100" / "model").mkdir(parents=True)
        return 1234.5

    monkeypatch.setattr(commands, "run", run)

    def measure(**given):
        ran.clear()
        settings = dict(workdir=tmp_path, rounds=2, threads=2, minutes=None, keep=False)
        example.measure("m2m_100", argparse.Namespace(**{**settings, **given}))
        return list(ran)

    return measure


def test_a_command_has_variables_that_others_have_not(tmp_path):
    before = dict(os.environ)
    script = "import os; print(os.environ['OMP_NUM_THREADS'])"
    commands.run([sys.executable, "-c", script], tmp_path / "log", {"OMP_NUM_THREADS": "7"})
    assert (tmp_path / "log").read_text(encoding="utf-8").strip() == "7"
    assert dict(os.environ) == before


def test_what_is_there_is_not_measured_again(measured, tmp_path, capsys):
    first = measured()
    assert "published.py" in first[0][1]
    assert len(first) == 1 + 2 * 5 + 2 * 2
    assert not (tmp_path / "m2m_100" / "model").exists()
    assert measured() == []
    example.print_tables(tmp_path, list(published.MODELS))
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| M2M-100, 418M, beam 5, batch 16 | 0.50 | 2.0x |  | 10.0x |  |" in text
    assert text.count("1,234") == 8 and "NLLB" not in text


def test_the_time_is_over(measured, monkeypatch):
    monkeypatch.setattr(example, "BEGAN", example.BEGAN - 100)
    with pytest.raises(SystemExit, match="--minutes 1: exceeded"):
        measured(minutes=1)
