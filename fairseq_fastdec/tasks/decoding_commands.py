"""Finds out which of fairseq's commands asks for a generator."""

import os
import sys

# They load models, build one generator of them, decode and end.
DECODING_COMMANDS = ("generate.py", "interactive.py")


def is_decoding_command() -> bool:
    """Whether fairseq-generate or fairseq-interactive has called, by whatever way.

    They ask a task for a generator as the hub interface and ``--eval-bleu`` do, whose models go on
    to be used: only the calls on the way tell.
    """
    frame = sys._getframe(1)
    while frame is not None:
        folder, name = os.path.split(frame.f_code.co_filename)
        if name in DECODING_COMMANDS and os.path.basename(folder) == "fairseq_cli":
            return True
        frame = frame.f_back
    return False
