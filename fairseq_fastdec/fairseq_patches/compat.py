"""Compatibility of fairseq with current versions of torch, and fixes of fairseq's bugs.

:func:`install` does the following, besides making checkpoints and models work. Sentences that
fairseq's main branch drops are kept. fairseq-train passes the state of a restored checkpoint to the
task, and continues with the batches that it had before. A checkpoint that one of several workers
has read can be broadcast again. Errors in reading a checkpoint name its file. ``--tokenizer moses``
needs no ``-s -t`` if the data determine the languages. fairseq-train rejects a precision that it
cannot use without a GPU. ``--help`` of fairseq's commands shows the options of the task,
architecture and criterion (:mod:`~.help`). :mod:`~.progress` gets access to the progress bar.
``--task translation_from_pretrained_bart`` works again. fairseq reads dictionaries, codes,
manifests and raw text in UTF-8, whatever the locale, and skips byte order marks. ``--replace-unk``
needs no file, and reads the alignments of ``--print-alignment``. Threads that prepare batches end
before the process does.

Checkpoints are untrusted data, so they are read with torch's restricted unpickler
(``weights_only=True``), which rejects classes that are not on its list. fairseq's checkpoints
contain a few classes besides tensors: :func:`install` adds exactly those and never turns the check
off.
"""

import _codecs
import argparse
import ast
import atexit
import contextlib
import errno
import io
import json
import logging
import os
import pickle
import queue
import re
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import numpy
import torch
from fairseq import checkpoint_utils, file_utils, options, tasks, utils
from fairseq.data import (
    bucket_pad_length_dataset,
    data_utils,
    dictionary,
    encoders,
    indexed_dataset,
    iterators,
    language_pair_dataset,
    token_block_dataset,
)
from fairseq.data.audio import data_cfg, speech_to_text_dataset
from fairseq.data.encoders import gpt2_bpe_utils
from fairseq.data.encoders.fastbpe import fastBPE
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE
from fairseq.data.multilingual import multilingual_data_manager
from fairseq.dataclass import utils as dataclass_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.tasks import TASK_REGISTRY, FairseqTask, speech_to_text
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig, open_dict

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1
    from numpy.core import multiarray  # type: ignore[no-redef]

from ..data.text import MARK, PathLike, check_is_not_read, open_text, opened
from ..processes.errors import PACKAGE, first_line, flag_of, in_short
from . import help, progress
from .languages import infer_languages
from .wrapping import wrap

logger = logging.getLogger(__name__)

# The modules with fairseq's readers of dictionaries, codes, lexicons, raw data, lists of languages,
# and the manifests and configurations of speech.
READERS: tuple[Any, ...] = (
    data_cfg,
    dictionary,
    gpt2_bpe_utils,
    indexed_dataset,
    multilingual_data_manager,
    speech_to_text,
    speech_to_text_dataset,
    utils,
)

# An environment variable that users of fairseq set so that torch 2.6 and newer load its
# checkpoints. torch raises an error if both this variable and its opposite are set.
UNRESTRICTED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"

# Seconds to wait at the end of a process for the batch that a thread is preparing.
LAST_BATCH = 10.0


class UnreadableCheckpoint(pickle.UnpicklingError, ValueError):
    """A checkpoint that is damaged or contains executable code; the message names the file."""


