"""Checkpoints hold the options of fairseq's own tasks, so that fairseq's own can load them.

What the plugin adds to a task is for decoding or for one training, and commands give it again. A
checkpoint that named ``translation_fastdec`` failed without this plugin: "Could not infer task
type". So :func:`install` has fairseq-train save ``translation`` and the options that it has there.
"""

import functools
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from fairseq.trainer import Trainer

from ..decoding.options import DecodingOptions
from .registration import STOCK, SUFFIX


def install() -> None:
    """Have fairseq-train save the stock task's name and options."""
    if not hasattr(Trainer.state_dict, "__wrapped__"):
        Trainer.state_dict = _with_stock_task(Trainer.state_dict)


def _with_stock_task(state_dict: Callable) -> Callable:
    @functools.wraps(state_dict)
    def state_with_stock_task(trainer: Any) -> dict[str, Any]:
        state = state_dict(trainer)
        cfg = state.get("cfg")
        if isinstance(cfg, dict) and "task" in cfg:
            state["cfg"] = {**cfg, "task": stock_task(cfg["task"])}
        return state

    return state_with_stock_task


def stock_task(options: Any) -> Any:
    """The options of the task that ours has taken the place of; other tasks' as they are.

    Args:
        options: of a task, by name; a namespace for tasks without a dataclass.
    """
    is_namespace = isinstance(options, Namespace)
    values = vars(options) if is_namespace else options
    key = "task" if is_namespace else "_name"
    name = str(values.get(key))
    stock = name[: -len(SUFFIX)] if name.endswith(SUFFIX) else name
    if stock not in STOCK:
        return options
    if is_namespace:
        added = {option.name for option in fields(DecodingOptions)}
        kept = {name: value for name, value in values.items() if name not in added}
        return Namespace(**{**kept, key: stock})
    known = {option.name for option in fields(cast(Any, STOCK[stock].options))}
    return {name: value for name, value in values.items() if name in known} | {key: stock}
