"""Errors of what the user gave: one line under fairseq's commands, with exit code 2."""

import io
import math
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import generate as generate_cli

from fairseq_fastdec import __main__ as front
from fairseq_fastdec.decoding.constraints import GenerationRules, prefix_lengths
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.network.support import UnsupportedModel, check_supported
from fairseq_fastdec.processes import errors
from tests.support import after_import, command_line, tiny

ROOT = Path(__file__).resolve().parents[2]
START = "import sys; from fairseq_cli.{0} import cli_main; sys.argv[0] = 'fairseq-{0}'; cli_main()"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def start(program, *arguments, **environment):
    """A command of fairseq's in a process of its own."""
    return after_import.run(START.format(program), *arguments, **environment)


PLUGIN = ("--user-dir", ROOT / "fairseq_fastdec", "--task", "translation_fastdec", "--cpu")


@pytest.mark.parametrize("program", ["generate", "interactive"])
def test_a_wrong_option_is_told_in_one_line(corpus, baseline, program):
    ended = start(
        program, corpus, *PLUGIN, "--path", baseline, "--decoding", "greedy", "--temperature", 0
    )
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"fairseq-{program}: --temperature 0.0: must be a number between")
    assert "Traceback" not in ended.stderr + ended.stdout
    assert ended.returncode == 2


def test_our_own_generate_and_interactive_too(corpus, baseline):
    for name in ("generate", "interactive"):
        given = (corpus, "--path", baseline, "--cpu", "--decoding", "greedy", "--beam", 3)
        ended = after_import.run_ours(name, *given)
        last = ended.stderr.splitlines()[-1]
        assert last.startswith(f"python -m fairseq_fastdec {name}: --beam 3"), ended.stderr
        assert "Traceback" not in ended.stderr and ended.returncode == 2


def test_training_ends_in_one_line_too(corpus, tmp_path):
    arguments = (
        corpus, *PLUGIN, "--arch", "blockwise_transformer", "--block-size", 0, "--max-tokens", 99,
        *command_line.TINY, "--optimizer", "adam", "--save-dir", tmp_path,
    )  # fmt: skip
    ended = start("train", *arguments)
    assert ended.stderr.splitlines()[-1] == "fairseq-train: --block-size 0: must be at least 1"
    assert "Traceback" not in ended.stderr + ended.stdout
    assert ended.returncode == 2
    shown = start("train", *arguments, FASTDEC_TRACEBACK="1")
    assert "Traceback" in shown.stderr and shown.returncode == 1


def test_other_programs_keep_their_tracebacks():
    """A user of the hub has written the program, and wants to know where it went wrong."""
    program = (
        "from fairseq_fastdec.decoding.options import DecodingOptions\n"
        "DecodingOptions(decoding='speculative').check()"
    )
    ended = after_import.run(program)
    assert ended.returncode == 1
    assert "Traceback" in ended.stderr and "--decoding speculative: unknown" in ended.stderr


