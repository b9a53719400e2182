"""Every option of training, through fairseq-train itself, until the end of the training."""

import argparse
import logging
import re
from dataclasses import fields

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationConfig

from fairseq_fastdec.criterions.random_sub_loss import RandomSubLossConfig
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.models.blockwise_transformer import BlockwiseTransformerModel
from fairseq_fastdec.processes.errors import flag_of
from fairseq_fastdec.tasks.translation_double_token import TranslationDoubleTokenConfig
from tests.support import command_line, forked

HEADS = [
    "--arch", "blockwise_transformer", "--criterion", "random_sub_loss", "--block-size", "6",
]  # fmt: skip
SPLIT = ["--block-ffn", "split", "--block-ffn-embed-dim", "16"]
FROZEN = ["--identity-first-head", "--freeze-base"]
SEQUENTIAL = ["--block-heads", "sequential", "--identity-first-head", "--block-output-rank", "8"]
BY_POSITION = ["--sub-loss", "random-position"]
MARIAN = [
    "--output-bias", "--first-input", "pad", "--sinusoids", "marian", "--norm-epsilon", "1e-6",
    "--activation-fn", "swish",
]  # fmt: skip
SSRU = [
    "--decoder-autoreg", "ssru", "--no-final-norms", "--encoder-normalize-before",
    "--decoder-normalize-before",
]  # fmt: skip
DOUBLE = [
    "--task", "translation_double_token", "--criterion", "label_smoothed_cross_entropy",
    "--label-smoothing", "0.1",
]  # fmt: skip
DOUBLE_ARCH = ["--arch", "double_token_transformer"]
EVERY_BLEU = ["--eval-bleu", "--eval-bleu-print-samples", "--validate-interval-updates", "5"]
BASE = "BASE"  # replaced with a trained checkpoint
FINETUNED = ["--finetune-from-model", BASE]

CASES = {
    "the paper": HEADS,
    "one head": ["--arch", "blockwise_transformer", "--criterion", "random_sub_loss"]
    + ["--block-size", "1"],
    "frozen": [*HEADS, *FROZEN, *FINETUNED, "--label-smoothing", "0.1"],
    "split": [*HEADS, *SPLIT, "--head-decay", "0.5", "--update-freq", "2"],
    "split, frozen": [*HEADS, *SPLIT, *FROZEN, *FINETUNED, "--sentence-avg"],
    "identity, prefix": [*HEADS, "--identity-first-head", "--ignore-prefix-size", "3"],
    "frozen, learned p_1": [*HEADS, "--freeze-base", *FINETUNED],
    "sequential": [*HEADS, *SEQUENTIAL, "--freeze-base", *FINETUNED],
    "by position": [*HEADS, *BY_POSITION, "--heads-per-position", "2", "--ignore-prefix-size", "3"],
    "sequential, by position": [*HEADS, *SEQUENTIAL, *BY_POSITION, "--head-targets", "base"],
    "mean": [*HEADS, "--sub-loss", "mean", "--update-freq", "2", "--sentence-avg"],
    "bleu": [*HEADS, *FROZEN, *FINETUNED, *EVERY_BLEU, "--decoding", "blockwise"]
    + ["--best-checkpoint-metric", "tokens_per_invocation"]
    + ["--maximize-best-checkpoint-metric", "--save-interval-updates", "5"],
    "heads with the options of Marian": [*HEADS, *MARIAN, *SSRU],
    "Marian, autocast": ["--arch", "marian_transformer", "--cpu-autocast", "--update-freq", "2"]
    + ["--criterion", "label_smoothed_cross_entropy"],
    "autocast": [*HEADS, "--cpu-autocast", "--update-freq", "2"],
    "double-token": [*DOUBLE, *DOUBLE_ARCH, *EVERY_BLEU],
    "double-token, l2r": [*DOUBLE, *DOUBLE_ARCH, "--token-order", "l2r", "--update-freq", "2"],
    "double-token, r2l, autocast": [*DOUBLE, *DOUBLE_ARCH, "--token-order", "r2l"]
    + ["--cpu-autocast", *FINETUNED],
    "single-token, r2l": [*DOUBLE, "--arch", "transformer", "--token-order", "r2l"]
    + ["--tokens-per-step", "1", *EVERY_BLEU],
}  # fmt: skip


