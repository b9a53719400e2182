"""Decoding methods side by side, on the same sentences, in alternating rounds.

- ``methods``            methods to compare, and the settings that all share
- ``fairseq_runner``     fairseq's own generator and those of this package
- ``ctranslate2_runner`` CTranslate2 on the converted checkpoint
- ``processes``, ``worker`` one process for each worker of a method, and what runs in it
- ``contest``            the rounds, in which the methods take turns
- ``measurement``        the result of one round
- ``operations``         what a method multiplies, where that is asked for
- ``results``            the rows of the table, from all rounds
- ``scoring``            BLEU, here and in the examples
- ``report``, ``figure`` tables and plot

``scripts/benchmark.py`` is the command.
"""
