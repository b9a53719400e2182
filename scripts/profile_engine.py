#!/usr/bin/env python3
"""Where the time of a decoding step goes: ``python scripts/profile_engine.py --help``."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    # fairseq and hydra are talkative, already when they are imported.
    logging.disable(logging.INFO)
    import fairseq_fastdec  # noqa: F401  (registers the architectures)
    from fairseq_fastdec.profiling.command import main

    main()
