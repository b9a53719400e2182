"""Messages of fairseq, hydra and torch that no user can act on stay off the screen.

True warnings stay, and so does what fairseq's commands log themselves.
"""

import contextlib
import gc
import logging
import os
import sys
import warnings
from collections.abc import Iterator

# Warnings of others about others, by message and by the module that they name.
KNOWN_WARNINGS = (
    # fairseq calls hydra so.
    ("", r"hydra\."),
    (r"\s*'config' is validated against ConfigStore schema", ""),
    # fairseq loads batches so where there is no GPU.
    ("'pin_memory' argument is set as true but no accelerator", r"torch\.utils\.data\."),
    ("`torch.cuda.amp.* is deprecated", r"fairseq\."),
    ("__array__ implementation doesn't accept a copy keyword", r"fairseq\."),
    # fairseq's layers call torch's attention so in training and validation.
    ("Support for mismatched key_padding_mask and attn_mask", r"torch\.nn\.functional"),
)
LEVELS_OF_FAIRSEQ = (logging.DEBUG, logging.INFO)


def install() -> None:
    """Filter the known warnings; log at the level of ``LOGLEVEL``, or at INFO.

    One of fairseq's modules sets the root logger up when it is imported (in 0.12.2 to INFO, then to
    DEBUG), and its commands do not get to set the level that ``LOGLEVEL`` names any more. So this
    sets it, unless somebody else has set the logger up.
    """
    for message, module in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message, module=module)
    root = logging.getLogger()
    was_set_by_fairseq = [type(handler) for handler in root.handlers] == [logging.StreamHandler]
    if "fairseq" in sys.modules and root.level in LEVELS_OF_FAIRSEQ and was_set_by_fairseq:
        root.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())


@contextlib.contextmanager
def imports_unheard() -> Iterator[None]:
    """Import modules of fairseq that set up logging, and warn, when they are imported.

    Afterwards the root logger is as it was before.
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


@contextlib.contextmanager
def results_only(level: int = logging.INFO) -> Iterator[None]:
    """Log warnings and our own lines to standard error, but not what fairseq does.

    fairseq's loggers stay open, since some of them also write to files. Where logging has been set
    up already, it stays as it is.

    Args:
        level: of our own lines.
    """
    root = logging.getLogger()
    if root.handlers:
        yield
        return
    handler, level_before = logging.StreamHandler(), root.level

    def is_for_the_user(record: logging.LogRecord) -> bool:
        is_ours = record.name.startswith("fairseq_fastdec")
        return record.levelno >= (level if is_ours else logging.WARNING)

    handler.addFilter(is_for_the_user)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        # Generators log their summary when they go, and some are parts of cycles.
        gc.collect()
        root.setLevel(level_before)
        root.removeHandler(handler)
