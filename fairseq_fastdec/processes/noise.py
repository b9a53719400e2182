"""Suppresses messages of fairseq, hydra and torch that users cannot act on.

Relevant warnings and the log messages of fairseq's commands are kept.
"""

import contextlib
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .errors import is_interrupt

# Third-party warnings, by message and module.
KNOWN_WARNINGS = (
    # Caused by fairseq's calls of hydra.
    ("", r"hydra\."),
    (r"\s*'config' is validated against ConfigStore schema", ""),
    # Caused by fairseq's data loading without a GPU.
    ("'pin_memory' argument is set as true but no accelerator", r"torch\.utils\.data\."),
    ("`torch.cuda.amp.* is deprecated", r"fairseq\."),
    ("__array__ implementation doesn't accept a copy keyword", r"fairseq\."),
    # Caused by fairseq's attention in training and validation.
    ("Support for mismatched key_padding_mask and attn_mask", r"torch\.nn\.functional"),
)
# The logger of fairseq's that reports an interrupt while options are composed.
COMPOSING = "fairseq.dataclass.utils"
LEVELS_OF_FAIRSEQ = (logging.DEBUG, logging.INFO)

# See at_end.
_endings: list[weakref.finalize] = []


def install() -> None:
    """Filter the known warnings; set the log level to ``LOGLEVEL``, by default INFO.

    One of fairseq's modules configures the root logger on import (with INFO in 0.12.2, DEBUG
    later), after which its commands can no longer apply ``LOGLEVEL``. So it is applied here, unless
    the logger was configured by other code.
    """
    for message, module in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message, module=module)
    logging.getLogger(COMPOSING).addFilter(_is_no_interrupt)
    root = logging.getLogger()
    was_set_by_fairseq = [type(handler) for handler in root.handlers] == [logging.StreamHandler]
    if "fairseq" in sys.modules and root.level in LEVELS_OF_FAIRSEQ and was_set_by_fairseq:
        root.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())


def _is_no_interrupt(_: logging.LogRecord) -> bool:
    """Whether the message is not about Ctrl-C, which is reported in one line of our own."""
    return not is_interrupt(sys.exc_info()[1])


@contextlib.contextmanager
def imports_unheard() -> Iterator[None]:
    """Silence imports of fairseq's modules that configure logging and emit warnings.

    The root logger is restored afterwards.
    """
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.setLevel(level)
        root.handlers[:] = handlers


def at_end(owner: Any, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function when its owner is deleted, or at the end of :func:`results_only`.

    At the end of a command, many objects are in reference cycles with the frames of omegaconf's
    errors. Collecting them would take five seconds if one is an iterator of torch whose workers
    have not ended, as with ``--decoding fairseq``.
    """
    _endings[:] = [ending for ending in _endings if ending.alive]
    _endings.append(weakref.finalize(owner, function, *arguments))


@contextlib.contextmanager
def results_only(level: int = logging.INFO) -> Iterator[None]:
    """Log warnings and this package's messages to standard error, but not fairseq's.

    fairseq's loggers stay enabled, since some of them also write to files. If logging is already
    configured, nothing changes.

    Args:
        level: the level for this package's messages.
    """
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler, level_before = logging.StreamHandler(), root.level
    earlier = set(_endings)

    def is_for_the_user(record: logging.LogRecord) -> bool:
        is_ours = record.name.startswith("fairseq_fastdec")
        return record.levelno >= (level if is_ours else logging.WARNING)

    handler.addFilter(is_for_the_user)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        for ending in _endings:
            if ending not in earlier:
                ending()
        root.setLevel(level_before)
        root.removeHandler(handler)
