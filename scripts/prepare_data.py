#!/usr/bin/env python3
"""Binarise raw parallel text for fairseq: ``python scripts/prepare_data.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    from fairseq_fastdec.__main__ import script

    script()
