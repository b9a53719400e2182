"""Tiny models that have learnt to reverse, each trained once for all tests of a run."""

import functools

import torch

import fairseq_fastdec.criterions.random_sub_loss as sub_loss
from tests.support import tiny

TASK = tiny.task(20)
ORDERS = ("bidirectional", "l2r", "r2l")
DOUBLE_TASKS = {name: tiny.double_token_task(name) for name in ORDERS}


@functools.cache
def stock_model(seed=0, dtype=torch.float32, trained=True, **overrides):
    """A transformer trained to reverse, or a random one that seldom stops by itself."""
    model = tiny.build_model(TASK, seed=seed, **overrides)
    if trained:
        tiny.train(model, TASK, updates=150, reverse=True)
    else:
        tiny.stir(model, seed)
    return model.to(dtype)


def mean_loss(model, batch):
    """All heads' losses at once, for training them in a few seconds."""
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
    """Heads trained on top of a stock model that reverses."""
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
    return tiny.train(model, TASK, updates=60, reverse=True, loss_of=mean_loss)


@functools.cache
def double_model(name="bidirectional", dtype=torch.float64, trained=True, seed=0, **overrides):
    """A transformer trained to reverse for a while, or a random one."""
    task = DOUBLE_TASKS[name]
    model = tiny.build_model(task, "double_token_transformer", seed=seed, **overrides)
    if trained:
        tiny.train(model, task, updates=120, reverse=True)
    else:
        tiny.stir(model, seed)
    return model.to(dtype)
