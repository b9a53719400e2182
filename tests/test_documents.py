"""What the documents tell people to type still works."""

import argparse
import ast
import asyncio
import functools
import inspect
import runpy
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils
from fairseq import options as fairseq_options
from fairseq_cli import generate as generate_cli

import fairseq_fastdec
from fairseq_fastdec import __main__ as front
from fairseq_fastdec.decoding.option_rules import check_options
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import command_line, huggingface, skips, snippets, stock_commands, tiny
from tests.support.snippets import DOCUMENTS, FRONT_PAGE, ROOT

COMMANDS = [command for document in DOCUMENTS for command in snippets.commands(document)]
PARSERS = {
    "fairseq-train": fairseq_options.get_training_parser,
    "fairseq-generate": fairseq_options.get_generation_parser,
    "fairseq-interactive": fairseq_options.get_interactive_generation_parser,
}
# Programs of others, whose options are not ours to know.
FOREIGN = {
    "bash", "cd", "curl", "docker", "echo", "hf", "kubectl", "mypy", "pip", "ray", "ruff",
    "sacrebleu", "tar",
}  # fmt: skip
# What a newcomer types one after the other: trainings come before what decodes with their models.
GUIDES = [
    FRONT_PAGE,
    ROOT / "docs" / "training.md",
    *sorted(ROOT.glob("docs/methods/*.md")),
    ROOT / "docs" / "shortlist.md",
]
TRAININGS = [
    command
    for command in COMMANDS
    if "train" in command.words[3:4] and "--save-dir" in command.words
]


class Parsed(Exception):
    """A script has read its command line, and need not do more."""


def test_there_are_commands():
    programs = {command.program for command in COMMANDS}
    assert {"fairseq-generate", "python", "pip"} <= programs
    assert len(COMMANDS) > 30
    assert {command.place.split(":")[0] for command in COMMANDS} >= {
        "README.md", "CONTRIBUTING.md", "docs/training.md", "docs/methods/greedy.md",
        "benchmarks/README.md", "examples/en_de/README.md", "examples/jacobi/README.md",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_options_exist(command, monkeypatch):
    """Every command is read by the parser that will read it."""
    program, arguments = command.program, command.words[1:]
    if program in FOREIGN or snippets.PLACEHOLDERS & set(arguments) or _is_a_part(command):
        return
    if program in PARSERS:
        _check_fairseq(program, arguments)
    elif _is_front(command):
        name, *rest = arguments[2:]
        if name in front.COMMANDS:
            return _check_parsed(lambda: front.main([name, *rest]), ["front", *rest], monkeypatch)
        plugin = ["--user-dir", front.USER_DIR, "--task", "translation"]
        _check_fairseq(f"fairseq-{name}", [*plugin, *rest])
    elif arguments[0] == "setup.py":
        assert arguments[1:] == ["build_ext", "--inplace"]
    elif program.startswith("python") and arguments[0].endswith(".py"):
        assert (ROOT / arguments[0]).is_file(), f"{command}: there is no such script"
        script = str(ROOT / arguments[0])
        run = functools.partial(runpy.run_path, script, run_name="__main__")
        _check_parsed(run, arguments, monkeypatch)
    elif arguments[0] == "-m" and arguments[1].startswith("benchmarks."):
        run = functools.partial(runpy.run_module, arguments[1], run_name="__main__")
        _check_parsed(run, arguments[1:], monkeypatch)
    elif program == "pytest" or arguments[:2] == ["-m", "pytest"]:
        _check_pytest([word for word in arguments if word not in ("-m", "pytest")])
    else:
        assert arguments[:2] == ["-m", "venv"], f"{command}: unknown to this test; teach it"


def _is_front(command):
    """One of fairseq's commands, as python -m fairseq_fastdec has it."""
    return command.words[1:3] == ["-m", "fairseq_fastdec"]


def _is_a_part(command):
    """A few options in a sentence, as in "fairseq-generate --sacrebleu"."""
    return command.program in PARSERS and (
        command.words[1].startswith("-") or "--help" in command.words
    )


def _check_fairseq(program, arguments):
    parser = PARSERS[program]()
    parser.error = _fail
    args = fairseq_options.parse_args_and_arch(parser, arguments)
    if isinstance(getattr(args, "decoding", None), str):
        names = DecodingOptions.__dataclass_fields__
        given = {name: value for name, value in vars(args).items() if name in names}
        check_options(DecodingOptions(**given))


def _check_parsed(run, argv, monkeypatch):
    """Run a program until it has parsed its command line."""
    parse_args = argparse.ArgumentParser.parse_args
    parse_known_args = argparse.ArgumentParser.parse_known_args

    def parse_and_stop(parser, *given, **keywords):
        parser.error = _fail
        with monkeypatch.context() as patch:
            patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_known_args)
            parse_args(parser, *given, **keywords)
        raise Parsed

    def parse_known_and_stop(parser, *given, **keywords):
        parser.error = _fail
        parse_known_args(parser, *given, **keywords)
        raise Parsed

    with monkeypatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(sys, "argv", argv)
        patch.setattr("fairseq_fastdec.processes.streams.run", lambda command, program: command())
        patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)
        if argv[0].startswith("examples"):  # in others fairseq asks for what is known, first
            patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_known_and_stop)
        with pytest.raises((Parsed, SystemExit)) as stopped:
            run()
    assert stopped.type is Parsed or not stopped.value.code  # --help ends with 0


