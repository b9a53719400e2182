#!/usr/bin/env python3
"""``python -m fairseq_fastdec translate-corpus``, for the pages that still name this file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    from fairseq_fastdec.__main__ import run

    run(["translate-corpus", *sys.argv[1:]])
