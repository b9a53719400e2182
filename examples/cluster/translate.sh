#!/usr/bin/env bash
# What is translated, and how: the same for all machines. Edit it; options that say where are added
# by whoever calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python -m fairseq_fastdec translate checkpoint.pt --data data-bin/en-de \
    --input mono.en.gz --output mono.de --no-progress-bar "$@"
