"""``--help`` has all our options first, in groups by method; ``--help-all`` has every option."""

import re
import sys
from dataclasses import fields

import pytest
from fairseq import options
from fairseq_cli import generate, interactive, train, validate

from benchmarks.compare import command as benchmark
from fairseq_fastdec import __main__ as front
from fairseq_fastdec.corpora import command as translation
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.tools.distillation import command as distill
from fairseq_fastdec.tools.visualize import command as ddgviz
from tests.support import command_line

OURS = [
    f"--{option.name.replace('_', '-')}"
    for option in fields(DecodingOptions)
    if option.name != "_name"
]


def groups(text):
    """The flags of every group of a help text, by its title."""
    parts = re.split(r"(?m)^(\S.*):$", text)
    return {
        title: re.findall(r"(?m)^  (--[\w-]+)", body)
        for title, body in zip(parts[1::2], parts[2::2])
    }


@pytest.fixture
def help_of(capsys):
    """A function that runs a command, which prints its help and ends; it returns the help."""

    def run(command, *arguments):
        with pytest.raises(SystemExit) as stopped:
            command([*map(str, arguments), "--help"])
        assert not stopped.value.code
        return capsys.readouterr().out

    return run


@pytest.fixture
def fairseq_help(capsys, monkeypatch):
    """The same for one of fairseq's."""

    def run(command, *arguments, flag="--help"):
        monkeypatch.setattr(sys, "argv", ["fairseq", *command_line.COMMON, *arguments, flag])
        with pytest.raises(SystemExit) as stopped:
            command.cli_main()
        assert not stopped.value.code
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("command", [generate, interactive, train])
def test_fairseqs_commands(fairseq_help, command):
    text = fairseq_help(command, "--task", "translation", flag="--help-all")
    found = groups(text)
    titles = ("decoding", "blockwise decoding", "Jacobi decoding and lookahead", "beams", "drafts")
    assert sorted(OURS) == sorted(flag for title in titles for flag in found[title])
    assert "--decoding-block-size" in found["blockwise decoding"]
    assert {"--jacobi-block-size", "--lookahead-window"} <= set(found[titles[2]])
    assert {"--prune-threshold", "--stream-policy"} <= set(found["beams"])
    assert found["training"] == ["--cpu-autocast"]
    other = "checkpoint" if command is train else "Generation"
    assert "--fp16-init-scale" in text and other in found, "fairseq's own options are there"


@pytest.mark.parametrize(
    "command, main, others",
    [
        (generate, {"--path", "--beam"}, {"--fp16-init-scale", "--optimizer"}),
        (interactive, {"--path", "--input"}, {"--fp16-init-scale", "--optimizer"}),
        (validate, {"--path", "--task"}, {"--fp16-init-scale", "--optimizer"}),
        (train, {"--arch", "--optimizer"}, {"--fp16-init-scale", "--dropout"}),
    ],
    ids=["generate", "interactive", "validate", "train"],
)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_the_help_is_short_and_begins_with_our_options(fairseq_help, command, main, others, flag):
    text = fairseq_help(command, "--task", "translation", flag=flag)
    flags = set(re.findall(r"--[\w-]+", text))
    assert set(OURS) | main | {"--help-all"} <= flags and not others & flags
    titles = list(groups(text))
    assert titles.index("decoding") < titles.index("beams") < titles.index("options")
    assert len(text.splitlines()) < 260
    whole = fairseq_help(command, "--task", "translation", flag="--help-all")
    assert len(whole.splitlines()) > 2 * len(text.splitlines())
    titles = list(groups(whole))
    assert titles.index("decoding") < titles.index("beams") < titles.index("options")


def test_the_options_of_stock_models_are_in_the_long_help_alone(fairseq_help):
    arguments = ["--arch", "blockwise_transformer", "--criterion", "random_sub_loss"]
    short, whole = (fairseq_help(train, *arguments, flag=f) for f in ("--help", "--help-all"))
    assert "--block-size" in short and "--head-decay" in short
    assert "--encoder-layers" not in short and "--encoder-layers" in whole


def test_what_a_model_a_criterion_and_another_task_add(fairseq_help):
    arguments = ["--task", "translation_double_token", "--arch", "blockwise_transformer"]
    text = fairseq_help(train, *arguments, "--criterion", "random_sub_loss", flag="-h")
    assert groups(text)["order of decoding"] == ["--token-order", "--tokens-per-step"]
    assert "--block-size" in groups(text)["Model-specific configuration"]
    assert "--head-decay" in text


def test_without_help_nothing_changes(monkeypatch):
    parser = options.get_generation_parser(default_task="translation")
    args = options.parse_args_and_arch(parser, ["data", "--decoding", "greedy"])
    assert (args.decoding, args.data) == ("greedy", "data")
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(parser, ["data", "--decoding", "unheard"])


def test_required_options_stay_required(help_of, capsys):
    assert "--destdir" in help_of(distill.main)
    with pytest.raises(SystemExit):
        distill.main(["data"])
    assert "required: --destdir" in capsys.readouterr().err


@pytest.mark.parametrize("command", [distill, benchmark, translation])
def test_our_commands(help_of, command):
    assert set(OURS) <= set(re.findall(r"--[\w-]+", help_of(command.main)))


def test_ddgviz(help_of):
    text = help_of(ddgviz.main)
    assert set(OURS) <= set(re.findall(r"--[\w-]+", text)) and "--formats LIST" in text


def test_the_overview(capsys):
    front.main(["--help"])
    text = capsys.readouterr().out
    assert set(OURS) <= set(re.findall(r"--[\w-]+", text))
    methods, commands = (re.search(rf"(?ms)^{t}.*?\n\n", text)[0] for t in ("methods", "commands"))
    assert all(f"  {name} " in methods for name in ("greedy", "streaming", "double_token"))
    assert all(f"  {name} " in commands for name in ("generate", "ddgviz", "prepare-data"))
