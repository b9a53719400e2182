"""Registers tasks with fast decoding in place of existing tasks."""

from dataclasses import make_dataclass
from typing import NamedTuple, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask

from ..decoding.options import DecodingOptions, store_config
from .fast_decoding import FastDecoding


class Stock(NamedTuple):
    """A task as registered before :func:`take_over`.

    Attributes:
        options: its dataclass; ``None`` for a task with the classic argument parser.
    """

    task: type[FairseqTask]
    options: Optional[type[FairseqDataclass]]


# The original tasks that were replaced, by name.
STOCK: dict[str, Stock] = {}


def register_fastdec(task: str) -> type[FairseqTask]:
    """Add ``--decoding`` and its options to a registered task.

        register_fastdec("my_translation")

    Call this in the package of ``--user-dir`` after the task itself is registered. With the
    default, ``--decoding fairseq``, the task is unchanged.

    Args:
        task: the name of a registered task with encoder-decoder models.

    Returns:
        the new class, a subclass of the task's class

    Raises:
        ValueError: for an unknown task.
    """
    if task not in TASK_REGISTRY:
        raise ValueError(f"register_fastdec({task!r}): there is no such task; register it first")
    stock = TASK_REGISTRY[task]
    extended = type(
        f"{stock.__name__}Fastdec",
        (FastDecoding, stock),
        {"__doc__": f"``{task}`` with ``--decoding``.", "__module__": stock.__module__},
    )
    options = TASK_DATACLASS_REGISTRY.get(task)
    take_over(task, extended, None if options is None else _with_decoding(options))
    return extended


def take_over(
    name: str, replacement: type[FairseqTask], options: Optional[type[FairseqDataclass]]
) -> None:
    """Make ``--task name``, checkpoints and configurations with that name use another class.

    Args:
        replacement: a subclass of the task with that name.
        options: its dataclass; ``None`` for a task with the classic argument parser.
    """
    STOCK[name] = Stock(TASK_REGISTRY[name], TASK_DATACLASS_REGISTRY.get(name))
    TASK_REGISTRY[name] = replacement
    setattr(replacement, "__dataclass", options)  # as fairseq's register_task does
    if options is not None:
        TASK_DATACLASS_REGISTRY[name] = options
        store_config(name, options)


def _with_decoding(options: type[FairseqDataclass]) -> type[FairseqDataclass]:
    extended = make_dataclass(f"{options.__name__}Fastdec", [], bases=(DecodingOptions, options))
    extended.__module__ = options.__module__
    return extended
