"""Tiny models trained to reverse, each trained once per test run."""

import functools

import torch

import fairseq_fastdec.criterions.random_sub_loss as sub_loss
from tests.support import made_once, tiny

TASK = tiny.task(20)
ORDERS = ("bidirectional", "l2r", "r2l")
DOUBLE_TASKS = {name: tiny.double_token_task(name) for name in ORDERS}


def taught(model, task, *names, **training):
    """Train a model to reverse, or load it if another process of the run has trained it.

    Args:
        names: what distinguishes the model from others.
        training: arguments of :func:`tiny.train`.
    """

    def train(directory):
        tiny.train(model, task, reverse=True, **training)
        torch.save(model.state_dict(), directory / "model.pt")

    directory = made_once.in_run(" ".join(str(name) for name in names), train)
    model.load_state_dict(torch.load(directory / "model.pt", weights_only=True))
    return model.eval()


@functools.cache
def stock_model(seed=0, dtype=torch.float32, trained=True, **overrides):
    """A transformer trained to reverse, or a random one, whose outputs rarely end early."""
    model = tiny.build_model(TASK, seed=seed, **overrides)
    if trained:
        taught(model, TASK, "stock", seed, overrides, updates=150)
    else:
        tiny.stir(model, seed)
    return model.to(dtype)


def mean_loss(model, batch):
    """The mean loss of all heads, for fast training."""
    criterion = sub_loss.RandomSubLoss(TASK, label_smoothing=0.0, sub_loss="mean", seed=1)
    batch = {**batch, "ntokens": 1}
    loss, sample_size, _ = criterion(model, batch)
    return loss / sample_size


@functools.cache
def blockwise_model(
    identity_first_head=True,
    freeze_base=True,
    block_ffn="shared",
    seed=0,
    block_heads="parallel",
    block_output_rank=None,
):
    """A blockwise model with heads trained on a stock model that reverses."""
    model = tiny.build_model(
        TASK,
        "blockwise_transformer",
        seed=seed,
        identity_first_head=identity_first_head,
        freeze_base=freeze_base,
        block_ffn=block_ffn,
        block_heads=block_heads,
        block_output_rank=block_output_rank,
        block_size=4,
    )
    model.load_state_dict(dict(stock_model(seed).state_dict()))
    own = (identity_first_head, freeze_base, block_ffn, seed, block_heads, block_output_rank)
    return taught(model, TASK, "blockwise", *own, updates=60, loss_of=mean_loss)


@functools.cache
def double_model(name="bidirectional", dtype=torch.float64, trained=True, seed=0, **overrides):
    """A double-token transformer trained to reverse, or a random one."""
    task = DOUBLE_TASKS[name]
    model = tiny.build_model(task, "double_token_transformer", seed=seed, **overrides)
    if trained:
        taught(model, task, "double", name, seed, overrides, updates=120)
    else:
        tiny.stir(model, seed)
    return model.to(dtype)
