"""Average the parameters of several checkpoints of one training.

    python -m fairseq_fastdec average-checkpoints --inputs checkpoints --num-epoch-checkpoints 10 \\
        --output checkpoints/averaged.pt

Options are those of fairseq's script of this name, which is not in its packages. Everything that is
not averaged (options, training state) comes from the checkpoint with the most updates, without the
optimizer's state, which belongs to other parameters. Checkpoints that
contain code are rejected.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor

from ..data.atomic_files import replacing
from ..fairseq_patches.compat import errors_with_name
from ..orders.token_order import trained_order
from ..processes.errors import errors_in_one_line
from ..processes.noise import results_only
from ..translating.command_line import check_output, described, path_of, positive, program

EPOCH, UPDATE = r"checkpoint(\d+)\.pt", r"checkpoint_\d+_(\d+)\.pt"
# Integer tensors in a model must be equal in all checkpoints, except counters of batches.
COUNTERS = ("num_batches_tracked",)


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in the files are reported without a traceback."""
    args = parse_args(arguments)
    with errors_in_one_line(program("average-checkpoints")):
        paths = chosen_checkpoints(args)
        check_output(args.output, paths)
        print("averaging " + " ".join(map(str, paths)), flush=True)
        write(average(paths), args.output)
    print(f"written to {args.output}")


def parse_args(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = described(argparse.ArgumentParser(), "average-checkpoints", __doc__)
    parser.add_argument(
        "--inputs", nargs="+", type=path_of, required=True, metavar="PATH",
        help="checkpoints, or with one of the next options the directory of a training",
    )  # fmt: skip
    parser.add_argument("--output", type=path_of, required=True, metavar="FILE")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--num-epoch-checkpoints", type=positive, metavar="N",
        help="the last N of the directory's checkpointE.pt, E being an epoch",
    )  # fmt: skip
    kind.add_argument(
        "--num-update-checkpoints", type=positive, metavar="N",
        help="the last N of the directory's checkpoint_E_U.pt, U being an update",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-upper-bound", type=positive, metavar="M",
        help="with one of the previous options: ignore epochs or updates after M",
    )  # fmt: skip
    args = parser.parse_args(arguments)
    args.number = args.num_epoch_checkpoints or args.num_update_checkpoints
    if args.checkpoint_upper_bound and not args.number:
        parser.error(
            "--checkpoint-upper-bound: needs --num-epoch-checkpoints or --num-update-checkpoints"
        )
    return args


def chosen_checkpoints(args: argparse.Namespace) -> list[Path]:
    """The files to average.

    Raises:
        ValueError: if the inputs do not match the other options, or there are too few.
    """
    directories = [path for path in args.inputs if path.is_dir()]
    if not args.number:
        if directories:
            raise ValueError(
                f"--inputs {directories[0]}: is a directory; select its checkpoints with "
                "--num-epoch-checkpoints or --num-update-checkpoints"
            )
        return args.inputs
    if len(args.inputs) > 1 or not directories:
        raise ValueError(
            "--num-epoch-checkpoints and --num-update-checkpoints select files in one directory; "
            "give it as --inputs"
        )
    pattern = EPOCH if args.num_epoch_checkpoints else UPDATE
    return last_checkpoints(directories[0], pattern, args.number, args.checkpoint_upper_bound)


def last_checkpoints(
    directory: Path, pattern: str, number: int, upper_bound: Optional[int]
) -> list[Path]:
    """The last checkpoints whose names match the pattern, up to a bound, in order.

    Raises:
        ValueError: if there are fewer.
    """
    matches = (re.fullmatch(pattern, path.name) for path in directory.iterdir())
    found = sorted((int(match.group(1)), match.string) for match in matches if match)
    names = [name for at, name in found if upper_bound is None or at <= upper_bound]
    if len(names) < number:
        raise ValueError(
            f"--inputs {directory}: {number} checkpoints wanted, but {len(names)} found "
            f"({', '.join(names) or 'none'})"
        )
    return [directory / name for name in names[-number:]]


def average(paths: Sequence[Path]) -> dict[str, Any]:
    """The checkpoint with the most updates, with averaged parameters.

    Means are computed in float64; parameters keep their dtype.

    Raises:
        ValueError: for a file that is not a checkpoint, or does not match the first.
    """
    first = newest = read(paths[0])
    sums = {key: tensor.double() for key, tensor in parameters(first).items()}
    for path in paths[1:]:
        state = read(path)
        check_alike(first, state, f"{path}: does not go with {paths[0]}: ")
        for key, tensor in parameters(state).items():
            sums[key] += tensor
        if n_updates(state) > n_updates(newest):
            newest = state
    means = {key: total / len(paths) for key, total in sums.items()}
    model = {
        key: means[key].to(value.dtype) if key in means else value
        for key, value in newest["model"].items()
    }
    return {**newest, "model": tied(model, newest["model"])}


def read(path: Path) -> dict[str, Any]:
    """Load a checkpoint, without its optimizer state.

    Raises:
        ValueError: for any other file, and for a pickle with unknown classes.
    """
    with errors_with_name(path):
        state = torch.load(path, map_location="cpu", weights_only=True)
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(map(torch.is_tensor, model.values())):
        raise ValueError(f"{path}: is not a checkpoint of fairseq (it has no model of tensors)")
    state.pop("last_optimizer_state", None)
    return state


def parameters(state: dict[str, Any]) -> dict[str, Tensor]:
    """The parameters that are averaged, by name."""
    return {key: value for key, value in state["model"].items() if value.is_floating_point()}


def n_updates(state: dict[str, Any]) -> int:
    """The number of updates recorded in the checkpoint; 0 if there is none."""
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)


def check_alike(first: dict[str, Any], other: dict[str, Any], complaint: str) -> None:
    """Check that two checkpoints have the same parameters and order of decoding.

    Raises:
        ValueError: if they do not; the message begins with ``complaint``.
    """
    orders = [trained_order(state.get("task_state") or {}) for state in (first, other)]
    if orders[0] != orders[1]:
        raise ValueError(f"{complaint}trained with {orders[1]}, not {orders[0]}")
    expected, found = first["model"], other["model"]
    for key in [*expected, *found]:
        if key not in expected or key not in found:
            raise ValueError(f"{complaint}only one of them has {key}")
    for key, value in expected.items():
        kinds = [(tuple(tensor.shape), tensor.dtype) for tensor in (value, found[key])]
        if kinds[0] != kinds[1]:
            raise ValueError(f"{complaint}{key} is {kinds[1]}, not {kinds[0]}")
        is_constant = not value.is_floating_point() and not key.endswith(COUNTERS)
        if is_constant and not torch.equal(value, found[key]):
            raise ValueError(f"{complaint}{key} contains different integers")


def tied(model: dict[str, Tensor], original: dict[str, Tensor]) -> dict[str, Tensor]:
    """Make tensors share memory, and space in the file, if those of the original do."""
    by_memory: dict[Any, Tensor] = {}
    for key, value in original.items():
        memory = (value.data_ptr(), value.shape, value.stride())
        shared = by_memory.setdefault(memory, model[key])
        if torch.equal(shared, model[key]):
            model[key] = shared
    return model


def write(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint atomically."""
    # With a path, torch raises RuntimeError if the disk is full.
    with replacing(path) as partial, open(partial, "wb") as file:
        torch.save(state, file)
