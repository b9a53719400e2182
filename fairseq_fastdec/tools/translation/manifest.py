"""The settings that a translation depends on, and how far it has come, in a file beside its chunks.

Settings are compared by what they say: a file counts by its content, wherever it lies, and whatever
its name. So the nodes of a cluster can have copies of their own.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

from fairseq import checkpoint_utils, utils
from omegaconf import OmegaConf

from ..command_line import version
from ..kept_settings import compare_settings, damaged, read_settings, write_settings
from .output_lines import STOP
from .text_files import PIECE

# The option that sets where the translations go.
FLAG = "--output"
# The groups of fairseq's configuration that change translations.
GROUPS = ("task", "generation", "tokenizer", "bpe")
# They say where things are, or how much is done at once: a user who runs out of memory goes on with
# less.
WITHOUT_EFFECT = {"task.data", "task.stream_buffer", "task.max_beam_rows", "task.keep_model"}


class Manifest:
    """The file ``manifest.json`` of a translation's directory."""

    def __init__(self, directory: Path) -> None:
        """
        Args:
            directory: is there.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged.
        """
        self.path = directory / "manifest.json"
        self._kept = read_settings(self.path, FLAG)
        if self._kept is not None and not _is_whole(self._kept):
            raise damaged(self.path, FLAG)

    @property
    def is_new(self) -> bool:
        """Whether nothing has been translated here."""
        return self._kept is None

    @property
    def finished(self) -> Optional[dict[str, Any]]:
        """The output's size, digest and counts; ``None`` before it is there."""
        return (self._kept or {}).get("finished")

    def chunk_size(self) -> Optional[int]:
        """The lines of a chunk, if that is decided."""
        return None if self._kept is None else self._kept["settings"].get("chunk_size")

    def check(self, settings: dict[str, Any]) -> None:
        """Keep the settings, or compare them with those that are kept.

        Raises:
            OSError: if they cannot be written.
            ValueError: for others, which it names.
        """
        settings = json.loads(json.dumps(settings))
        kept = dict(settings if self._kept is None else self._kept["settings"])
        if kept.get("on_error") == STOP:
            # Nothing has been written instead of a translation so far.
            kept["on_error"] = settings["on_error"]
        compare_settings(self.path, kept, settings, FLAG)
        if self._kept is None or kept != self._kept["settings"]:
            self._write({**(self._kept or {}), "settings": settings})

    def finish(self, output: dict[str, Any]) -> None:
        """Note that the output is there as a whole.

        Args:
            output: what it is: its size, digest and counts.
        """
        self._write({**(self._kept or {}), "finished": output})

    def begin_again(self) -> None:
        """Forget that it was finished."""
        self._write(
            {name: value for name, value in (self._kept or {}).items() if name != "finished"}
        )

    def _write(self, kept: dict[str, Any]) -> None:
        write_settings(self.path, kept)
        self._kept = kept


def _is_whole(kept: dict[str, Any]) -> bool:
    """Whether a manifest has what :class:`Manifest` reads from it."""
    settings, finished = kept.get("settings"), kept.get("finished", {"size": 0, "counts": {}})
    return (
        isinstance(settings, dict)
        and _is_number(settings.get("chunk_size", 1), 1)
        and isinstance(finished, dict)
        and _is_number(finished.get("size"), 0)
        and isinstance(finished.get("counts"), dict)
        and all(_is_number(count, 0) for count in finished["counts"].values())
    )


def _is_number(value: Any, least: int) -> bool:
    return type(value) is int and value >= least


def settings_of(cfg: Any, task: Any, others: dict[str, Any]) -> dict[str, Any]:
    """All that translations depend on.

    Args:
        cfg: the configuration of fairseq-generate's command line.
        others: what is a command's own.

    Raises:
        OSError: for files that cannot be read.
    """
    options = {
        f"{group}.{name}": value
        for group in GROUPS
        for name, value in {
            **_options(cfg[group]),
            **{name: {"sha256": _digest(file)} for name, file in file_options(cfg[group])},
        }.items()
    }
    return {
        **{name: value for name, value in options.items() if name not in WITHOUT_EFFECT},
        "dictionaries": [
            _digest_of_words(words) for words in (task.source_dictionary, task.target_dictionary)
        ],
        "checkpoints": [
            _digest(file)
            for path in utils.split_paths(cfg.common_eval.path)
            for file in checkpoints_of(cfg, path)
        ],
        "model_overrides": cfg.common_eval.model_overrides,
        "post_process": cfg.common_eval.post_process,
        "fp16": cfg.common.fp16,
        "seed": cfg.common.seed,
        "version": version(),
        **others,
    }


def checkpoints_of(cfg: Any, path: str) -> list[str]:
    """The files of one path of ``--path``: several where checkpoints are sharded."""
    checkpoint = cfg.checkpoint
    n_shards = checkpoint.checkpoint_shard_count
    return [
        checkpoint_utils.get_maybe_sharded_checkpoint_filename(
            path, checkpoint.checkpoint_suffix, shard, n_shards
        )
        for shard in range(n_shards)
    ]


def file_options(group: Any) -> Iterator[tuple[str, str]]:
    """The options of a group of the configuration whose values are names of files, with these."""
    for name, value in _options(group).items():
        if isinstance(value, str) and os.path.isfile(value):
            yield name, value


def _options(group: Any) -> dict[str, Any]:
    values: Any = {} if group is None else OmegaConf.to_container(group, enum_to_str=True)
    return values


def _digest_of_words(dictionary: Any) -> str:
    return hashlib.sha256("\n".join(dictionary.symbols).encode("utf-8")).hexdigest()


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()
