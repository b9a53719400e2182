"""Compares decoding methods on the same sentences, in alternating rounds.

- ``methods``            the methods to compare, and their common settings
- ``fairseq_runner``     fairseq's generator and those of this package
- ``ctranslate2_runner`` CTranslate2 on the converted checkpoint
- ``processes``, ``worker`` the processes of a method, and the functions that run in them
- ``contest``            the rounds, in which the methods take turns
- ``measurement``        the result of one round
- ``operations``         counts floating-point operations
- ``results``            the rows of the table, from all rounds
- ``scoring``            BLEU, here and in the examples
- ``report``, ``figure`` tables and plot

``python -m benchmarks.compare`` is the command.
"""
