"""Runs fairseq's commands without this plugin, each in a separate process."""

from tests.support import after_import


def python(code: str, *arguments) -> str:
    """Run a program without the plugin, and return its output.

    Raises:
        AssertionError: if it fails.
    """
    # Otherwise torch rejects the classes in fairseq's checkpoints.
    allowed = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_WEIGHTS_ONLY_LOAD": ""}
    done = after_import.run(code, *arguments, **allowed)
    assert done.returncode == 0, done.stderr
    return done.stdout


def generate(data, path, *arguments) -> str:
    """fairseq-generate of the stock task."""
    return _command("generate", data, "--path", path, *arguments)


def validate(data, path, *arguments) -> str:
    """fairseq-validate of the stock task."""
    # Without --task, fairseq's parser fails with "KeyError: None".
    options = ["--task", "translation", "--max-tokens", 400]
    return _command("validate", data, "--path", path, *options, *arguments)


def _command(name: str, *arguments) -> str:
    code = f"""
import sys
from fairseq_cli.{name} import cli_main
cli_main()
assert not any(name.startswith("fairseq_fastdec") for name in sys.modules)
"""
    return python(code, *arguments, "--cpu", "--no-progress-bar")
