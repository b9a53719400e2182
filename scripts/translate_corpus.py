#!/usr/bin/env python3
"""Translate whole corpora, text to text, on all cores: ``python scripts/translate_corpus.py
--help``.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    from fairseq_fastdec.__main__ import script

    script()