def caught(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")


def told(monkeypatch, capsys, call):
    """What the hook does with an error that came through a command: a line, or ``None``."""
    passed_on = []
    hook = errors._hook_before(lambda *error: passed_on.append(error))
    monkeypatch.setattr(sys, "argv", ["bin/fairseq-generate"])

    def through_a_command():
        monkeypatch.setattr(generate_cli.options, "get_generation_parser", call)
        generate_cli.cli_main()

    error = caught(through_a_command)
    try:
        hook(type(error), error, error.__traceback__)
    except SystemExit as end:
        assert end.code == 2 and not passed_on
        assert capsys.readouterr().err == f"{end}\n" and "\n" not in str(end)
        return str(end)
    assert len(passed_on) == 1
    return None


def of_fairseq(error):
    def call():
        raise error

    return call


def option():
    DecodingOptions(decoding="speculative").check()


def unsupported():
    check_supported(tiny.build_model(tiny.task(20), "nonautoregressive_transformer"))


def checkpoint(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)

    def load():
        checkpoint_utils.load_checkpoint_to_cpu(str(path))

    return load


def test_which_errors_are_told(monkeypatch, capsys, tmp_path):
    def line(call):
        return told(monkeypatch, capsys, call)

    assert line(option).startswith("fairseq-generate: --decoding speculative: unknown;")
    assert "is not autoregressive" in line(unsupported)
    assert isinstance(caught(unsupported), UnsupportedModel)
    for name, content in (
        ("empty", b""),
        ("text", b"hello\n" * 9),
        ("words", b"a b c"),
        ("half", half_of_a_zip()),
    ):
        assert f"{name}.pt: is damaged" in line(checkpoint(tmp_path, f"{name}.pt", content))
    path = tmp_path / "nothing"
    assert line(path.read_bytes).endswith(f"No such file or directory: '{path}'")
    assert "Model file not found" in line(of_fairseq(OSError("Model file not found: x.pt")))
    assert "--share-all" in line(of_fairseq(ValueError("--share-all-embeddings requires")))
    assert "--path" in line(of_fairseq(AssertionError("--path required for generation!")))


def half_of_a_zip():
    whole = io.BytesIO()
    torch.save({"model": {}}, whole)
    return whole.getvalue()[: len(whole.getvalue()) // 2]


def test_which_errors_are_not(monkeypatch, capsys):
    """Mistakes in a program are found by their tracebacks."""

    def mistake():
        prefix_lengths("no tensor", 1)

    def mistaken_value():
        # Python raises it in a line of ours: nothing there says what to do.
        with pytest.raises(ValueError):
            GenerationRules(1, 3, 2, max_len_a=math.nan).max_len(3)
        GenerationRules(1, 3, 2, max_len_a=math.nan).max_len(3)

    for call in (
        mistake,
        mistaken_value,
        of_fairseq(ValueError("fairseq's own")),
        of_fairseq(RuntimeError("shape mismatch")),
        of_fairseq(BrokenPipeError(32, "Broken pipe")),
        of_fairseq(MemoryError()),
    ):
        assert told(monkeypatch, capsys, call) is None


def test_what_the_trainer_hides(monkeypatch, capsys):
    """fairseq says of any error while it loads a checkpoint only that there was one."""

    def load():
        try:
            option()
        except Exception:
            raise Exception("Cannot load model parameters from checkpoint x.pt")

    assert "--decoding speculative" in told(monkeypatch, capsys, load)

    def load_something_else():
        try:
            {}["model"]
        except Exception:
            raise Exception("Cannot load model parameters from checkpoint x.pt")

    assert told(monkeypatch, capsys, load_something_else) is None


def test_callers_catch_what_was_raised(tmp_path):
    for kind in (ValueError, pickle.UnpicklingError):
        with pytest.raises(kind, match="empty.pt: is damaged"):
            checkpoint(tmp_path, "empty.pt", b"")()


def test_scripts_end_with_the_same_code(capsys):
    stops = pytest.raises(SystemExit, match="^benchmark.py: two lines$")
    with stops as end, errors.errors_in_one_line("benchmark.py"):
        raise ValueError("two\nlines")
    assert end.value.code == 2
    assert capsys.readouterr().err == "benchmark.py: two lines\n"


def test_closed_streams(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit, match="^no room$") as end:
        errors.end_with("no room")
    assert end.value.code == 2


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_the_code_is_the_same_where_the_disk_is_full(name, unbuffered):
    """A log on the same disk as the output: nothing can be told, and the code has to."""
    program = (
        "from fairseq_fastdec.processes import errors\n"
        "with errors.errors_in_one_line('program'):\n"
        "    print('some output')\n"
        "    raise ValueError('no room')"
    )
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program], env={**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, name: full},
        )  # fmt: skip
    assert ended.returncode == 2
    if name == "stderr":
        assert ended.stdout == b"some output\n"
    else:
        assert ended.stderr.startswith(b"program: ") and ended.stderr.count(b"\n") == 1


