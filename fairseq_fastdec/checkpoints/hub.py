"""fairseq's hub interface with checked options, and without its overhead.

In fairseq, ``model.translate(text, decodign="greedy")`` sets a field that is never read, and
``from_pretrained(..., decoding="greedy")`` drops options that the checkpoint does not have. Every
call copies the configuration, builds a generator and starts a data loader, which takes longer than
decoding a sentence with a small model. :func:`install` fixes all three.
"""

import copy
import difflib
import itertools
import weakref
from argparse import Namespace
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.tasks import TASK_REGISTRY
from omegaconf import Container, DictConfig, open_dict

from ..decoding.options import DecodingOptions
from ..fairseq_patches.wrapping import wrap
from ..tasks.fast_decoding import FastDecoding
from ..translating.long_words import speed_up_long_words
from ..translating.moses import skip_idle_work
from .kept_generators import KeptGenerators, key_of
from .whole_batches import SourceLimit, WholeBatches

OWN = {option.name for option in fields(DecodingOptions)} - {"_name"}


_CALLS: "weakref.WeakKeyDictionary[GeneratorHubInterface, HubCalls]" = weakref.WeakKeyDictionary()


def install() -> None:
    """Check the options of the hub's methods and ``from_pretrained``, and reuse generators."""
    wrap(GeneratorHubInterface, "generate", _with_kept_generators)
    wrap(checkpoint_utils, "overwrite_args_by_name", _with_own_tasks)


def _with_kept_generators(
    generate: Callable,
    hub: Any,
    tokenized_sentences: Any,
    beam: int = 5,
    verbose: bool = False,
    skip_invalid_size_inputs: bool = False,
    inference_step_args: Optional[dict[str, Any]] = None,
    prefix_allowed_tokens_fn: Optional[Callable] = None,
    **options: Any,
) -> Any:
    is_one = torch.is_tensor(tokenized_sentences) and tokenized_sentences.dim() == 1
    sentences = [tokenized_sentences] if is_one else tokenized_sentences
    leaves_out_long = skip_invalid_size_inputs and not is_one
    if not leaves_out_long:
        _check_lengths(hub, sentences)
    is_fairseqs = verbose or prefix_allowed_tokens_fn is not None or not len(sentences)
    if is_fairseqs or not isinstance(hub.task, FastDecoding):
        _check_options(hub.task, options)
        return generate(
            hub,
            tokenized_sentences,
            beam,
            verbose,
            skip_invalid_size_inputs,
            inference_step_args,
            prefix_allowed_tokens_fn,
            **options,
        )
    if hub not in _CALLS:
        _CALLS[hub] = HubCalls(hub)
        skip_idle_work(hub.tokenizer)
        speed_up_long_words(hub.bpe)
    options["beam"] = beam
    hypotheses = _CALLS[hub].generated(
        hub, sentences, options, leaves_out_long, inference_step_args or {}
    )
    return hypotheses[0] if is_one else hypotheses


class HubCalls:
    """Generators and batches shared by the calls of one hub interface."""

    def __init__(self, hub: Any) -> None:
        self._kept = KeptGenerators()
        self._batches = WholeBatches(hub.task, hub.models)

    def generated(
        self,
        hub: Any,
        sentences: Any,
        options: dict[str, Any],
        leaves_out_long: bool,
        inference_step_args: dict[str, Any],
    ) -> list[Any]:
        """The hypotheses of ``GeneratorHubInterface.generate``, from a reused generator."""
        # Direct access, which avoids torch's slow __getattr__.
        models, place = hub._modules["models"], hub._buffers["_float_tensor"]
        found: list[Any] = []
        key = _key(hub, options, (*models, place.dtype, place.device))
        with self._kept.lent(key, lambda: _build(hub, options)) as generator:
            limits = (hub.cfg.dataset.batch_size, hub.cfg.dataset.max_tokens)
            self._batches.device = place.device
            for batch in self._batches.of(
                generator, sentences, *limits, bool(inference_step_args), leaves_out_long
            ):
                hypotheses = hub.task.inference_step(
                    generator, models, batch, **inference_step_args
                )
                if len(sentences) == 1:
                    return hypotheses
                found += zip(batch["id"].tolist(), hypotheses)
        return [hypotheses for _, hypotheses in sorted(found, key=lambda pair: pair[0])]


def _build(hub: Any, options: dict[str, Any]) -> Any:
    """Build a generator as ``GeneratorHubInterface.generate`` does."""
    _check_options(hub.task, options)
    args = copy.deepcopy(hub.cfg.generation)
    with open_dict(args):
        for name, value in options.items():
            setattr(args, name, value)
    return hub.task.build_generator(hub.models, args)


def _key(hub: Any, options: dict[str, Any], place: Hashable) -> Optional[Hashable]:
    """Everything that a generator depends on; the hub's options may change between calls."""
    key = key_of(options)
    task = hub.task.args if hub.task.cfg is None else hub.task.cfg
    # Direct access, since OmegaConf's checks in hub.cfg.generation are slow.
    generation = vars(hub.cfg)["_content"]["generation"]
    return None if key is None else (place, key, _values(generation), _values(task))


def _values(options: Any) -> Hashable:
    """The values of options; lists are converted to text."""
    if not isinstance(options, DictConfig):
        return str(options)
    nodes = vars(options)["_content"].values()
    try:
        return tuple(map(object.__getattribute__, nodes, itertools.repeat("_val")))
    except AttributeError:  # lists
        return tuple([str(node) if isinstance(node, Container) else node._val for node in nodes])


def _check_lengths(hub: Any, sentences: Any) -> None:
    """Check that no sentence, int64 ``[T]``, exceeds the model's positions."""
    # Multilingual models have limits by language pair, which are not checked here.
    limit = SourceLimit.of(hub.max_positions, None).most
    for number, tokens in enumerate(sentences):
        if limit is not None and len(tokens) > limit:
            raise ValueError(
                f"sentence {number} (from 0): has {len(tokens)} source tokens, but the model has "
                f"positions for {limit}; split it, or leave it out with "
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
                f"{name}: not an option of {type(task).__name__}; call "
                "fairseq_fastdec.tasks.register_fastdec(NAME OF THE TASK) before loading the model"
            )


def _with_own_tasks(overwrite: Callable, cfg: DictConfig, overrides: Any) -> None:
    """Apply overrides of the task's name and of options that a checkpoint does not have.

    fairseq only overwrites options that are in the checkpoint. For tasks without a dataclass, it
    overwrites everything and accepts any name.
    """
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


def _is_own(task: Any) -> bool:
    return issubclass(TASK_REGISTRY.get(task, object), FastDecoding)


def _names_in(cfg: Any) -> set[str]:
    """The names of a configuration on all levels."""
    names: set[str] = set()
    for name in cfg:
        names.add(name)
        node = cfg._get_node(name)
        if isinstance(node, DictConfig) and cfg.get(name) is not None:
            names |= _names_in(cfg[name])
        elif isinstance(node._value(), Namespace):
            names |= set(vars(cfg[name]))
    return names


def _check_overrides(unknown: Iterable[str]) -> None:
    """Reject misspelt options. Most unknown names are valid, for tokenisers; only similar ones
    count.
    """
    for name in unknown:
        nearest = difflib.get_close_matches(name, OWN, n=1, cutoff=0.75)
        if nearest and name not in OWN:
            raise ValueError(f"{name}: not an option of the model; did you mean {nearest[0]}?")
