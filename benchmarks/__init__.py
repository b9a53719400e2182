"""Measurements of speed, for those who develop the package: run them from a checkout.

- ``compare``        compares decoding methods by speed, BLEU and memory
- ``processor``      names the CPU
- ``profile_engine`` measures the parts of a decoding step
"""

# Before fairseq, so that the plugin replaces fairseq's slow imports.
import fairseq_fastdec  # noqa: F401
