#!/usr/bin/env python3
"""Create a directory of a model to share: half-precision weights, dictionaries and subwords.

python examples/en_de/export.py work/en_de_distill_ensemble heads examples/en_de/model
"""

import argparse
import shutil
from pathlib import Path

import torch

import fairseq_fastdec  # noqa: F401  (lets torch load fairseq's checkpoints)
from examples.common import arguments
from fairseq_fastdec.data.atomic_files import replacing

# The parts of a checkpoint for decoding and further training, without optimizer state.
KEPT = ("args", "cfg", "model", "task_state", "optimizer_history", "extra_state")
# Options with paths of the training machine.
PLACES = ("data", "save_dir", "finetune_from_model", "restore_file", "user_dir")


def main() -> None:
    """Read the command line and export."""
    parser = arguments.described(__doc__)
    parser.add_argument(
        "workdir", type=Path, help="work directory of run.py or distill_ensemble.py"
    )
    parser.add_argument("model", help="name of a model's directory in it")
    parser.add_argument("output", type=Path, help="output directory, created if missing")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    write_half(args.workdir / args.model / "checkpoint_last.pt", args.output / "checkpoint.pt")
    for name in ("dict.en.txt", "dict.de.txt", "bpe.codes"):
        shutil.copy(args.workdir / "data" / name, args.output)


def write_half(checkpoint: Path, output: Path) -> None:
    """Write a checkpoint in fp16, without training state."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    kept = {name: state[name] for name in KEPT}
    kept["model"] = half(state["model"])
    for options in kept["cfg"].values():
        options = vars(options) if isinstance(options, argparse.Namespace) else options
        if isinstance(options, dict):
            options.update({name: None for name in PLACES if name in options})
    with replacing(output) as partial:
        torch.save(kept, partial)


def half(parameters: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Convert parameters to fp16; shared embeddings stay shared."""
    seen: dict[int, torch.Tensor] = {}
    return {
        name: seen.setdefault(value.data_ptr(), value.half()) for name, value in parameters.items()
    }


if __name__ == "__main__":
    main()
