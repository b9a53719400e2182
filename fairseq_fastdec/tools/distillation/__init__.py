"""Sequence-level knowledge distillation (Kim and Rush 2016): training data from a teacher.

- ``teacher``  translates sentences of a binarised data directory
- ``shards``   the sentences that are translated and kept together
- ``filters``  what is left out
- ``dataset``  text and binarised data of what is kept

``scripts/distill.py`` is the command.
"""