def install() -> None:
    """Apply all patches; see the module's description."""
    torch.serialization.add_safe_globals(_checkpoint_classes())
    # torch 2.4 and 2.5 default to the unrestricted unpickler, and fairseq does not set it. Newer
    # versions need no variable, which would also overrule ``weights_only=False`` in other code of
    # the process.
    if torch.__version__ < "2.6":  # compared as versions
        os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if os.environ.pop(UNRESTRICTED, None) is not None:
        logger.warning(
            "%s: ignored; fairseq_fastdec loads fairseq's checkpoints with torch's restricted "
            "unpickler",
            UNRESTRICTED,
        )
    _avoid_stale_encoder_kernel()
    wrap(data_utils, "batch_by_size", _with_last_batch)
    for module in (data_utils, bucket_pad_length_dataset):
        wrap(module, "get_buckets", _buckets)
    for module in (data_utils, language_pair_dataset, token_block_dataset):
        module.np = OldNumpy("numpy")
    wrap(indexed_dataset, "make_dataset", _naming_the_data)
    for owner in (indexed_dataset.MMapIndexedDataset, indexed_dataset.MMapIndexedDataset.Index):
        wrap(owner, "__del__", _if_it_was_read)
    wrap(dictionary.Dictionary, "add_from_file", _naming_the_dictionary)
    wrap(checkpoint_utils, "load_checkpoint_to_cpu", _naming_the_file)
    wrap(checkpoint_utils, "load_checkpoint_to_cpu", _with_current_task)
    wrap(checkpoint_utils, "overwrite_args_by_name", _overwriting_current_task)
    wrap(checkpoint_utils, "verify_checkpoint_directory", _naming_save_dir)
    wrap(FairseqTask, "get_batch_iterator", _with_first_batches)
    wrap(Trainer, "__init__", _with_checks_of_training)
    wrap(Trainer, "load_checkpoint", _with_check_by_task)
    wrap(options, "parse_args_and_arch", _with_help_at_last)
    wrap(options, "parse_args_and_arch", _with_checked_values)
    wrap(utils, "import_user_module", _from_anywhere)
    wrap(utils, "load_align_dict", _with_empty_table)
    wrap(utils, "replace_unk", _by_alignment)
    distributed_utils._broadcast_object_slow = _broadcast_object
    wrap(dataclass_utils, "override_module_args", _with_languages)
    wrap(tasks, "merge_with_parent", _without_old_options)
    wrap(TranslationFromPretrainedBARTTask, "__init__", _with_args)
    for module in READERS:
        module.open = open_text
    wrap(SubwordNMTBPE, "__init__", _with_codes_in_utf8)
    wrap(fastBPE, "__init__", _without_mark)
    progress.install()
    atexit.register(_end_preparing)


def _checkpoint_classes() -> list:
    """The classes in the checkpoints of fairseq-train.

    ``Namespace`` holds the options of models with the classic argument parser. With
    ``--eval-bleu``, the saved training meters contain numpy arrays of BLEU counts. Until 2019 the
    meters themselves were saved, under the name of their module at the time.
    """
    array_types = {type(numpy.dtype(code)) for code in ("i4", "i8", "f4", "f8")}
    return [
        argparse.Namespace,
        numpy.ndarray,
        numpy.dtype,
        multiarray._reconstruct,
        multiarray.scalar,
        _codecs.encode,  # how numpy pickles bytes; torch 2.6 and newer allow it by default
        *sorted(array_types, key=lambda cls: cls.__name__),
        *(
            type(meter.__name__, (meter,), {"__module__": "fairseq.meters"})
            for meter in (meters.AverageMeter, meters.StopwatchMeter, meters.TimeMeter)
        ),
    ]


def _avoid_stale_encoder_kernel() -> None:
    """Disable a private kernel of torch 1.12 that fairseq 0.12.2 calls for post-norm encoders.

    Its arguments have changed since: evaluation fails with "Mask Type should be defined". The
    layer's regular computation, as in training, gives the same result.
    """
    layer = TransformerEncoderLayerBase
    if "can_use_fastpath" in layer.__init__.__code__.co_names:
        layer.can_use_fastpath = property(lambda self: False, lambda self, value: None)


def _with_last_batch(batch_by_size, indices, *args, fixed_shapes=None, **kwargs):
    """Keep the last batch, which fairseq after 0.12.2 drops if its size is not a multiple.

    With fairseq-generate's default (--required-batch-size-multiple 8), up to seven sentences of a
    test set, or all of a small one, are silently not translated. 0.12.2 keeps them.
    """
    if fixed_shapes is not None:
        return batch_by_size(indices, *args, fixed_shapes=fixed_shapes, **kwargs)
    if len(indices) == 0:
        return []
    batches = list(batch_by_size(indices, *args, **kwargs))
    n_batched = sum(len(batch) for batch in batches)
    if n_batched < len(indices):
        batches.append(indices[n_batched:])
    return batches


class OldNumpy(types.ModuleType):
    """numpy with names that numpy 2 does not have, for modules of fairseq."""

    int, compat = int, argparse.Namespace(long=int)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


def _buckets(_, sizes, num_buckets):
    """``get_buckets``, which calls numpy with an argument that numpy 2 has renamed."""
    shares = numpy.linspace(0, 100, num_buckets + 1)
    return numpy.unique(numpy.percentile(sizes, shares, method="lower")[1:])