OVERRIDES = "--model-overrides {0}: must be a dictionary of Python"
LIMIT = "Sentences lengths should not exceed max_tokens=5; raise --max-tokens"
BATCHES = ["--max-tokens", 400]
SCHEDULE = ["--lr", 0.1, "--lr-scheduler"]
# fairseq's own checks: the command, options, and a part of the line.
CHECKS = [
    *[("generate", ["--model-overrides", text], OVERRIDES.format(text)) for text in ("{", "[1]")],
    ("generate", ["--max-tokens", 5], LIMIT),
    ("generate", ["--max-tokens", 5, "--decoding", "greedy"], LIMIT),
    (
        "generate",
        ["--max-source-positions", 5],
        "skip this example with --skip-invalid-size",
    ),
    ("generate", ["--min-len", 50, "--max-len-b", 3], "lower --min-len, or raise --max-len-a"),
    ("generate", ["--prefix-size", 200], "raise --max-len-b, or lower --prefix-size"),
    ("generate", ["--model-overrides", "{'encoder_layers': 3}"], "cannot be loaded (Missing key"),
    ("generate", ["--bpe", "subword_nmt"], "--bpe-codes: Missing mandatory value"),
    ("generate", ["--bpe", "fastbpe", "--bpe-codes", "/dev/null"], "pip install fastBPE"),
    ("generate", ["--beam", 0], "--beam 0: must be at least 1"),
    ("generate", ["--seed", -5], "--seed -5: must be from 0 to"),
    ("generate", ["--constraints"], "--constraints: binarised data have none; use interactive"),
    ("generate", ["--user-dir", "nowhere"], "--user-dir nowhere: no such directory"),
    ("interactive", ["--model-overrides", "{"], OVERRIDES.format("{")),
    ("interactive", ["--input", "long"], "skip this example with --skip-invalid-size"),
    ("interactive", ["--input", "other"], "other: not UTF-8"),
    ("validate", [], "batch size either with --max-tokens or --batch-size"),
    ("validate", ["--max-tokens", 5], LIMIT),
    ("validate", ["--max-tokens", 400, "--model-overrides", "{"], OVERRIDES.format("{")),
    ("validate", ["no path", "--max-tokens", 400], "--path: name the checkpoint"),
    ("train", [], "batch size either with --max-tokens or --batch-size"),
    ("train", ["--max-tokens", 5], LIMIT),
    ("train", ["no arch", "--max-tokens", 400], "--arch: give an architecture"),
    ("train", ["no optimizer", "--max-tokens", 400], "give one, such as --optimizer adam"),
    ("train", ["--max-tokens", 400, "--encoder-attention-heads", 5], "divisible by num_heads; ch"),
    ("train", ["--max-tokens", 400, "--eval-bleu", "--eval-bleu-args", "{"], "--eval-bleu-args {:"),
    ("train", ["--max-tokens", 400, "--update-freq", 0], "--update-freq [0]: must be at least 1"),
    ("train", ["--best-checkpoint-metric", "bleu"], "--best-checkpoint-metric bleu: must be a value"
     " that validation computes; add --eval-bleu"),
    ("train", ["--eval-bleu", "--eval-bleu-detok", "x"], "--eval-bleu-detok x: must be moses"),
    ("train", [*SCHEDULE, "inverse_sqrt", "--warmup-updates", 0], "--warmup-updates 0: must be at"),
    ("train", [*SCHEDULE, "fixed", "--warmup-updates", -1], "--warmup-updates -1: must be"),
    ("train", [*SCHEDULE, "polynomial_decay"], "--total-num-update: field"),
    ("train", [*SCHEDULE, "polynomial_decay", "--total-num-update", 0], "0: must be a number"),
    ("train", [*SCHEDULE, "triangular", "--max-lr", 1, "--lr-period-updates", 0], "0.0: must be a"),
    ("train", [*SCHEDULE, "step", "--lr-deacy-period", 0], "--lr-deacy-period 0: must be at least"),
    ("train", [*SCHEDULE, "manual", "--epoch2lr", "{"], "--epoch2lr {: must be a dictionary"),
    *[("train", ["--adam-betas", text], f"--adam-betas {text}: must be two numbers from 0 to below")
      for text in ("0.9", "(2, 3)", "{")],
    ("train", ["--dropout", 2], "--dropout 2.0: must be from 0 to 1"),
    ("train", ["--num-workers", -1], "--num-workers -1: must be at least 0"),
    *[("train", [flag, 0], f"{flag} 0: must be at least 1")
      for flag in ("--save-interval", "--validate-interval", "--log-interval",
                   "--encoder-attention-heads", "--required-batch-size-multiple")],
    *[("train", ["no save-dir", *BATCHES, "--save-dir", name], f"--save-dir {name}: cannot be wri")
      for name in ("long", "long/a", "", "/proc/a")],
]  # fmt: skip


