"""Lexical tables for ``--shortlist``, from the training data of a model.

- ``sentences`` reads both sides of a binarised data directory
- ``model1`` word translation probabilities: IBM Model 1, and the file for ``--shortlist``

``python -m fairseq_fastdec build-shortlist`` is the command.
"""
