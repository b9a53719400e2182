"""Registers everything with fairseq, as soon as fairseq is there."""

import gc
import sys

from . import lean_imports, noise

# Collecting garbage among what is being imported takes longer than importing it.
_collects_garbage = gc.isenabled()
gc.disable()
noise.install()
with noise.imports_unheard():
    if lean_imports.is_decoding_command(sys.orig_argv):
        lean_imports.install()
    from . import compat
compat.install()

# After compat; importing registers.
from . import (  # noqa: E402,F401
    criterions,
    errors,
    faster_fairseq,
    hub,
    mapped_checkpoints,
    models,
    tasks,
)
from .tasks.decoding_commands import is_decoding_command  # noqa: E402

mapped_checkpoints.install()
hub.install()
faster_fairseq.install()
errors.install()
if is_decoding_command() or lean_imports.is_decoding_command(sys.orig_argv):
    # What has been imported stays: to look for garbage in it takes longer than a short command.
    gc.freeze()
if _collects_garbage:
    gc.enable()
