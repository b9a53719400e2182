"""``average-checkpoints`` on small files, and on checkpoints of fairseq-train."""

import argparse
import contextlib
import os
from collections import OrderedDict
from pathlib import Path

import numpy
import pytest
import torch

from fairseq_fastdec.tools import average_checkpoints
from tests.support.command_line import generate, hypotheses, train
from tests.support.malicious import Malicious


def checkpoint(path, model, updates=1, task_state=None):
    """A file with all that fairseq-train writes."""
    state = {
        "args": None,
        "cfg": {"model": argparse.Namespace(arch="transformer"), "note": path.name},
        "model": OrderedDict(model),
        "optimizer_history": [{"num_updates": updates, "optimizer_name": "FairseqAdam"}],
        "task_state": task_state or {},
        "extra_state": {"val_loss": numpy.float64(updates)},
        "last_optimizer_state": {"state": {0: torch.ones(3)}},
    }
    torch.save(state, path)
    return path


def random_model(seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return {
        "weight": torch.randn(4, 3, generator=generator).to(dtype),
        "bias": 1e4 * torch.randn(3, generator=generator).to(dtype),
        "table": torch.arange(5),
    }


@pytest.fixture
def average(tmp_path):
    """A function that runs the script; it returns the checkpoint that was written."""

    def run(*arguments):
        output = tmp_path / "averaged.pt"
        words = ["--inputs", *arguments, "--output", output]
        average_checkpoints.main([str(word) for word in words])
        assert list(tmp_path.glob("*.partial")) == []
        return torch.load(output, weights_only=True)

    return run


@pytest.fixture
def error_of(average):
    """A function that runs the script, which has to fail, and returns its message."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stopped:
            average(*arguments)
        return str(stopped.value)

    return run


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_means_are_exact_and_keep_their_type(tmp_path, average, dtype):
    """Rounded once, from the exact mean; sums of these float16 biases overflow."""
    models = [random_model(seed, dtype) for seed in range(7)]
    paths = [checkpoint(tmp_path / f"{i}.pt", model) for i, model in enumerate(models)]
    averaged = average(*paths)["model"]
    for key in ("weight", "bias"):
        exact = numpy.mean([model[key].double().numpy() for model in models], axis=0)
        assert averaged[key].dtype == dtype
        torch.testing.assert_close(
            averaged[key],
            torch.from_numpy(exact).to(dtype),
            rtol=1e-15 if dtype == torch.float64 else 0,
            atol=0,
        )
    assert averaged["table"].tolist() == [0, 1, 2, 3, 4]
    assert list(averaged) == list(models[0])


def test_what_is_not_averaged_is_of_the_last_update(tmp_path, average):
    paths = [
        checkpoint(tmp_path / f"{updates}.pt", random_model(updates), updates)
        for updates in (20, 30, 10)
    ]
    averaged = average(*paths)
    assert averaged["cfg"]["note"] == "30.pt"
    assert averaged["cfg"]["model"].arch == "transformer"
    assert averaged["extra_state"]["val_loss"] == 30
    assert averaged["optimizer_history"][-1]["num_updates"] == 30
    assert "last_optimizer_state" not in averaged


def test_one_checkpoint_stays_as_it_is(tmp_path, average):
    model = random_model(0, torch.float16)
    averaged = average(checkpoint(tmp_path / "one.pt", model))["model"]
    assert all(torch.equal(averaged[key], value) for key, value in model.items())


def test_tied_parameters_stay_tied_and_others_apart(tmp_path, average):
    paths = []
    for seed in range(2):
        weight = torch.full((3, 2), float(seed))
        apart = weight if seed else torch.full((3, 2), 9.0)
        model = {"embedding": weight, "output": weight, "apart": apart}
        paths.append(checkpoint(tmp_path / f"{seed}.pt", model, updates=seed))
    averaged = average(*paths)["model"]
    assert averaged["embedding"].data_ptr() == averaged["output"].data_ptr()
    assert averaged["output"].tolist() == [[0.5, 0.5]] * 3
    assert averaged["apart"].tolist() == [[5.0, 5.0]] * 3


def test_counters_are_those_of_the_last_update(tmp_path, average):
    paths = [
        checkpoint(
            tmp_path / f"{n}.pt", {"norm.num_batches_tracked": torch.tensor(n)}, updates=n
        )
        for n in (8, 5)
    ]  # fmt: skip
    assert average(*paths)["model"]["norm.num_batches_tracked"] == 8


# --- which files ---------------------------------------------------------------------------------


@pytest.fixture
def training(tmp_path):
    """A directory as fairseq-train leaves it; each checkpoint's weight is its number."""
    directory = tmp_path / "training"
    directory.mkdir()
    names = [f"checkpoint{epoch}.pt" for epoch in (1, 2, 9, 10)]
    names += [f"checkpoint_1_{update}.pt" for update in (80, 90)]
    names += [f"checkpoint_2_{update}.pt" for update in (100, 110)]
    for name in names:
        number = float(name[:-3].replace("checkpoint", "").split("_")[-1])
        checkpoint(directory / name, {"weight": torch.tensor([number])}, updates=int(number))
    for name in ("checkpoint_best.pt", "checkpoint_last.pt", "checkpoint.best_loss_3.14.pt"):
        checkpoint(directory / name, {"weight": torch.tensor([1e6])})
    return directory


@pytest.mark.parametrize(
    "options, numbers",
    [
        (("--num-epoch-checkpoints", 2), (9, 10)),
        (("--num-epoch-checkpoints", 2, "--checkpoint-upper-bound", 9), (2, 9)),
        (("--num-epoch-checkpoints", 1, "--checkpoint-upper-bound", 5), (2,)),
        (("--num-update-checkpoints", 3), (90, 100, 110)),
        (("--num-update-checkpoints", 2, "--checkpoint-upper-bound", 100), (90, 100)),
    ],
)
def test_the_last_of_a_training(training, average, options, numbers):
    assert average(training, *options)["model"]["weight"].item() == sum(numbers) / len(numbers)


def test_too_few_checkpoints(training, error_of):
    message = error_of(training, "--num-epoch-checkpoints", 3, "--checkpoint-upper-bound", 9 - 1)
    assert "3 checkpoints wanted, but 2 found (checkpoint1.pt, checkpoint2.pt)" in message
    assert "found (none)" in error_of(training.parent, "--num-update-checkpoints", 1)


def test_options_that_do_not_go_together(training, error_of, capsys):
    one = training / "checkpoint1.pt"
    assert "--num-epoch-checkpoints or --num-update" in error_of(training)
    assert "files in one directory" in error_of(one, "--num-epoch-checkpoints", 1)
    assert "files in one directory" in error_of(training, one, "--num-update-checkpoints", 1)
    assert "nowhere.pt" in error_of(one, training / "nowhere.pt")
    error_of(one, "--checkpoint-upper-bound", 3)
    assert "--checkpoint-upper-bound: needs" in capsys.readouterr().err
    error_of(training, "--num-epoch-checkpoints", 0)
    assert "0: must be a whole number of at least 1" in capsys.readouterr().err


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, task_state, complaint",
    [
        ({"more": torch.ones(1)}, {}, "more"),
        ({"bias": torch.ones(4)}, {}, r"bias is ((4,), torch.float32), not ((3,), torch.float32)"),
        ({"bias": torch.ones(3).half()}, {}, "torch.float16"),
        ({"table": torch.arange(5) + 1}, {}, "table"),
        ({}, {"token_order": "r2l", "tokens_per_step": 1}, "--token-order r2l"),
        ({}, {"token_order": "bidirectional", "tokens_per_step": 2}, "--tokens-per-step 2"),
    ],
)
def test_checkpoints_that_do_not_go_together(tmp_path, error_of, change, task_state, complaint):
    good = [checkpoint(tmp_path / f"{i}.pt", random_model(i)) for i in range(2)]
    bad = checkpoint(tmp_path / "bad.pt", {**random_model(2), **change}, 1, task_state)
    message = error_of(*good, bad)
    assert "bad.pt: does not go with" in message and complaint in message
    assert "0.pt: does not go with" in error_of(bad, *good)
    assert not (tmp_path / "averaged.pt").exists()