def _naming_the_data(make, path, *args, **kwargs):
    try:
        dataset = make(path, *args, **kwargs)
        if isinstance(dataset, indexed_dataset.MMapIndexedDataset) and len(dataset):
            dataset[len(dataset) - 1]  # raises an error if the file is cut short
        return dataset
    except (AssertionError, EOFError, ValueError, struct.error) as error:
        raise ValueError(
            f"{path}: is damaged, or not binarised data ({in_short(error)}); run "
            "fairseq-preprocess again"
        ) from error


def _if_it_was_read(close, dataset):
    """Delete a dataset whose files could not be read, which fairseq fails to do."""
    with contextlib.suppress(AttributeError):
        close(dataset)


def _naming_the_dictionary(add_from_file, dictionary, file):
    try:
        add_from_file(dictionary, file)
    except (RuntimeError, ValueError) as error:
        if not isinstance(file, str) or file in str(error):
            raise
        raise ValueError(f"{file}: {first_line(error)}") from error


def _naming_the_file(load_checkpoint_to_cpu, path, *args, **kwargs):
    with errors_with_name(path):
        return load_checkpoint_to_cpu(path, *args, **kwargs)


def _with_current_task(load_checkpoint_to_cpu, *args, **kwargs):
    state = load_checkpoint_to_cpu(*args, **kwargs)
    _rename_task(state.get("cfg"))
    return state


def _overwriting_current_task(overwrite_args_by_name, cfg, overrides):
    """Rename the task first, since options of its current name can be overwritten."""
    _rename_task(cfg)
    overwrite_args_by_name(cfg, overrides)


def _rename_task(cfg: Any) -> None:
    """Give the task in a checkpoint's configuration its current name."""
    # Older versions of omegaconf raise an error for keys that a closed configuration lacks.
    task = cfg.task if isinstance(cfg, DictConfig) and "task" in cfg else None
    if isinstance(task, argparse.Namespace):
        task.task = current_task(task.task)
        vars(task).update(_as_not_given(vars(task)))
    elif isinstance(task, DictConfig):
        with open_dict(task):
            task._name = current_task(str(task.get("_name")))
            task.update(_as_not_given(task))


def _as_not_given(task: Any) -> dict[str, Any]:
    """The options of a checkpoint with a default that is now ``None``, if they have it."""
    return {name: None for name, value in FORMER_DEFAULTS.items() if task.get(name) == value}


# Before 2026-11-28, the plugin also saved its own options.
FORMER_DEFAULTS = {"shortlist_first": 100, "shortlist_best": 100}


def current_task(name: str) -> str:
    """The current name of a task in a checkpoint.

    Before 2026-11-25, the plugin saved ``TASK_fastdec`` for fairseq's ``TASK``.
    """
    stock = name.removesuffix("_fastdec")
    is_old = stock != name and name not in TASK_REGISTRY and stock in TASK_REGISTRY
    return stock if is_old else name


def _naming_save_dir(verify_checkpoint_directory, save_dir):
    try:
        verify_checkpoint_directory(save_dir)
    except OSError as error:
        raise ValueError(
            f"--save-dir {save_dir}: cannot be written ({error.strerror}); name another directory"
        ) from error


@contextlib.contextmanager
def errors_with_name(path: PathLike) -> Iterator[None]:
    """Add the name of a checkpoint to errors of reading it, and shorten them to one line.

    Raises:
        OSError: if the file cannot be read.
        UnreadableCheckpoint: if it is damaged, is not a checkpoint or contains code.
    """
    try:
        yield
    except pickle.UnpicklingError as error:
        name = re.search(r"GLOBAL (\S+)", str(error))
        if name is None:
            raise _damaged(path, error) from error
        raise UnreadableCheckpoint(
            f"{path}: contains {name.group(1)}, which fairseq's checkpoints do not need and "
            "which could execute arbitrary code: it is not loaded; use a checkpoint that "
            "contains only data"
        ) from error
    except (EOFError, LookupError, RuntimeError, TypeError, UnicodeError, struct.error) as error:
        raise _damaged(path, error) from error
    except OSError as error:
        # For a truncated file torch seeks to a negative position.
        if error.errno == errno.EINVAL and error.filename is None:
            raise _damaged(path, error) from error
        raise


