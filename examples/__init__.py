"""Recipes and comparisons; each folder has a README.

The folders share code as this package. An editable installation (``pip install -e .``) makes it
importable, so that ``python examples/en_de/run.py`` works from anywhere. Where the package is not
installed, ``python -m examples.en_de.run`` works in the repository.
"""
