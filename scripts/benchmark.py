#!/usr/bin/env python3
"""Compare decoding methods by speed, BLEU and memory: ``python scripts/benchmark.py --help``."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    # The methods' processes import this file, too, and need nothing of it.
    # fairseq and hydra are talkative, already when they are imported.
    logging.disable(logging.INFO)
    from fairseq_fastdec.benchmark.command import main

    main()