def _damaged(path: PathLike, error: Exception) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(
        f"{path}: is damaged, or not a checkpoint of fairseq ({in_short(error)}); use another, or "
        "download it again"
    )


def _with_first_batches(get_batch_iterator, task, dataset, *args, epoch=1, **kwargs):
    """Continue a training with the batches that it had before.

    They are made once, in the first epoch of a process, and fairseq after 0.12.2 draws the order of
    sentences of the same length from the seed and the number of that epoch.
    """
    makes_new = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
    keeps = task.can_reuse_epoch_itr(dataset) and not makes_new
    if not keeps or dataset in task.dataset_to_epoch_iter:
        return get_batch_iterator(task, dataset, *args, epoch=epoch, **kwargs)
    iterator = get_batch_iterator(task, dataset, *args, epoch=1, **kwargs)
    dataset.set_epoch(epoch)
    iterator.epoch = epoch
    return iterator


def _with_checks_of_training(init, trainer, cfg, task, model, criterion, *args, **kwargs):
    """Reject a precision for which fairseq would call CUDA or torch_xla without it.

    If the model has a ``warn_of_training``, it is called with the configuration and the criterion.
    """
    common = cfg.common
    remedy = "use --cpu-autocast (matrix products in bfloat16), or remove it"
    if common.tpu and utils.xm is None:
        flag = "--bf16" if common.bf16 else "--tpu"
        raise ValueError(f"{flag}: fairseq needs torch_xla for it; {remedy}")
    flattens = not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads)
    if common.fp16 and flattens and not torch.cuda.is_available():
        raise ValueError(f"--fp16: needs a GPU, or --memory-efficient-fp16; {remedy}")
    if hasattr(model, "warn_of_training"):
        model.warn_of_training(cfg, criterion)
    init(trainer, cfg, task, model, criterion, *args, **kwargs)


def _with_check_by_task(load_checkpoint, trainer, filename, *args, **kwargs):
    """Pass a checkpoint's ``task_state`` to the task in fairseq-train, as fairseq-generate does.

    Otherwise training could continue from a checkpoint of a different task. If the task has a
    ``check_restored``, it is called with the state first. With --finetune-from-model, its
    ``check_finetuned`` is called with the checkpoint, before torch would report parameters of
    different shapes.
    """
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


def _without_old_options(merge, config, options, *_, **__):
    """Drop a checkpoint's task options that exist no longer, as fairseq after 0.12.2 does.

    Otherwise checkpoints of another version of this package could not be loaded.
    """
    return merge(config, options, remove_missing=True)


def _with_args(init, task, args, *dictionaries, **keywords):
    """Set ``self.args``, which the task reads; its base class has only ``self.cfg`` since 0.11.

    Otherwise it fails in training and decoding: "object has no attribute 'args'".
    """
    task.args = args
    init(task, args, *dictionaries, **keywords)


def _with_codes_in_utf8(init, bpe, cfg):
    """Read the codes in UTF-8, and close the file.

    subword-nmt reads them in the locale's encoding, and takes a byte order mark for a letter.
    """
    try:
        from subword_nmt.apply_bpe import BPE
    except ImportError:
        BPE = None
    if BPE is None or cfg.bpe_codes is None:
        return init(bpe, cfg)  # raises an error
    with opened(file_utils.cached_path(cfg.bpe_codes)) as file:
        codes = io.StringIO(file.read())
    try:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            bpe.bpe = BPE(codes, separator=cfg.bpe_separator)
    except (LookupError, SystemExit, ValueError) as error:  # subword-nmt exits
        reason = told.getvalue().partition("\n")[0] or first_line(error)
        raise ValueError(
            f"--bpe-codes {cfg.bpe_codes}: not codes of subword-nmt ({reason}); name its file"
        ) from error
    bpe.bpe_symbol = f"{cfg.bpe_separator} "


def _without_mark(init, bpe, cfg):
    """Reject codes that begin with a byte order mark: fastBPE, which opens them, would read it.

    Raises:
        ValueError: for such a file.
    """
    if cfg.bpe_codes is not None and os.path.isfile(cfg.bpe_codes):
        with open(cfg.bpe_codes, "rb") as file:
            if file.read(len(MARK)) == MARK:
                raise ValueError(
                    f"--bpe-codes {cfg.bpe_codes}: begins with a byte order mark, which fastBPE "
                    "would take for a letter; remove these 3 bytes"
                )
    init(bpe, cfg)


