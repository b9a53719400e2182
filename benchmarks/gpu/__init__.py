"""Measures the methods beside fairseq's search in the minutes for which a GPU is at hand.

- ``rows``       what is measured, the most important rows first, and how long a row may take
- ``models``     the models and batches of a row, on a device
- ``measuring``  a row: alternating rounds of fairseq's search and a method
- ``process``    the process in which rows are measured, and which one of them may break
- ``session``    measures rows until the time is over
- ``gpu_tests``  runs ``tests/gpu``
- ``results``    the JSON file, and its tables in docs/gpu.md

``python scripts/measure_gpu.py`` is the command.
"""
