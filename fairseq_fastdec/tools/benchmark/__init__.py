"""Decoding methods side by side, on the same sentences, in alternating rounds.

- ``methods``            what is compared, and the settings that all share
- ``fairseq_runner``     fairseq's own generator and those of this package
- ``ctranslate2_runner`` CTranslate2 on the converted checkpoint
- ``processes``, ``worker`` one process for each worker of a method, and what runs in it
- ``contest``            whose turn it is
- ``measurement``        what one round gives
- ``results``            what all rounds of a method give
- ``scoring``            BLEU, here and in the examples
- ``report``, ``figure`` tables and plot

``scripts/benchmark.py`` is the command.
"""
