"""The command line of the package: ``python -m fairseq_fastdec COMMAND``.

fairseq's own commands run with this plugin, without ``--user-dir``.
"""

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

from . import __version__
from .processes import streams as process
from .processes.errors import end_with, errors_in_one_line, write
from .processes.noise import results_only

ARCH = {"--arch", "-a"}
PROGRAM = "python -m fairseq_fastdec"
USER_DIR = str(Path(__file__).resolve().parent)
# Each with the context in which it runs. Training is not silenced, since it reports progress by
# logging.
FAIRSEQ_COMMANDS: dict[str, tuple[str, Any]] = {
    "generate": ("translate binarised data", results_only),
    "interactive": ("translate lines of text", results_only),
    "train": ("train a model", contextlib.nullcontext),
    "validate": ("compute a model's loss", contextlib.nullcontext),
}
HELP = {"-h", "--help", "--help-all"}
# What prints its results; other commands can also write them to files, and check it themselves.
PRINTING = {"generate", "interactive", "validate", "--user-dir", "--version", *HELP}
COMMANDS = {
    "prepare-data": ("binarise raw text", "tools.prepare_data"),
    "import": ("convert a model of Hugging Face, Marian or Firefox", "importing.command"),
    "export": ("convert a checkpoint to a bundle, one file that needs no torch", "tools.export"),
    "translate": ("translate lines of text on all cores", "corpora.command"),
    "score": ("score given translations of lines of text", "corpora.scoring"),
    "distill": ("create training data from a teacher's translations", "tools.distillation.command"),
    "build-shortlist": ("create a lexical table for --shortlist", "tools.shortlisting.command"),
    "average-checkpoints": ("average the parameters of checkpoints", "tools.average_checkpoints"),
    "ddgviz": ("visualise parallel decoding", "tools.visualize.command"),
    "serve": ("translate over HTTP", "serving.command"),
}


def run(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command line of this process."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    label = f"{PROGRAM} {name}"

    def command() -> None:
        prints = name in PRINTING and not any(word.startswith("--results-path") for word in rest)
        if prints or HELP & {*rest}:
            with errors_in_one_line(label):
                process.standard("stdout")
        main([name, *rest])

    process.run(command, label)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run a command, or print the overview."""
    name, *rest = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    if name in FAIRSEQ_COMMANDS:
        run_fairseq(name, rest)
    elif name in COMMANDS:
        # Some modules catch all exceptions of imports, and others convert them.
        with process.handling_interrupts(signal.SIG_DFL):
            command = importlib.import_module(f"fairseq_fastdec.{COMMANDS[name][1]}")
        command.main(rest)
    elif name == "--user-dir":
        write(sys.stdout, f"{USER_DIR}\n")
    elif name == "--version":
        from .engine import kernels
        from .processes import cores

        write(sys.stdout, f"{__version__}, {kernels.description()}\n{cores.description()}\n")
    elif name in ("-h", "--help"):
        write(sys.stdout, f"{overview()}\n")
    else:
        end_with(f"{PROGRAM}: {name}: unknown; choose from {', '.join(all_commands())}")


def run_fairseq(name: str, arguments: list[str]) -> None:
    """Run one of fairseq's commands with this plugin."""
    # Imported here since it is slow and not needed to decode bundles.
    from fairseq.options import get_generation_parser, parse_args_and_arch
    from fairseq.tasks import TASK_REGISTRY

    from .fairseq_patches import faster_fairseq
    from .tasks import FastDecoding

    given = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    given.add_argument("--user-dir", default=USER_DIR)
    # fairseq-validate has no default task.
    given.add_argument("--task", default="translation")
    options, rest = given.parse_known_args(arguments)
    sys.argv = [f"{PROGRAM} {name}", *rest, "--user-dir", options.user_dir, "--task", options.task]
    words = {word.split("=")[0] for word in rest}
    if name == "validate" and not words & {"--path", *HELP}:
        raise ValueError("--path: name the checkpoint, or several separated by colons")
    if name == "generate" and "--constraints" in words:
        raise ValueError("--constraints: binarised data have none; use interactive")
    with FAIRSEQ_COMMANDS[name][1]():
        command = importlib.import_module(f"fairseq_cli.{name}")
        faster_fairseq.install()
        is_ours = issubclass(TASK_REGISTRY.get(options.task, object), FastDecoding)
        if name == "generate" and is_ours and not ARCH & words:
            # fairseq's own main function gives all tasks the options of an audio architecture.
            command.main(parse_args_and_arch(get_generation_parser()))
        else:
            command.cli_main()


def all_commands() -> list[str]:
    """The names of all commands."""
    return [*FAIRSEQ_COMMANDS, *COMMANDS]


def overview() -> str:
    """The help text: commands, and methods with their options if fairseq is installed."""
    commands = {name: text for name, (text, _) in {**FAIRSEQ_COMMANDS, **COMMANDS}.items()}
    try:
        methods = _methods()
    except ModuleNotFoundError as error:
        methods = f"{error}\n"
    return (
        f"usage: {PROGRAM} COMMAND ...      (see COMMAND --help)\n       {PROGRAM} "
        f"--user-dir       print the folder for --user-dir of fairseq's commands\n       {PROGRAM} "
        "--version        print the version and the state of the compiled "
        f"code\n\ncommands:\n{_listed(commands)}\n{methods}"
    ).rstrip()


def _methods() -> str:
    from .decoding import METHODS, generator_class
    from .decoding.option_groups import described
    from .decoding.options import DecodingOptions

    methods = {
        name: str(generator_class(name).__doc__).splitlines()[0].replace("``", "")
        for name in METHODS
    }
    return f"methods (--decoding):\n{_listed(methods)}\n{described(DecodingOptions())}"


def _listed(texts: dict) -> str:
    return "".join(f"  {name:21} {text}\n" for name, text in texts.items())


if __name__ == "__main__":
    run()
