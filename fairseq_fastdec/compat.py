"""Makes fairseq run safely on today's torch; no other module works around versions.

fairseq's main branch also loses sentences: :func:`install` gives them back. And fairseq-train does
not tell the task what it goes on from: now it does. The first of several workers reads a
checkpoint, and the others can take it from there again. A checkpoint that cannot be read is named.
``--tokenizer moses`` needs no ``-s -t`` where the data say the languages, and ``--help`` of
fairseq's commands has the options of a task, an architecture and a criterion (:mod:`~.help`). The
progress bar tells :mod:`~.progress` that it is there. ``--task translation_from_pretrained_bart``
finds its options where it looks for them.

Checkpoints are data from strangers, so they are read with torch's restricted unpickler
(``weights_only=True``), which refuses every class it was not told of. fairseq's own checkpoints
hold a few besides tensors: :func:`install` names exactly those and never turns the check off.
"""

import _codecs
import argparse
import errno
import functools
import logging
import os
import pickle
import re
import sys
from collections.abc import Sequence
from typing import Any, Optional

import numpy
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import data_utils
from fairseq.dataclass import utils as dataclass_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.trainer import Trainer

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1
    from numpy.core import multiarray  # type: ignore[no-redef]

from . import help, progress
from .data.languages import infer_languages

logger = logging.getLogger(__name__)

# An environment variable that users of fairseq set for torch 2.6 and newer, which refuses fairseq's
# checkpoints otherwise. torch takes it and its opposite together for an error.
UNRESTRICTED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


class UnreadableCheckpoint(pickle.UnpicklingError, ValueError):
    """A checkpoint that is damaged, or holds more than data; the message names the file."""


def install() -> None:
    """Make checkpoints load, and only safely, models run, and no sentence be dropped."""
    torch.serialization.add_safe_globals(_checkpoint_classes())
    # torch 2.4 and 2.5 still default to the unrestricted unpickler, and fairseq does not choose.
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if os.environ.pop(UNRESTRICTED, None) is not None:
        logger.warning(
            "%s: ignored; with fairseq_fastdec fairseq's checkpoints load without it, by torch's "
            "restricted unpickler",
            UNRESTRICTED,
        )
    _avoid_stale_encoder_kernel()
    if not hasattr(data_utils.batch_by_size, "__wrapped__"):
        data_utils.batch_by_size = _with_last_batch(data_utils.batch_by_size)
    if not hasattr(checkpoint_utils.load_checkpoint_to_cpu, "__wrapped__"):
        checkpoint_utils.load_checkpoint_to_cpu = _naming_the_file(
            checkpoint_utils.load_checkpoint_to_cpu
        )
    if not hasattr(Trainer.load_checkpoint, "__wrapped__"):
        Trainer.load_checkpoint = _with_check_by_task(Trainer.load_checkpoint)
    if not hasattr(options.parse_args_and_arch, "__wrapped__"):
        options.parse_args_and_arch = _with_help_at_last(options.parse_args_and_arch)
    distributed_utils._broadcast_object_slow = _broadcast_object
    if not hasattr(dataclass_utils.override_module_args, "__wrapped__"):
        dataclass_utils.override_module_args = _with_languages(dataclass_utils.override_module_args)
    if not hasattr(TranslationFromPretrainedBARTTask.__init__, "__wrapped__"):
        TranslationFromPretrainedBARTTask.__init__ = _with_args(
            TranslationFromPretrainedBARTTask.__init__
        )
    progress.install()