def test_a_missing_parameter(tmp_path, error_of):
    whole = checkpoint(tmp_path / "whole.pt", random_model(0))
    part = checkpoint(tmp_path / "part.pt", {"weight": random_model(0)["weight"]})
    assert "part.pt" in error_of(whole, part) and "bias" in error_of(whole, part)


def test_files_that_are_no_checkpoints(tmp_path, error_of):
    (tmp_path / "text.pt").write_text("nothing")
    (tmp_path / "empty.pt").touch()
    torch.save({"model": {"weight": "heavy"}}, tmp_path / "words.pt")
    torch.save([torch.ones(3)], tmp_path / "list.pt")
    cut = checkpoint(tmp_path / "cut.pt", random_model(0))
    cut.write_bytes(cut.read_bytes()[:-100])
    (tmp_path / "letters.pt").write_text("a b c")
    (tmp_path / "word.pt").write_text("run")
    for name in ("text", "empty", "cut", "letters", "word"):
        message = error_of(tmp_path / f"{name}.pt")
        assert f"{name}.pt: is damaged, or not a checkpoint" in message
        assert "weights_only" not in message
    for name in ("words", "list"):
        assert f"{name}.pt: is not a checkpoint" in error_of(tmp_path / f"{name}.pt")


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_malicious_checkpoint_is_refused_and_runs_nothing(tmp_path, error_of, legacy):
    trace = tmp_path / "was-here"
    state = {"model": {}, "extra_state": Malicious(f"touch {trace}")}
    torch.save(state, tmp_path / "evil.pt", _use_new_zipfile_serialization=not legacy)
    message = error_of(tmp_path / "evil.pt")
    assert "evil.pt: contains " in message and "system, which" in message
    assert not trace.exists()


