#!/usr/bin/env python3
"""Measure the time of each part of a decoding step: ``python scripts/profile_engine.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    from fairseq_fastdec.__main__ import script

    script()