def _checkpoint_classes() -> list:
    """The classes in the checkpoints of fairseq-train.

    ``Namespace`` holds the options of models with the classic argument parser; numpy arrays are
    the BLEU counts in the saved training meters when the run used ``--eval-bleu``. Until 2019 the
    meters themselves were saved, from the module that they were in then.
    """
    array_types = {type(numpy.dtype(code)) for code in ("i4", "i8", "f4", "f8")}
    return [
        argparse.Namespace,
        numpy.ndarray,
        numpy.dtype,
        multiarray._reconstruct,
        multiarray.scalar,
        _codecs.encode,  # how numpy pickles bytes; torch allows it by itself from 2.6 on
        *sorted(array_types, key=lambda cls: cls.__name__),
        *(
            type(meter.__name__, (meter,), {"__module__": "fairseq.meters"})
            for meter in (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
        ),
    ]


def _avoid_stale_encoder_kernel() -> None:
    """fairseq 0.12.2 calls a private kernel of torch 1.12 for post-norm encoders.

    Its arguments have changed since: evaluation dies with "Mask Type should be defined". The
    layer's own computation, which it takes in training, gives the same.
    """
    layer = TransformerEncoderLayerBase
    if "can_use_fastpath" in layer.__init__.__code__.co_names:
        layer.can_use_fastpath = property(lambda self: False, lambda self, value: None)


def _with_last_batch(batch_by_size):
    """fairseq after 0.12.2 drops the last batch if its size is no multiple of what was asked for.

    With fairseq-generate's default (--required-batch-size-multiple 8) up to seven sentences of a
    test set, or a whole small one, are silently not translated. 0.12.2 keeps them.
    """

    @functools.wraps(batch_by_size)
    def batch_all(indices, *args, fixed_shapes=None, **kwargs):
        if fixed_shapes is not None:
            return batch_by_size(indices, *args, fixed_shapes=fixed_shapes, **kwargs)
        if len(indices) == 0:
            return []
        batches = list(batch_by_size(indices, *args, **kwargs))
        n_batched = sum(len(batch) for batch in batches)
        if n_batched < len(indices):
            batches.append(indices[n_batched:])
        return batches

    return batch_all


def _naming_the_file(load_checkpoint_to_cpu):
    """torch's errors say neither which file it is, nor in one line what is wrong with it."""

    @functools.wraps(load_checkpoint_to_cpu)
    def load_named(path, *args, **kwargs):
        try:
            return load_checkpoint_to_cpu(path, *args, **kwargs)
        except pickle.UnpicklingError as error:
            name = re.search(r"GLOBAL (\S+)", str(error))
            if name is None:
                raise _damaged(path, error) from error
            raise UnreadableCheckpoint(
                f"{path}: holds {name.group(1)}, which no checkpoint of fairseq needs and which "
                "could run anything: it is not loaded; ask for one that holds data only"
            ) from error
        except (EOFError, KeyError, RuntimeError, TypeError, UnicodeError) as error:
            raise _damaged(path, error) from error
        except OSError as error:
            # Where the end is missing, torch looks for it before the file's beginning.
            if error.errno == errno.EINVAL and error.filename is None:
                raise _damaged(path, error) from error
            raise

    return load_named


def _damaged(path: str, error: Exception) -> UnreadableCheckpoint:
    # torch's further sentences propose to read the file without its check, which is no remedy.
    reason = re.split(r"\. |\n", str(error))[0]
    return UnreadableCheckpoint(
        f"{path}: is damaged, or no checkpoint of fairseq ({type(error).__name__}: {reason}); name "
        "another, or fetch it again"
    )


def _with_check_by_task(load_checkpoint):
    """fairseq-generate hands a checkpoint's ``task_state`` to the task, fairseq-train does not.

    So training would go on from a checkpoint of something else. Tasks that have a
    ``check_restored`` now see the state first. --finetune-from-model takes parameters from
    anywhere, but not for a network of another shape: those that have a ``check_finetuned`` see
    that checkpoint before torch lists the parameters that differ.
    """

    @functools.wraps(load_checkpoint)
    def load_checked(trainer, filename, *args, **kwargs):
        finetunes = filename == trainer.cfg.checkpoint.finetune_from_model
        check = getattr(trainer.task, "check_finetuned" if finetunes else "check_restored", None)
        if check is None:
            return load_checkpoint(trainer, filename, *args, **kwargs)
        read = checkpoint_utils.load_checkpoint_to_cpu

        def read_checked(*read_args, **read_kwargs):
            state = read(*read_args, **read_kwargs)
            if finetunes:
                check(filename, state, trainer.cfg.model, trainer.get_model())
            else:
                check(state.get("task_state") or {})
            return state

        checkpoint_utils.load_checkpoint_to_cpu = read_checked
        try:
            return load_checkpoint(trainer, filename, *args, **kwargs)
        finally:
            checkpoint_utils.load_checkpoint_to_cpu = read

    return load_checked


def _with_args(init):
    """The task reads ``self.args``; its base has kept them as ``self.cfg`` since fairseq 0.11.

    So it could neither train nor decode: "object has no attribute 'args'".
    """

    @functools.wraps(init)
    def init_with_args(task, args, *dictionaries, **keywords):
        task.args = args
        init(task, args, *dictionaries, **keywords)

    return init_with_args


def _with_languages(override_module_args):
    """fairseq hands its Moses tokeniser the languages of the command line, and fails if there are
    none, although the task would find them in the data.
    """

    @functools.wraps(override_module_args)
    def override_with_languages(args):
        if getattr(args, "tokenizer", None) == "moses" and hasattr(args, "data"):
            try:
                infer_languages(args)
            except (OSError, ValueError) as error:
                raise ValueError(f"--tokenizer moses: needs the languages: {error}") from error
        return override_module_args(args)

    return override_with_languages


def _with_help_at_last(parse_args_and_arch):
    """fairseq parses twice, and adds what a task, an architecture, ... has to offer in between.

    ``--help`` would end the program the first time, before those options are there. So the first
    pass does not see it, nor ``--help-all``, which this adds.
    """

    @functools.wraps(parse_args_and_arch)
    def parse_and_help(parser, input_args=None, *args, **kwargs):
        arguments = list(sys.argv[1:] if input_args is None else input_args)
        without_help = [argument for argument in arguments if not help.asks_for_help(argument)]
        required = [action for action in parser._actions if action.required]

        def parse_known_args(_: Optional[Sequence[str]] = None) -> tuple[Any, Sequence[str]]:
            parser.__dict__.pop("parse_known_args", None)
            # Whoever asks for help need not give what is required.
            _set_required(required, False)
            try:
                args, rest = parser.parse_known_args(without_help)
            finally:
                _set_required(required, True)
            if getattr(args, "arch", "") is None:
                del args.arch  # which fairseq-train then would look for
            help.set_help(parser, args, is_short=help.ALL not in arguments)
            return args, rest

        if arguments != without_help:
            help.add_all(parser)
            parser.parse_known_args = parse_known_args
        return parse_args_and_arch(parser, input_args, *args, **kwargs)

    return parse_and_help


def _set_required(actions: Sequence[argparse.Action], is_required: bool) -> None:
    for action in actions:
        action.required = is_required


def _broadcast_object(obj: Any, src_rank: int, group: object, dist_device: torch.device) -> Any:
    """An object without tensors of one worker, on all of them.

    fairseq passes a checkpoint that one worker has read on as a checkpoint again, with options of
    omegaconf's classes by now, which torch's restricted unpickler refuses. Workers of one training
    are no strangers to each other: fairseq gathers their logs by pickle, too.
    """
    is_source = distributed_utils.get_rank(group) == src_rank
    data = pickle.dumps(obj) if is_source else b""
    length = torch.tensor([len(data)], device=dist_device)
    distributed_utils.broadcast(length, src=src_rank, group=group)
    if is_source:
        buffer = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(dist_device)
    else:
        buffer = torch.empty(int(length), dtype=torch.uint8, device=dist_device)
    distributed_utils.broadcast(buffer, src=src_rank, group=group)
    return obj if is_source else pickle.loads(buffer.cpu().numpy().tobytes())
