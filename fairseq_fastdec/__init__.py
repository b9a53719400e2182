"""Fast decoding for fairseq sequence-to-sequence models: ``--user-dir fairseq_fastdec``.

A short map, from the top floor down (docs/architecture.md):

- ``__main__.py``  ``python -m fairseq_fastdec``: all commands under one name
- ``tools/``       the commands besides decoding: data, benchmark, distillation, pictures
- ``tasks/``       ``TASK_fastdec``: fairseq's tasks plus ``--decoding``, ``translation_fastdec``
                   among them; ``translation_double_token``: with targets in another order
- ``translator.py`` ``fairseq_fastdec.load(...)``: text to text, from Python
- ``hub.py``       fairseq's hub interface knows our options, refuses unknown ones, and is as fast
- ``kept_generators.py``
                   generators that calls from Python share
- ``decoding/``    the methods, one file for each; options; the choice of engine or torch
- ``network/``     a model's steps in torch
- ``models/``, ``criterions/``
                   what we train: ``blockwise_transformer``, ``double_token_transformer``,
                   ``random_sub_loss``
- ``engine/``      the compiled searches, and the weights that they compute with
- ``data/``        the orders in which target tokens are decoded
- ``errors.py``    an error of the user's input ends a command in one line, with exit code 2
- ``mapped_checkpoints.py``, ``memory.py``
                   checkpoints load without a second copy in memory
- ``lean_imports.py``
                   leaves out what a decoding command does not need of fairseq
- ``faster_fairseq.py``
                   functions of fairseq's around decoding, with equal results in less time
- ``compat.py``    what today's torch and python need, and nothing else
- ``help.py``      ``--help`` begins with our options; ``--help-all`` has all of fairseq's
- ``noise.py``, ``progress.py``
                   what of others' messages stays off the screen; progress within a batch

``import fairseq_fastdec`` registers everything, with or without ``--user-dir``.
"""

import gc
import sys

from . import lean_imports, noise

__version__ = "0.1.0"

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
from .translator import SentenceError, Translation, Translator, load  # noqa: E402,F401

mapped_checkpoints.install()
hub.install()
faster_fairseq.install()
errors.install()
if is_decoding_command() or lean_imports.is_decoding_command(sys.orig_argv):
    # What has been imported stays: to look for garbage in it takes longer than a short command.
    gc.freeze()
if _collects_garbage:
    gc.enable()