def _check_pytest(words):
    folders = [word for word in words if "/" in word]
    assert all((ROOT / folder).exists() for folder in folders)


def _fail(message):
    raise AssertionError(message)


@pytest.mark.parametrize("command", TRAININGS, ids=str)
def test_trainings_end_by_themselves(command):
    assert "--max-update" in command.words, f"{command}: goes on for ever"


@pytest.fixture(scope="module")
def workplace(language_model, baseline, tmp_path_factory):
    """A directory in which the names of the guides are tiny things."""
    place = tmp_path_factory.mktemp("workplace")
    data, lm = language_model
    shutil.copytree(data, place / "data-bin" / "en-de")
    shutil.copy(lm, place / "lm.pt")
    for name in ("old-translations.bpe.de", "old.bpe.en", "old.bpe.de"):
        (place / name).write_text("a b c\n" * 29)
    (place / "data-bin" / "en-de" / "bpe.codes").write_text("#version: 0.2\na b</w>\n")
    shutil.copy(baseline, place / "checkpoint_best.pt")
    return place


def test_the_commands_of_the_guides_run_one_after_another(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    commands = [command for guide in GUIDES for command in snippets.commands(guide)]
    decoded, seen = 0, set()
    for command in commands:
        if _is_a_part(command) or " ".join(command.words) in seen:
            continue
        seen.add(" ".join(command.words))
        given = command.words[3 if _is_front(command) else 1 :]
        words = [command_line.PLUGIN if word == "fairseq_fastdec" else word for word in given]
        arguments = [*words, "--cpu", "--no-progress-bar", "--num-workers", 0]
        if command in TRAININGS:
            # The best loss of another training in this process would stay the best.
            vars(checkpoint_utils.save_checkpoint).pop("best", None)
            few = ["--max-update", 4, "--max-tokens", 400, "--warmup-updates", 2]
            command_line.run(_cli_of(command), *arguments, *command_line.TINY, *few)
            folder = command.words[command.words.index("--save-dir") + 1]
            assert Path(folder, "checkpoint_best.pt").is_file()
        elif command.program == "fairseq-generate" or "generate" in command.words[3:4]:
            _ensure_shortlist(arguments)
            printed = command_line.run(_cli_of(command), *arguments, "--max-len-b", 20)
            assert len(command_line.hypotheses(printed)) == 29, command
            decoded += 1
    assert decoded > 8


def _cli_of(command):
    """What has the function of a command that decodes."""
    if not _is_front(command):
        return generate_cli
    return SimpleNamespace(cli_main=lambda: front.main(sys.argv[1:]))


def _ensure_shortlist(arguments):
    """``build-shortlist`` has its own tests."""
    if "--shortlist" in arguments:
        name = arguments[arguments.index("--shortlist") + 1]
        Path(name).write_text("a b 0.5\nb a 0.5\n", encoding="utf-8")


@pytest.mark.parametrize("block", snippets.blocks(FRONT_PAGE, "python"))
def test_the_python_code_of_the_front_page_runs(block, workplace, monkeypatch, capsys):
    monkeypatch.chdir(workplace)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_the_python_code_of_its_page_runs(monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {}
    for block in snippets.blocks(ROOT / "docs" / "python.md", "python"):
        code = compile(block, "python.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)
    assert names["translation"].text and names["translation"].alignment


def test_the_page_of_imported_models(tmp_path, monkeypatch):
    """Its Python code runs, and its commands train heads on an imported model."""
    page = ROOT / "docs" / "imported_models.md"
    for name, kind in (("opus-mt-en-de", "marian"), ("nllb-200", "nllb")):
        (tmp_path / name).mkdir()
        huggingface.save(tmp_path / name, kind)
    for language in ("en", "de"):
        lines = (ROOT / "examples/en_de/data" / f"valid.{language}").read_text("utf-8").split("\n")
        short = [" ".join(line.split()[:5]) for line in lines[:40] if line]
        for split in ("train", "valid"):
            (tmp_path / f"{split}.{language}").write_text("\n".join(short) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    front.main(["import", "opus-mt-en-de", "--destdir", "en-de"])
    front.main(["import", "nllb-200", "--destdir", "nllb"])
    names = {"fairseq_fastdec": fairseq_fastdec}
    for block in snippets.blocks(page, "python"):
        exec(compile(block, "imported_models.md", "exec"), names)
    commands = list(snippets.commands(page))
    (export,) = (own for own in commands if "export" in own.words[3:4])
    front.main(export.words[3:])
    assert fairseq_fastdec.load("for-transformers").translate("No", beam=1)
    (prepare,) = (own for own in commands if "prepare-data" in own.words)
    front.main(prepare.words[3:])
    (train,) = (own for own in commands if "train" in own.words[3:4])
    few = ["--max-update", 4, "--max-tokens", 400, "--warmup-updates", 2, "--num-workers", 0]
    command_line.run(_cli_of(train), *train.words[3:], "--cpu", "--no-progress-bar", *few)
    options = ["--gen-subset", "valid", "--max-len-b", 20, "--decoding"]
    heads = "blockwise-en-de/checkpoint_last.pt"
    printed = command_line.generate("data-bin/imported", heads, *options, "blockwise")
    greedy = command_line.generate("data-bin/imported", "en-de/checkpoint.pt", *options, "greedy")
    assert len(command_line.hypotheses(printed)) > 30
    assert command_line.hypotheses(printed) == command_line.hypotheses(greedy)


@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.STOCK_0_12_2)
def test_heads_are_removed_as_the_page_says(workplace, blockwise, monkeypatch):
    """Without the plugin, as fairseq-generate then says: it is what the base decodes."""
    (block,) = snippets.blocks(ROOT / "docs" / "stock_fairseq.md", "python")
    monkeypatch.chdir(workplace)
    Path("blockwise").mkdir(exist_ok=True)
    shutil.copy(blockwise, "blockwise/checkpoint_best.pt")
    exec(compile(block, "stock_fairseq.md", "exec"), {})
    greedy = command_line.generate("data-bin/en-de", blockwise, "--decoding", "greedy")
    # Without the plugin, fairseq drops the last batch if it is smaller than this multiple.
    options = ["--beam", 1, "--required-batch-size-multiple", 1]
    stock = stock_commands.generate("data-bin/en-de", "stock.pt", *options)
    assert command_line.hypotheses(stock) == command_line.hypotheses(greedy)
    stock_commands.validate("data-bin/en-de", "stock.pt")


def test_the_front_page_needs_no_checkout():
    """fairseq finds the plugin by its name in the checkout, and nowhere after pip install -e."""
    for block in snippets.blocks(FRONT_PAGE, "sh"):
        assert "--user-dir fairseq_fastdec" not in block


def test_there_is_python_code():
    assert snippets.blocks(FRONT_PAGE, "python")


def test_the_documents_agree_on_how_long_heads_take():
    """The introduction said minutes, the table an hour, the recipe half an hour."""
    pages = {name: _text(name) for name in ("README.md", "docs/training.md", "docs/performance.md")}
    for name, text in pages.items():
        assert "within minutes" not in text and "an hour to train heads" not in text
        assert text.count("half an hour") == 1, name
    assert "4,000 updates (half an hour on a free core)" in _text("examples/en_de/README.md")


def _text(name):
    return (ROOT / name).read_text(encoding="utf-8")
