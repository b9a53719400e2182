"""Lexical tables for ``--shortlist``, from the parallel text that a model is trained on.

- ``sentences``  reads both sides of a binarised data directory
- ``model1``     word translation probabilities: IBM Model 1
- ``table``      the file that ``--shortlist`` takes

``scripts/build_shortlist.py`` is the command.
"""
