"""fairseq's hub interface does what it is asked for, or refuses it by name.

``model.translate(text, decodign="greedy")`` sets a field that nobody reads, and
``from_pretrained(..., task="translation_fastdec")`` keeps the task of a checkpoint as it was.
:func:`install` mends both.
"""

import difflib
import functools
import inspect
from dataclasses import fields
from typing import Any, Callable, Iterable, Set

from fairseq import checkpoint_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, open_dict

from .generators.options import DecodingOptions

OWN = {option.name for option in fields(DecodingOptions)} - {"_name"}


def install() -> None:
    """Check what the hub's methods and ``from_pretrained`` are given."""
    if not hasattr(GeneratorHubInterface.generate, "__wrapped__"):
        GeneratorHubInterface.generate = _with_known_options(GeneratorHubInterface.generate)
    if not hasattr(checkpoint_utils.overwrite_args_by_name, "__wrapped__"):
        checkpoint_utils.overwrite_args_by_name = _with_own_tasks(
            checkpoint_utils.overwrite_args_by_name
        )


def _with_known_options(generate: Callable) -> Callable:
    parameters = inspect.signature(generate).parameters

    @functools.wraps(generate)
    def generate_checked(hub: Any, *args: Any, **options: Any) -> Any:
        _check_options(hub.task, [name for name in options if name not in parameters])
        return generate(hub, *args, **options)

    return generate_checked


def _check_options(task: Any, names: Iterable[str]) -> None:
    check = getattr(task, "check_option_names", None)
    if check is not None:
        check(names, "the hub interface")
        return
    for name in names:
        if name in OWN:
            raise ValueError(
                f"{name}: {type(task).__name__} has no such option; load the model with "
                'task="translation_fastdec"'
            )


def _with_own_tasks(overwrite: Callable) -> Callable:
    """fairseq overwrites the options in a checkpoint that are there, but not what task it is of.

    So the decoding methods would be out of reach for checkpoints of the stock task.
    """

    @functools.wraps(overwrite)
    def overwrite_all(cfg: DictConfig, overrides: Any) -> None:
        overwrite(cfg, overrides)
        task, name = cfg.get("task"), overrides.get("task")
        if not isinstance(task, DictConfig):
            return
        if isinstance(name, str) and _is_own(name):
            with open_dict(task):
                task._name = name
        if not _is_own(task.get("_name")):
            return
        with open_dict(task):
            for option in OWN & overrides.keys():
                task[option] = overrides[option]
        _check_overrides(set(overrides) - _names_in(cfg))

    return overwrite_all


def _is_own(task: Any) -> bool:
    return issubclass(TASK_DATACLASS_REGISTRY.get(task, object), DecodingOptions)


def _names_in(cfg: Any) -> Set[str]:
    """The names of a configuration on all its levels."""
    names: Set[str] = set()
    for name in cfg:
        names.add(name)
        if isinstance(cfg._get_node(name), DictConfig) and cfg.get(name) is not None:
            names |= _names_in(cfg[name])
    return names


def _check_overrides(unknown: Iterable[str]) -> None:
    """Many unknown names are for tokenisers; one that is nearly one of ours is misspelt."""
    for name in unknown:
        nearest = difflib.get_close_matches(name, OWN, n=1, cutoff=0.75)
        if nearest and name not in OWN:
            raise ValueError(f"{name}: no option of the model; did you mean {nearest[0]}?")