def trained(corpus, baseline, directory, options, *more, updates=25):
    """Train until the end; return the number of updates that the checkpoint has."""
    given = [baseline if option == BASE else option for option in options]
    command_line.train(corpus, directory, *given, *more, updates=updates)
    state = torch.load(directory / "checkpoint_last.pt", weights_only=True)
    return state["optimizer_history"][-1]["num_updates"]


@pytest.mark.parametrize("case", CASES)
def test_a_training_ends(corpus, baseline, tmp_path, caplog, case):
    """It logs single updates, which have few heads, and epochs of some ten updates."""
    caplog.set_level(logging.INFO)
    assert trained(corpus, baseline, tmp_path, CASES[case], "--log-interval", "1") == 25
    assert len(re.findall(r" epoch \d+ \| loss", caplog.text)) > 1
    losses = re.findall(r"\bloss[= ]([-\w.]+)", caplog.text)
    values = [float(loss) for loss in losses if loss != "None"]
    assert len(values) > len(losses) / 2
    assert all(0 < value < 100 for value in values)


@pytest.mark.parametrize("case", ["the paper", "by position", "double-token"])
def test_a_resumed_training_gives_the_same_model(corpus, baseline, tmp_path, case):
    """It is resumed in the middle of the first two epochs, in which a head may not be drawn."""
    options = [*CASES[case], "--log-interval", "3"]
    for updates in (7, 13, 25):
        done = trained(corpus, baseline, tmp_path / "resumed", options, updates=updates)
        assert done == updates
    trained(corpus, baseline, tmp_path / "whole", options)
    expected, found = (
        torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True)["model"]
        for name in ("whole", "resumed")
    )
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


HALF = {
    "no flat gradients": ["--fp16", "--fp16-no-flatten-grads"],
    "memory-efficient": ["--memory-efficient-fp16"],
}


@pytest.mark.parametrize("precision", HALF)
@pytest.mark.parametrize("case", ["the paper", "sequential, by position", "double-token"])
def test_half_precision(corpus, baseline, tmp_path, case, precision):
    assert trained(corpus, baseline, tmp_path, CASES[case], *HALF[precision]) == 25


@pytest.mark.parametrize("flag", ["--fp16", "--bf16", "--tpu", "--memory-efficient-bf16"])
def test_half_precision_that_needs_a_gpu(corpus, baseline, tmp_path, monkeypatch, flag):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"^--(fp16|bf16|tpu): .*needs .*--cpu-autocast"):
        trained(corpus, baseline, tmp_path, CASES["the paper"], flag)


def test_half_precision_without_a_meaning(corpus, baseline, tmp_path):
    with pytest.raises(ValueError, match="^--cpu-autocast: the model is in float16; remove --fp16"):
        trained(corpus, baseline, tmp_path, CASES["autocast"], "--memory-efficient-fp16")


def of_a_worker(rank, corpus, baseline, parent):
    """One of two workers; both save in one directory, as in fairseq."""
    for case in ("the paper", "by position", "split, frozen", "double-token"):
        directory = parent / case
        trained(
            corpus, baseline, directory, CASES[case], "--distributed-no-spawn",
            "--distributed-init-method", f"file://{parent}/store",
            "--distributed-rank", rank, "--distributed-world-size", 2,
            "--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--log-interval", "1",
        )  # fmt: skip
    torch.distributed.destroy_process_group()


def test_two_workers(corpus, baseline, tmp_path):
    torch.multiprocessing.start_processes(
        of_a_worker, (corpus, baseline, tmp_path), nprocs=2, start_method=forked.METHOD
    )
    assert len(list(tmp_path.glob("*/checkpoint_last.pt"))) == 4


def test_every_option_of_training_is_in_a_case():
    options = {flag for case in CASES.values() for flag in case if flag.startswith("--")}
    ours = argparse.ArgumentParser()
    BlockwiseTransformerModel.add_args(ours)
    stock = argparse.ArgumentParser()
    TransformerModel.add_args(stock)
    added = set(ours._option_string_actions) - set(stock._option_string_actions)
    configs = (RandomSubLossConfig, TranslationDoubleTokenConfig)
    inherited = {
        field.name for config in (DecodingOptions, TranslationConfig) for field in fields(config)
    }
    added |= {
        flag_of(field.name)
        for config in configs
        for field in fields(config)
        if field.name not in inherited | {"seed"}
    }
    assert len(added) > 12
    assert added <= options
