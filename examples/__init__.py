"""Recipes and comparisons; each folder has a README.

The folders form a package to share code. An editable installation (``pip install -e .``) makes it
importable, so that ``python examples/en_de/run.py`` works from anywhere. Without an installation,
use ``python -m examples.en_de.run`` in the repository.
"""
