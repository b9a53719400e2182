"""Fast decoding for fairseq sequence-to-sequence models: ``--user-dir fairseq_fastdec``.

A short map:

- ``tasks/``       ``translation_fastdec``: fairseq's translation task plus ``--decoding``;
                   ``translation_double_token``: with targets in another order
- ``data/``        the orders in which target tokens are decoded
- ``generators/``  the search rules (what to propose, what to accept), one file each
- ``engine/``      the decoder sessions that run a stock decoder for ragged rows
- ``models/``      architectures: ``blockwise_transformer``, ``double_token_transformer``
- ``criterions/``  training losses: ``random_sub_loss``
- ``arguments.py``, ``inference.py``
                   command lines, models, batches and text like fairseq-generate's, for scripts
- ``benchmark/``, ``distillation/``
                   what the scripts of these names run
- ``hub.py``       fairseq's hub interface knows our options, and refuses what nobody knows
- ``errors.py``    an error of the user's input ends a command in one line, with exit code 2
- ``mapped_checkpoints.py``, ``memory.py``
                   checkpoints load without a second copy in memory
- ``tools/``       what prepares data and checkpoints
- ``compat.py``    what today's torch and python need, and nothing else
- ``noise.py``     what of others' messages stays off the screen
- ``__main__.py``  ``python -m fairseq_fastdec``: all commands under one name

``import fairseq_fastdec`` registers everything, with or without ``--user-dir``.
"""

from . import noise

__version__ = "0.1.0"

noise.install()
with noise.imports_unheard():
    from . import compat
compat.install()

# After compat; importing registers.
from . import criterions, errors, hub, mapped_checkpoints, models, tasks  # noqa: E402,F401

mapped_checkpoints.install()
hub.install()
errors.install()
