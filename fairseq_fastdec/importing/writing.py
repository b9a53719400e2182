"""Writes imported models as fairseq's: a checkpoint, dictionaries, and the files of the BPE."""

import json
import logging
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from omegaconf import OmegaConf

from ..data.atomic_files import replacing, write_bytes, write_lines, write_text
from ..data.model_files import CHECKPOINTS, DICTIONARY_OF_ALL, RECORDED
from .building import dictionary_of, model_of, options_of
from .imported import Imported

logger = logging.getLogger(__name__)


def write(imported: Imported, directory: Path) -> list[str]:
    """Write a model. The checkpoint is written last, so that a directory with one is complete.

    Returns:
        the names of the files

    Raises:
        OSError: if a file cannot be written.
        UnreadableModel: if parameters are missing or have other shapes.
    """
    dictionaries = _dictionaries(imported)
    args = options_of(imported)
    source, target = (list(dictionaries.values()) * 2)[:2]
    task = Namespace(source_dictionary=source, target_dictionary=target)
    # Checks the parameters.
    model = model_of(imported, args, task)
    directory.mkdir(parents=True, exist_ok=True)
    for name, dictionary in dictionaries.items():
        symbols = dictionary.symbols[dictionary.nspecial :]
        write_lines(directory / name, (f"{symbol} 1" for symbol in symbols))
    for name, content in imported.files.items():
        write_bytes(directory / name, content)
    write_text(directory / RECORDED, json.dumps(imported.defaults, indent=2) + "\n")
    with replacing(directory / CHECKPOINTS[0]) as partial:
        torch.save(_state(imported, args, model), partial)
    return [*dictionaries, *imported.files, RECORDED, CHECKPOINTS[0]]


def _dictionaries(imported: Imported) -> dict[str, Any]:
    """The dictionaries, by the names of their files."""
    source = dictionary_of(imported.source)
    if imported.languages:
        return {DICTIONARY_OF_ALL: source}
    target = source if imported.target == imported.source else dictionary_of(imported.target)
    return {
        f"dict.{imported.source_lang}.txt": source,
        f"dict.{imported.target_lang}.txt": target,
    }


def _state(imported: Imported, args: Namespace, model: Any) -> dict[str, Any]:
    """The content of the checkpoint."""
    args._name = ARCH_MODEL_NAME_REGISTRY[args.arch]
    groups: Any = OmegaConf.to_container(
        OmegaConf.structured(FairseqConfig), resolve=True, enum_to_str=True
    )
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    return {
        "cfg": {**groups, "model": args, "task": Namespace(**_task(imported))},
        "model": model.state_dict(),
        "optimizer_history": [{**history, "num_updates": 0}],
        "extra_state": {},
    }


def _task(imported: Imported) -> dict[str, Any]:
    """The options of the task."""
    options = {"source_lang": imported.source_lang, "target_lang": imported.target_lang}
    is_plain = (imported.source_format, imported.target_format) == ("{text} </s>", "</s>")
    if is_plain and not imported.languages:
        return {"_name": "translation", "task": "translation", **options}
    name = "translation_languages"
    return {
        "_name": name,
        "task": name,
        **options,
        "language_tokens": json.dumps(imported.languages),
        "source_format": imported.source_format,
        "target_format": imported.target_format,
    }