def test_an_output_without_a_directory(tmp_path, capsys):
    path = checkpoint(tmp_path / "0.pt", random_model(0))
    with pytest.raises(SystemExit, match="--output .*a.pt: there is no directory"):
        average_checkpoints.main(
            ["--inputs", str(path), "--output", str(tmp_path / "new" / "a.pt")]
        )
    assert "averaging" not in capsys.readouterr().out


def test_a_full_disk(tmp_path, monkeypatch):
    full = contextlib.nullcontext(Path("/dev/full"))
    monkeypatch.setattr(average_checkpoints, "replacing", lambda path: full)
    with pytest.raises(OSError, match="No space left"):
        average_checkpoints.write({"weight": torch.ones(10**6)}, tmp_path / "averaged.pt")


def test_what_was_there_stays_if_writing_fails(tmp_path, average, monkeypatch):
    path = checkpoint(tmp_path / "0.pt", random_model(0))
    (tmp_path / "averaged.pt").write_bytes(b"before")

    def fail(state, target):
        target.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(SystemExit, match="disk full"):
        average(path)
    assert (tmp_path / "averaged.pt").read_bytes() == b"before"
    assert sorted(os.listdir(tmp_path)) == ["0.pt", "averaged.pt"]


# --- with fairseq --------------------------------------------------------------------------------


def test_fairseq_decodes_and_trains_on(corpus, tmp_path, average, caplog):
    flags = ("--task", "translation_double_token", "--token-order", "r2l")
    model = (*flags, "--arch", "double_token_transformer")
    folder = tmp_path / "trained"
    train(
        corpus, folder, *model, "--save-interval-updates", 7, "--disable-validation",
        updates=60,
    )  # fmt: skip
    averaged = average(folder, "--num-update-checkpoints", 3)
    assert averaged["task_state"] == {"token_order": "r2l", "tokens_per_step": 2}
    path = tmp_path / "averaged.pt"
    found = hypotheses(generate(corpus, path, *flags))
    assert sorted(found) == list(range(29)) and any(found.values())
    for flag in (
        ("--finetune-from-model", path),
        ("--restore-file", path, "--reset-optimizer", "--reset-dataloader"),
    ):
        with caplog.at_level("INFO"):
            train(corpus, tmp_path / flag[0], *model, *flag, "--no-save", updates=61)
        assert f"Loaded checkpoint {path}" in caplog.text
        caplog.clear()