def _with_languages(override_module_args, args):
    """Find the languages for the Moses tokeniser in the data, as the task does.

    fairseq takes them only from the command line, and fails if they are not given.
    """
    if getattr(args, "tokenizer", None) == "moses" and hasattr(args, "data"):
        try:
            infer_languages(args)
        except (OSError, ValueError) as error:
            raise ValueError(f"--tokenizer moses: needs the languages: {error}") from error
    return override_module_args(args)


def _from_anywhere(import_user_module, args):
    """Find this package by its name in any directory, and name the option for a missing one.

    fairseq looks for ``--user-dir`` in the current directory and next to itself, where an editable
    installation has no files.
    """
    user_dir = getattr(args, "user_dir", None) or ""
    if user_dir == PACKAGE and not os.path.exists(user_dir):
        return
    try:
        import_user_module(args)
    except FileNotFoundError as error:
        if str(error) != os.path.abspath(user_dir):
            raise
        raise FileNotFoundError(
            f"--user-dir {user_dir}: no such directory; give the directory of a plugin"
        ) from error


def _with_empty_table(load_align_dict, replace_unk):
    """Without a file, ``--replace-unk`` copies source words; fairseq looks for the file "@@ "."""
    return load_align_dict("" if replace_unk == "@@ " else replace_unk)


def _by_alignment(replace_unk, hypo_str, src_str, alignment, align_dict, unk):
    """fairseq expects the place of a source word for each word of a hypothesis.

    Its own alignments are pairs of places (``hard``) or strings of probabilities (``soft``).
    """
    words = hypo_str.split()
    if not isinstance(alignment, list) or unk not in words:
        return replace_unk(hypo_str, src_str, alignment, align_dict, unk)
    is_soft = bool(alignment) and isinstance(alignment[0], list)
    if len(alignment) - is_soft != len(words):
        raise ValueError(
            "--replace-unk: the alignment is of subwords, and the translation of words; remove "
            "--post-process and --remove-bpe"
        )
    # The last probability, and the last word of a soft alignment, are EOS.
    places = [
        max(range(len(own) - 1), key=lambda at: float(own[at])) if is_soft else own[0]
        for own in alignment[: len(words)]
    ]
    return replace_unk(hypo_str, src_str, places, align_dict, unk)


def _with_checked_values(parse_args_and_arch, parser, *args, **kwargs):
    """Check values that fairseq uses without a check, and that --decoding-stats is not an input.

    Raises:
        ValueError: for an invalid value; it names the flag.
    """
    try:
        parsed = parse_args_and_arch(parser, *args, **kwargs)
    except RuntimeError as error:
        if str(error):
            raise
        raise ValueError("--arch: give an architecture, such as --arch transformer") from error
    options = parsed[0] if isinstance(parsed, tuple) else parsed
    for table, is_of_all in ((VALUES, False), (TOGETHER, True)):
        for name, (is_valid, wanted) in table.items():
            value = getattr(options, name, None)
            if value is not None and not is_valid(options if is_of_all else value):
                raise ValueError(f"{flag_of(name)} {value}: must be {wanted}")
    others = {**vars(options), "decoding_stats": None}
    files = [part for value in map(str, others.values()) for part in value.split(os.pathsep)]
    if getattr(options, "decoding_stats", None) is not None:
        check_is_not_read("--decoding-stats", options.decoding_stats, files)
    return parsed


def _is_dictionary(text: str) -> bool:
    try:
        return isinstance(ast.literal_eval(text), dict)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_positive(value: float) -> bool:
    return value >= 1


def _is_share(value: float) -> bool:
    return 0 <= value <= 1


def _are_decays(text: str) -> bool:
    try:
        first, second = ast.literal_eval(str(text))
        return 0 <= first < 1 and 0 <= second < 1
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False