@pytest.fixture
def line_of_our(monkeypatch, tmp_path, corpus, baseline):
    """A function that returns the line which a command of fairseq's ends with."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "long").write_text("a " * 3000 + "\n")
    (tmp_path / "other").write_text("a b\nä\n", encoding="utf-16")
    training = {"--arch": "transformer", "--optimizer": "adam", "--save-dir": tmp_path / "save"}

    def call(name, *given, data=corpus):
        options = training if name == "train" else {"--path": baseline}
        left_out = [f"--{word[3:]}" for word in given if str(word).startswith("no ")]
        words = [data, "--cpu"]
        if name == "train" and left_out != ["--arch"]:
            words += [*command_line.TINY, "--max-update", 1]
        words += [word for word in given if not str(word).startswith("no ")]
        for flag, value in options.items():
            words += [flag, value] * (flag not in left_out)
        monkeypatch.setattr(sys, "argv", sys.argv[:1])
        error = caught(lambda: front.run_fairseq(name, [*map(str, words)]))
        return errors.line_of(errors.error_of_input(error))

    return call


@pytest.mark.parametrize("name, given, expected", CHECKS)
def test_fairseqs_own_checks_are_told_in_one_line(line_of_our, name, given, expected):
    assert expected in line_of_our(name, *given)


@pytest.mark.parametrize("scheduler", ["fixed", "cosine", "inverse_sqrt"])
def test_warm_up_where_it_may_be_missing(line_of_our, scheduler):
    """Only one scheduler divides by its length; without a batch size, training does not begin."""
    given = [*SCHEDULE, scheduler, "--warmup-updates", 1 if scheduler == "inverse_sqrt" else 0]
    assert "batch size either" in line_of_our("train", *given)


def test_data_that_are_not_there(line_of_our):
    for given in ([], ["-s", "en", "-t", "de"]):
        assert "No such file or directory: 'nowhere" in line_of_our(
            "train", *BATCHES, *given, data="nowhere"
        )


def short(path):
    path.write_bytes(path.read_bytes()[:20])


def of_another_model(path):
    for language in ("en", "de"):
        path.with_name(f"dict.{language}.txt").write_text("a 1\n")


@pytest.mark.parametrize(
    "file, change, expected",
    [
        ("dict.en.txt", lambda path: path.write_text("a\n"), "Incorrect dictionary format"),
        ("dict.en.txt", lambda path: path.write_text("a 1\na 1\n"), "Duplicate word found"),
        ("dict.en.txt", lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8"),
        ("dict.en.txt", of_another_model, "cannot be loaded (size mismatch"),
        ("test.en-de.en.idx", short, "is damaged, or not binarised data"),
        ("test.en-de.en.bin", short, "is damaged, or not binarised data"),
    ],
)
def test_data_that_are_damaged_or_of_another_model(
    line_of_our, corpus, tmp_path, file, change, expected
):
    data = Path(shutil.copytree(corpus, tmp_path / "data"))
    change(data / file)
    line = line_of_our("generate", data=data)
    assert expected in line
    assert "size mismatch" in line or file.removesuffix(".idx").removesuffix(".bin") in line


def test_bucketed_lengths_with_any_numpy(corpus, baseline, monkeypatch):
    """With ``--num-batch-buckets``, fairseq calls what numpy 2 does not have."""
    options = ["--num-workers", 0, "--quiet", "--num-batch-buckets"]
    plain, bucketed = (command_line.generate(corpus, baseline, *options, n) for n in (0, 3))
    assert plain == bucketed


def test_a_plugin_is_found_by_its_name_in_any_directory(line_of_our):
    """As the README writes ``--user-dir``, also with an editable installation."""
    assert "at least 1" in line_of_our("generate", "--user-dir", "fairseq_fastdec", "--beam", 0)
