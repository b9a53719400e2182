"""The settings that a teacher's translations depend on."""

import hashlib
import os
from typing import Any

from fairseq import checkpoint_utils, utils
from omegaconf import OmegaConf

from ...corpora.text_files import content_of
from ...translating.command_line import version
from ..corpus import uses_cuda

# The groups of fairseq's configuration that affect translations.
GROUPS = ("task", "generation", "tokenizer", "bpe")
# Options in these groups that do not, and may change when a translation is resumed, for example to
# reduce memory.
WITHOUT_EFFECT = {
    "task.data",
    "task.draft_file",
    "task.keep_model",
    "task.max_beam_rows",
    "task.memory_source",
    "task.memory_target",
    "task.stream_buffer",
}


def limit_batches(cfg: Any) -> None:
    """Set a default batch size for this machine.

    It determines the memory of a worker. Any line that is not too long fits in a batch.
    """
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        least = 12000 if uses_cuda(cfg) else 1024
        longest = getattr(cfg.task, "max_source_positions", None) or 0
        cfg.dataset.max_tokens = max(least, longest)


def settings_of(cfg: Any, task: Any) -> dict[str, Any]:
    """All settings that translations depend on. Files are identified by content, not by name.

    Args:
        cfg: the configuration of fairseq-generate's command line.

    Raises:
        OSError: for files that cannot be read.
    """
    options: dict[str, Any] = {}
    for group in filter(cfg.get, GROUPS):
        values: Any = OmegaConf.to_container(cfg[group], enum_to_str=True)
        for name, value in values.items():
            is_file = isinstance(value, str) and os.path.isfile(value)
            value = {"sha256": content_of(value).sha256} if is_file else value
            options[f"{group}.{name}"] = value
    symbols = [
        "\n".join(words.symbols) for words in (task.source_dictionary, task.target_dictionary)
    ]
    return {
        **{name: value for name, value in options.items() if name not in WITHOUT_EFFECT},
        "dictionaries": [hashlib.sha256(text.encode("utf-8")).hexdigest() for text in symbols],
        "checkpoints": [
            content_of(file).sha256
            for path in utils.split_paths(cfg.common_eval.path)
            for file in _checkpoints_of(cfg, path)
        ],
        "model_overrides": cfg.common_eval.model_overrides,
        "fp16": cfg.common.fp16,
        "seed": cfg.common.seed,
        "version": version(),
    }


def _checkpoints_of(cfg: Any, path: str) -> list[str]:
    """The files of one path of ``--path``; several if the checkpoint is sharded."""
    suffix, n_shards = cfg.checkpoint.checkpoint_suffix, cfg.checkpoint.checkpoint_shard_count
    name = checkpoint_utils.get_maybe_sharded_checkpoint_filename
    return [name(path, suffix, shard, n_shards) for shard in range(n_shards)]
