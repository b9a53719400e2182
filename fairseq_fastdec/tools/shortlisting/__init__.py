"""Lexical tables for ``--shortlist``, from the training data of a model.

- ``sentences`` reads both sides of a binarised data directory
- ``model1`` word translation probabilities: IBM Model 1, and the file for ``--shortlist``

``scripts/build_shortlist.py`` is the command.
"""
