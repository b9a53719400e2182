"""The distribution ``fairseq_fastdec``: ``fastdec-runtime`` of the same version, with fairseq."""

import re
from pathlib import Path

from setuptools import setup

PACKAGE = Path(__file__).resolve().parent.parent / "fairseq_fastdec"
(VERSION,) = re.findall(r'(?m)^__version__ = "(.+)"', (PACKAGE / "__init__.py").read_text("utf-8"))

setup(version=VERSION, install_requires=[f"fastdec-runtime[fairseq]=={VERSION}"])