# Options by name: a test of the value, and what it must be.
VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model_overrides": (_is_dictionary, "a dictionary of Python, such as \"{'dropout': 0}\""),
    "optimizer_overrides": (_is_dictionary, "a dictionary of Python, such as \"{'lr': 0.1}\""),
    "eval_bleu_args": (_is_json_object, "an object of JSON, such as '{\"beam\": 5}'"),
    "eval_bleu_detok_args": (_is_json_object, "an object of JSON, such as '{}'"),
    "beam": (_is_positive, "at least 1"),
    "nbest": (_is_positive, "at least 1"),
    "seed": (lambda seed: 0 <= seed < 1 << 32, "from 0 to 4294967295"),
    "update_freq": (lambda numbers: min(numbers, default=0) >= 1, "at least 1"),
    "adam_betas": (_are_decays, "two numbers from 0 to below 1, such as '(0.9, 0.98)'"),
    "epoch2lr": (_is_dictionary, "a dictionary of Python, such as '{1: 0.1}'"),
    "update2lr": (_is_dictionary, "a dictionary of Python, such as '{1: 0.1}'"),
    "eval_bleu_detok": (encoders.TOKENIZER_REGISTRY.__contains__, "moses, nltk or space"),
    "num_workers": (lambda number: number >= 0, "at least 0"),
    # fairseq parses the second as a string.
    **dict.fromkeys(("lr_period_updates", "total_num_update"),
                    (lambda number: str(number) not in ("0", "0.0"), "a number other than 0")),
    **dict.fromkeys(("dropout", "attention_dropout", "activation_dropout", "relu_dropout"),
                    (_is_share, "from 0 to 1")),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "log_interval",
                     "lr_deacy_period", "required_batch_size_multiple", "save_interval",
                     "validate_interval"),
                    (_is_positive, "at least 1")),
}  # fmt: skip
# Options by name: a test of all options, and what this one must be.
TOGETHER: dict[str, tuple[Callable[[Any], bool], str]] = {
    "warmup_updates": (
        lambda given: given.warmup_updates >= (given.lr_scheduler == "inverse_sqrt"),
        "at least 0, and with --lr-scheduler inverse_sqrt at least 1",
    ),
    "best_checkpoint_metric": (
        lambda given: given.best_checkpoint_metric != "bleu" or getattr(given, "eval_bleu", True),
        "a value that validation computes; add --eval-bleu for bleu",
    ),
}


def _with_help_at_last(parse_args_and_arch, parser, input_args=None, *args, **kwargs):
    """Show the options of the task, architecture and criterion in ``--help``.

    fairseq parses the arguments twice, and adds these options in between; ``--help`` would end the
    program in the first pass. So ``--help`` and ``--help-all``, which this adds, are removed from
    the first pass.
    """
    arguments = list(sys.argv[1:] if input_args is None else input_args)
    without_help = [argument for argument in arguments if not help.asks_for_help(argument)]
    required = [action for action in parser._actions if action.required]

    def parse_known_args(_: Optional[Sequence[str]] = None) -> tuple[Any, Sequence[str]]:
        parser.__dict__.pop("parse_known_args", None)
        # With --help, required options may be missing.
        _set_required(required, False)
        try:
            args, rest = parser.parse_known_args(without_help)
        finally:
            _set_required(required, True)
        if getattr(args, "arch", "") is None:
            del args.arch  # otherwise fairseq-train would look it up
        help.set_help(parser, args, is_short=help.ALL not in arguments)
        return args, rest

    if arguments != without_help:
        help.add_all(parser)
        parser.parse_known_args = parse_known_args
    return parse_args_and_arch(parser, input_args, *args, **kwargs)


def _set_required(actions: Sequence[argparse.Action], is_required: bool) -> None:
    for action in actions:
        action.required = is_required


def _broadcast_object(obj: Any, src_rank: int, group: object, dist_device: torch.device) -> Any:
    """Broadcast an object without tensors from one worker to all.

    fairseq broadcasts a checkpoint by saving it again, now with options in omegaconf's classes,
    which torch's restricted unpickler rejects. Pickle is safe here, since workers of one training
    trust each other; fairseq also gathers their logs by pickle.
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


def _end_preparing() -> None:
    """End fairseq's threads that prepare batches; the last one is still being prepared.

    Python ends the threads that are left by unwinding their stack, and C++ aborts the process if it
    is then in an operation of torch: after a training that ended within an epoch.
    """
    running = [t for t in threading.enumerate() if isinstance(t, iterators.BackgroundConsumer)]
    for thread in running:
        thread._max_len = 0
    until = time.monotonic() + LAST_BATCH
    for thread in running:
        while thread.is_alive() and time.monotonic() < until:
            # The thread may wait for room in its queue.
            with contextlib.suppress(queue.Empty):
                thread._queue.get(timeout=0.01)
