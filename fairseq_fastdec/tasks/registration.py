"""Tasks of fairseq's, or of one's own, that decode with our methods under their own names."""

from dataclasses import make_dataclass
from typing import NamedTuple, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask, register_task

from ..decoding.options import DecodingOptions, store_config
from .fast_decoding import FastDecoding

SUFFIX = "_fastdec"


class Stock(NamedTuple):
    """A task as it was registered before :func:`take_over`.

    Attributes:
        options: its dataclass; ``None`` for a task with the classic argument parser.
    """

    task: type[FairseqTask]
    options: Optional[type[FairseqDataclass]]


# By name, the tasks that ours have taken the places of.
STOCK: dict[str, Stock] = {}


def register_fastdec(task: str) -> type[FairseqTask]:
    """Give a registered task ``--decoding`` and its options.

        register_fastdec("my_translation")

    in the package of ``--user-dir``, behind the task itself, is all that a task of one's own needs.
    With the default, ``--decoding fairseq``, everything is the task's own. The task is registered
    as ``my_translation_fastdec``, too.

    Args:
        task: the name that a task of encoder-decoder models was registered with.

    Returns:
        the new class, a subclass of the task's.

    Raises:
        ValueError: for a name that no task has.
    """
    if task not in TASK_REGISTRY:
        raise ValueError(f"register_fastdec({task!r}): there is no such task; register it before")
    stock = TASK_REGISTRY[task]
    own = type(
        f"{stock.__name__}Fastdec",
        (FastDecoding, stock),
        {"__doc__": f"``{task}`` with ``--decoding``.", "__module__": stock.__module__},
    )
    options = TASK_DATACLASS_REGISTRY.get(task)
    register_task(task + SUFFIX, None if options is None else _with_decoding(options))(own)
    take_over(task, own)
    return own


def take_over(name: str, own: type[FairseqTask]) -> None:
    """Let ``--task name``, checkpoints and configurations of that name mean our task.

    Args:
        own: a subclass of the task that has the name; registered under another one.
    """
    options = getattr(own, "__dataclass")
    STOCK[name] = Stock(TASK_REGISTRY[name], TASK_DATACLASS_REGISTRY.get(name))
    TASK_REGISTRY[name] = own
    if options is not None:
        TASK_DATACLASS_REGISTRY[name] = options
        store_config(name, options)


def _with_decoding(options: type[FairseqDataclass]) -> type[FairseqDataclass]:
    own = make_dataclass(f"{options.__name__}Fastdec", [], bases=(DecodingOptions, options))
    own.__module__ = options.__module__
    return own
