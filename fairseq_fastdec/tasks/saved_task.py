"""Saves checkpoints with the names and options of stock tasks, so that fairseq can load them.

The plugin's options are for decoding or for a single training run, so checkpoints do not need them.
:func:`install` makes fairseq-train save only the options of the stock task.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

from fairseq.trainer import Trainer

from ..decoding.options import DecodingOptions
from ..fairseq_patches.compat import current_task
from ..fairseq_patches.wrapping import wrap
from .registration import STOCK


def install() -> None:
    """Make fairseq-train save the stock task's name and options."""
    wrap(Trainer, "state_dict", _with_stock_task)


def _with_stock_task(state_dict: Callable, trainer: Any) -> dict[str, Any]:
    state = state_dict(trainer)
    cfg = state.get("cfg")
    if isinstance(cfg, dict) and "task" in cfg:
        state["cfg"] = {**cfg, "task": stock_task(cfg["task"])}
    return state


def stock_task(options: Any) -> Any:
    """The options of the replaced stock task; options of other tasks are returned unchanged.

    Args:
        options: the task's options as a dict; a namespace for tasks without a dataclass.
    """
    is_namespace = isinstance(options, Namespace)
    values = vars(options) if is_namespace else options
    key = "task" if is_namespace else "_name"
    stock = current_task(str(values.get(key)))
    if stock not in STOCK:
        return options
    if is_namespace:
        added = {option.name for option in fields(DecodingOptions)}
        kept = {name: value for name, value in values.items() if name not in added}
        return Namespace(**{**kept, key: stock})
    known = {option.name for option in fields(cast(Any, STOCK[stock].options))}
    return {name: value for name, value in values.items() if name in known} | {key: stock}
