#!/usr/bin/env bash
# What is translated, and how: the same for all machines. Edit it; options that say where are added
# by whoever calls it.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec python -m fairseq_fastdec translate-corpus data-bin/en-de --path checkpoint.pt -s en -t de \
    --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes \
    --input mono.en.gz --output mono.de --no-progress-bar "$@"
