"""Sequence-level knowledge distillation (Kim and Rush 2016): training data from a teacher.

- ``teacher`` translates sentences of a binarised data directory
- ``shards`` sentences that are translated and stored together
- ``filters`` translations to leave out
- ``dataset`` writes text and binarised data

``python -m fairseq_fastdec distill`` is the command.
"""
