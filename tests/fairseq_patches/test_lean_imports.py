"""Decoding commands of ours import less of fairseq, and everything is there when it is needed."""

import pytest

from fairseq_fastdec.fairseq_patches import lean_imports
from tests.support import after_import
from tests.support.command_line import generate, hypotheses, interactive

HEAVY = ("sklearn", "scipy")
AS_COMMAND = "import sys; sys.orig_argv = ['python', '-m', 'fairseq_fastdec', 'generate']\n"


def run(code, imported="torch"):
    done = after_import.run(AS_COMMAND + code, imported=imported)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "arguments, is_one",
    [
        ("python -m fairseq_fastdec generate d --path p", True),
        ("python -X dev -m fairseq_fastdec interactive", True),
        ("python -m fairseq_fastdec train d", False),
        ("python -m fairseq_fastdec", False),
        ("python -m other generate", False),
        ("python generate.py", False),
        ("fairseq-generate d", False),
    ],
)
def test_which_commands(arguments, is_one):
    assert lean_imports.is_decoding_command(arguments.split()) == is_one


def test_what_a_decoding_command_leaves_out():
    (loaded,) = run(
        f"import fairseq_fastdec; print([name for name in {HEAVY} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_what_is_asked_for_is_there():
    """By an import, by a name in a registry, and all of it as without deferring."""
    code = """
import fairseq_fastdec
from fairseq.models.roberta.model import RobertaLMHead
from fairseq.models.bart import BARTModel
from fairseq import tasks, models
from fairseq_fastdec.tasks import FastDecoding
print(issubclass(tasks.TASK_REGISTRY["speech_to_text"], FastDecoding))
print("no such task" in tasks.TASK_REGISTRY, None in models.ARCH_MODEL_REGISTRY)
print(tasks.TASK_DATACLASS_REGISTRY.get("multilingual_translation"))
print(len(fairseq_fastdec.fairseq_patches.lean_imports._deferred))
for registry in (tasks.TASK_REGISTRY, models.ARCH_MODEL_REGISTRY, models.MODEL_REGISTRY):
    print(sorted(registry), len(registry) == len(registry.items()) == len(registry.values()))
"""
    lean = run(code)
    assert lean[:4] == ["True", "False False", "None", "0"]
    whole = run("sys.orig_argv = []" + code)
    assert lean[4:] == whole[4:]


def test_a_name_is_looked_for_in_modules_that_have_not_been_run():
    code = """
import fairseq_fastdec
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
deferred = fairseq_fastdec.fairseq_patches.lean_imports._deferred
print("transformer" in MODEL_DATACLASS_REGISTRY, len(deferred) > 20)
print("fconv_iwslt_de_en" in ARCH_MODEL_REGISTRY.keys(), len(deferred))
import fairseq.models.lstm, importlib
print(importlib.reload(fairseq.models.ema) is fairseq.models.ema)
"""
    lines = run(code)
    assert lines[0].endswith(" True") and lines[1] == "True 0" and lines[2] == "True"


@pytest.mark.parametrize("command", ["generate", "interactive"])
def test_commands_print_the_same(corpus, baseline, tmp_path, command):
    arguments = [corpus, "--path", baseline, "--cpu", "--decoding", "beam", "--beam", 2]
    if command == "generate":
        expected = generate(*arguments[:1], baseline, *arguments[3:])
        stdin = ""
    else:
        lines = ["a b c d", "j i"]
        expected = interactive(corpus, baseline, lines, tmp_path, *arguments[3:])
        stdin = "\n".join(lines) + "\n"
        arguments += ["-s", "en", "-t", "de"]
    done = after_import.run_ours(command, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr

    assert hypotheses(done.stdout) == hypotheses(expected)
    results = [line for line in expected.splitlines() if line[:2] in ("S-", "T-", "H-", "D-", "P-")]
    assert set(results) <= set(done.stdout.splitlines())
    # Nothing of what fairseq logs.
    assert " | INFO" not in done.stdout and "fairseq.tasks" not in done.stderr


def test_an_architecture_that_a_command_names(corpus, baseline):
    """fairseq-generate takes one for tasks of audio."""
    done = after_import.run_ours(
        "generate", corpus, "--path", baseline, "--cpu", "--arch", "wav2vec2", "--beam", 1
    )
    assert len(hypotheses(done.stdout)) == 29, done.stderr[-2000:]


def test_modules_that_need_neither_torch_nor_fairseq():
    code = """
import importlib, pkgutil, sys
import fairseq_fastdec
for name in fairseq_fastdec.WITHOUT_FAIRSEQ:
    module = importlib.import_module(f"fairseq_fastdec.{name}")
    if name == "importing":  # what reads parameters needs torch; the command imports it later
        importlib.import_module("fairseq_fastdec.importing.command")
        continue
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        importlib.import_module(f"{module.__name__}.{found.name}")
print([name for name in ("torch", "fairseq", "fairseq_fastdec.plugin") if name in sys.modules])
"""
    assert run(code, imported="sys") == ["[]"]


@pytest.mark.parametrize(
    "module",
    ["decoding.options", "packing.models", "tasks", "checkpoints.translator", "tools.export"],
)
def test_any_module_can_be_the_first(module):
    """What it imports is registered with fairseq, and it is imported once."""
    code = f"""
import sys
import fairseq_fastdec.{module} as module
from fairseq.tasks import TASK_REGISTRY
from fairseq_fastdec.tasks import FastDecoding
print(issubclass(TASK_REGISTRY["translation"], FastDecoding))
print(sys.modules["fairseq_fastdec.{module}"] is module, module.__spec__.origin is not None)
"""
    assert run(code) == ["True", "True True"]


def test_lazy_names_that_do_not_exist():
    import fairseq_fastdec

    with pytest.raises(AttributeError, match="module 'fairseq_fastdec' has no attribute 'laod'"):
        fairseq_fastdec.laod  # noqa: B018
    assert fairseq_fastdec.load.__module__ == "fairseq_fastdec.translating.opening"
