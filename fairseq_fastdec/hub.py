"""fairseq's hub interface does what it is asked for, or refuses it by name.

In fairseq ``model.translate(text, decodign="greedy")`` sets a field that nothing reads, and
``from_pretrained(..., decoding="greedy")`` drops what the checkpoint's options do not have.
:func:`install` mends both.
"""

import difflib
import functools
import inspect
from argparse import Namespace
from dataclasses import fields
from typing import Any, Callable, Iterable, Set

import torch
from fairseq import checkpoint_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, open_dict

from .generators.options import DecodingOptions
from .tasks.fast_decoding import FastDecoding

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
    signature = inspect.signature(generate)

    @functools.wraps(generate)
    def generate_checked(hub: Any, *args: Any, **options: Any) -> Any:
        _check_options(hub.task, [name for name in options if name not in signature.parameters])
        given = signature.bind(hub, *args, **options).arguments
        if not given.get("skip_invalid_size_inputs"):
            _check_lengths(hub, given["tokenized_sentences"])
        return generate(hub, *args, **options)

    return generate_checked


def _check_lengths(hub: Any, sentences: Any) -> None:
    """Check that each of the sentences, int64 ``[T]``, or one sentence, is within the positions."""
    limits = hub.max_positions
    limit = limits[0] if isinstance(limits, (list, tuple)) else limits
    if torch.is_tensor(sentences) and sentences.dim() == 1:
        sentences = [sentences]
    for number, tokens in enumerate(sentences):
        # Models for several languages have limits by pair of languages.
        if isinstance(limit, (int, float)) and len(tokens) > limit:
            raise ValueError(
                f"sentence {number} (from 0): has {len(tokens)} source tokens, and the model "
                f"positions for {limit}; divide it, or leave it out with "
                "skip_invalid_size_inputs=True"
            )


def _check_options(task: Any, names: Iterable[str]) -> None:
    check = getattr(task, "check_option_names", None)
    if check is not None:
        check(names, "the hub interface")
        return
    for name in names:
        if name in OWN:
            raise ValueError(
                f"{name}: {type(task).__name__} has no such option; give it the task by "
                "fairseq_fastdec.tasks.register_fastdec(NAME OF THE TASK) before it is loaded"
            )


def _with_own_tasks(overwrite: Callable) -> Callable:
    """fairseq overwrites the options in a checkpoint that are there, but not what task it is of.

    Of tasks without a dataclass, fairseq overwrites everything, and takes any name.
    """

    @functools.wraps(overwrite)
    def overwrite_all(cfg: DictConfig, overrides: Any) -> None:
        known = _names_in(cfg)
        overwrite(cfg, overrides)
        task, name = cfg.get("task"), overrides.get("task")
        if isinstance(task, Namespace) and _is_own(task.task):
            _check_overrides(set(overrides) - known)
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
        _check_overrides(set(overrides) - known)

    return overwrite_all


def _is_own(task: Any) -> bool:
    return issubclass(TASK_REGISTRY.get(task, object), FastDecoding)


def _names_in(cfg: Any) -> Set[str]:
    """The names of a configuration on all its levels."""
    names: Set[str] = set()
    for name in cfg:
        names.add(name)
        node = cfg._get_node(name)
        if isinstance(node, DictConfig) and cfg.get(name) is not None:
            names |= _names_in(cfg[name])
        elif isinstance(node._value(), Namespace):
            names |= set(vars(cfg[name]))
    return names


def _check_overrides(unknown: Iterable[str]) -> None:
    """Many unknown names are for tokenisers; one that is nearly one of ours is misspelt."""
    for name in unknown:
        nearest = difflib.get_close_matches(name, OWN, n=1, cutoff=0.75)
        if nearest and name not in OWN:
            raise ValueError(f"{name}: no option of the model; did you mean {nearest[0]}?")
