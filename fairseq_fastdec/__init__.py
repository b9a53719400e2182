"""Fast decoding for fairseq sequence-to-sequence models: ``--user-dir fairseq_fastdec``.

A short map:

- ``tasks/``       ``translation_fastdec``: fairseq's translation task plus ``--decoding``
- ``generators/``  the search rules (what to propose, what to accept), one file each
- ``engine/``      the decoder sessions that run a stock decoder for ragged rows
- ``models/``      architectures: ``blockwise_transformer``
- ``criterions/``  training losses: ``random_sub_loss``
- ``compat.py``    what today's torch and python need, and nothing else

fairseq imports every file of ``tasks/`` and ``models/`` by itself after this module.
"""

from . import compat

compat.install()

from . import criterions  # noqa: E402,F401  (registers; fairseq does not import criterions itself)
