#!/usr/bin/env bash
# Submit the array, and a job that puts the output together when all of the array's have ended. What
# one of them left undone, that job translates.
set -euo pipefail
cd "$(dirname "$0")/../.."
array=$(sbatch --parsable examples/cluster/slurm_array.sbatch)
sbatch --job-name=translate-merge --dependency="afterany:${array%%;*}" --cpus-per-task=64 \
    --mem-per-cpu=1G --time=24:00:00 --output=translate-merge-%j.log \
    --wrap "bash examples/cluster/translate.sh"
