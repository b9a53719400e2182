#!/usr/bin/env python3
"""Training data with a teacher's translations for targets: ``python scripts/distill.py --help``."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    # The processes of --workers import this file, too, and need nothing of it.
    # fairseq tells of every shard how it makes batches.
    logging.getLogger("fairseq.tasks.fairseq_task").setLevel(logging.WARNING)
    from fairseq_fastdec.distillation.command import main

    main()
