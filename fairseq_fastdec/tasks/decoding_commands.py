"""Detects fairseq's commands that only decode."""

import logging
import os
import sys
from types import FrameType
from typing import Any, Optional

logger = logging.getLogger(__name__)

# These load models, build one generator, decode and exit.
DECODING_COMMANDS = ("generate.py", "interactive.py")


def is_decoding_command() -> bool:
    """Whether fairseq-generate or fairseq-interactive is on the call stack.

    They build generators in the same way as the hub interface and ``--eval-bleu``, which continue
    to use the models; only the call stack differs.
    """
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        folder, name = os.path.split(frame.f_code.co_filename)
        if name in DECODING_COMMANDS and os.path.basename(folder) == "fairseq_cli":
            return True
        frame = frame.f_back
    return False


def warn_of_beam(beam: int, method: str) -> None:
    """Warn that an explicit ``--beam`` has no effect in a method with one hypothesis.

    Such methods only accept 1 and 5, fairseq's default.
    """
    is_given = any(argument.split("=")[0] == "--beam" for argument in sys.argv[1:])
    if beam > 1 and is_given and is_decoding_command():
        logger.warning(
            "--beam %d: has no effect, since --decoding %s keeps one hypothesis; remove it, or use "
            "--decoding beam",
            beam,
            method,
        )


def warn_of_shards(generation: Any) -> None:
    """Warn that ``--num-shards`` has no effect, since fairseq-generate silently ignores it.

    In fairseq 0.12 the option only applies to training data; every process decodes everything.

    Args:
        generation: the generation options in fairseq's configuration.
    """
    get_parent = getattr(generation, "_get_parent", lambda: None)
    n_shards = getattr(getattr(get_parent(), "dataset", None), "num_shards", 1)
    if n_shards > 1 and is_decoding_command():
        logger.warning(
            "--num-shards %d: fairseq-generate ignores it, and every process decodes everything; "
            "to divide the work, use the commands translate or distill",
            n_shards,
        )
