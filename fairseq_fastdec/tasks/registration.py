"""``TASK_fastdec``: a task of fairseq's, or of one's own, that decodes with our methods."""

from dataclasses import make_dataclass
from typing import Type

from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask, register_task

from ..generators.options import DecodingOptions
from .fast_decoding import FastDecoding

SUFFIX = "_fastdec"


def register_fastdec(task: str) -> Type[FairseqTask]:
    """Register ``TASK_fastdec``, which is a registered task with ``--decoding`` and its options.

        register_fastdec("my_translation")

    in the package of ``--user-dir``, behind the task itself, is all that a task of one's own needs.

    Args:
        task: the name that a task of encoder-decoder models was registered with.

    Returns:
        the new task's class.

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
    return register_task(task + SUFFIX, None if options is None else _with_decoding(options))(own)


def _with_decoding(options: Type[FairseqDataclass]) -> Type[FairseqDataclass]:
    own = make_dataclass(f"{options.__name__}Fastdec", [], bases=(DecodingOptions, options))
    own.__module__ = options.__module__
    return own
