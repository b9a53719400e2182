"""Finds out which of fairseq's commands asks for a generator."""

import logging
import os
import sys
from types import FrameType
from typing import Any, Optional

logger = logging.getLogger(__name__)

# They load models, build one generator of them, decode and end.
DECODING_COMMANDS = ("generate.py", "interactive.py")


def is_decoding_command() -> bool:
    """Whether fairseq-generate or fairseq-interactive has called, by whatever way.

    They ask a task for a generator as the hub interface and ``--eval-bleu`` do, whose models go on
    to be used: only the calls on the way tell.
    """
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        folder, name = os.path.split(frame.f_code.co_filename)
        if name in DECODING_COMMANDS and os.path.basename(folder) == "fairseq_cli":
            return True
        frame = frame.f_back
    return False


def warn_of_shards(generation: Any) -> None:
    """Say that ``--num-shards`` does nothing, where fairseq-generate would ignore it in silence.

    In fairseq 0.12 the option belongs to the data of training: every process decodes everything.

    Args:
        generation: the group of options of fairseq's configuration.
    """
    get_parent = getattr(generation, "_get_parent", lambda: None)
    n_shards = getattr(getattr(get_parent(), "dataset", None), "num_shards", 1)
    if n_shards > 1 and is_decoding_command():
        logger.warning(
            "--num-shards %d: fairseq-generate ignores it, and every process decodes everything; "
            "scripts/translate_corpus.py and scripts/distill.py divide their work",
            n_shards,
        )
