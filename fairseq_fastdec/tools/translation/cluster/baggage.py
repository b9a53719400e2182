"""The files that a command line names, and how it names them on a machine where they have come."""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq import utils
from omegaconf import OmegaConf

from ..manifest import GROUPS, checkpoints_of, file_options

# So many bytes of a file are in memory at once.
PIECE = 1 << 26
DICTIONARIES = "dict*.txt"


class Baggage(NamedTuple):
    """Everything that a machine must have to translate, besides the programs.

    Attributes:
        files: where each is here, by its place below a directory there.
        options: the places that stand for an option's value, by the option's group and name.
    """

    files: dict[str, str]
    options: dict[tuple[str, str], list[str]]


def baggage_of(cfg: Any) -> Baggage:
    """The checkpoints, the dictionaries, and whatever else options name that is a file.

    Args:
        cfg: the configuration of fairseq-generate's command line.
    """
    files: dict[str, str] = {}
    options: dict[tuple[str, str], list[str]] = {}
    paths = utils.split_paths(cfg.common_eval.path)
    options["common_eval", "path"] = [
        f"model{number}/{Path(path).name}" for number, path in enumerate(paths)
    ]
    for number, path in enumerate(paths):
        for file in checkpoints_of(cfg, path):
            files[f"model{number}/{Path(file).name}"] = file
    options["task", "data"] = ["data"]
    for dictionary in sorted(Path(cfg.task.data).glob(DICTIONARIES)):
        files[f"data/{dictionary.name}"] = str(dictionary)
    for group in GROUPS:
        for name, file in file_options(cfg[group]):
            place = f"{group}.{name}/{Path(file).name}"
            files[place] = file
            options[group, name] = [place]
    return Baggage(files, options)


def unpacked(cfg: Any, baggage: Baggage, directory: Path) -> Any:
    """A copy of the configuration that names the files as they lie below a directory.

    Raises:
        omegaconf.errors.OmegaConfBaseException: for a configuration without those options.
    """
    cfg = copy.deepcopy(cfg)
    for (group, name), places in baggage.options.items():
        value = ":".join(str(directory / place) for place in places)
        OmegaConf.update(cfg, f"{group}.{name}", value)
    return cfg


def pieces_of(path: str) -> Any:
    """A file's bytes, as arrays of uint8 of 64 MiB at most.

    Raises:
        OSError: if it cannot be read.
    """
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            yield np.frombuffer(piece, dtype=np.uint8)
