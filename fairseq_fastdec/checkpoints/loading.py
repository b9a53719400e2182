"""Loads translation models from checkpoints."""

import logging
import os
import tempfile
import weakref
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

from fairseq import checkpoint_utils
from fairseq.data.encoders import BPE_REGISTRY, TOKENIZER_REGISTRY

from ..data.model_files import (
    CODES,
    ENCODER_OF_GPT2,
    RECORDED,
    TARGET_PIECES,
    Codes,
    PathLike,
    bpe_of,
    checkpoints_of,
    codes_in,
    data_of,
    recorded_options,
)
from ..importing.recognising import reader_of
from ..processes.errors import in_short
from ..tasks.fast_decoding import FastDecoding
from ..translating.command_line import flags_of
from .codec import TaskCodec, subword_in
from .translator import CheckpointTranslator

logger = logging.getLogger(__name__)

AUTO = "auto"


def load(
    path: Union[PathLike, Sequence[PathLike]],
    data: Optional[PathLike] = None,
    source_lang: Optional[str] = None,
    target_lang: Optional[str] = None,
    tokenizer: Any = AUTO,
    bpe: Any = AUTO,
    bpe_codes: Optional[PathLike] = None,
    device: str = "cpu",
    **options: Any,
) -> "CheckpointTranslator":
    """Load a translation model.

    Args:
        path: a checkpoint; a directory with ``checkpoint.pt``, ``checkpoint_best.pt`` or a single
            ``*.pt``; or a list of either, which is an ensemble. Also a model of another program,
            see :mod:`..importing`.
        data: the directory of the dictionaries ``dict.LANGUAGE.txt`` (default: the checkpoint's).
        source_lang: default: the checkpoint's, or that of the binarised files in ``data``.
        target_lang: likewise.
        tokenizer: fairseq's name of a tokeniser, an object with ``encode(str) -> str`` and
            ``decode(str) -> str``, or ``None``; ``"auto"`` is Moses' if codes of subword-nmt or
            fastBPE are found.
        bpe: likewise; ``"auto"`` is the BPE for the format of ``bpe_codes``.
        bpe_codes: the file of the BPE (default: ``bpe.codes``, ``code``, ``bpecodes``,
            ``sentencepiece.bpe.model`` or ``spm.model`` next to the checkpoint or in ``data``).
        device: torch's device.
        options: decoding options of fairseq and this package, the defaults for all calls; and the
            size of batches, ``batch_size`` (sentences, default 32) and ``max_tokens`` (source
            tokens, default no limit).

    Raises:
        OSError: if a file is missing; the message names it.
        ValueError: for an option that the method does not support, or incompatible files.
    """
    if reader_of(path):
        if data is not None:
            raise ValueError(f"data {data}: {path} has dictionaries of its own; remove it")
        languages = {"source_lang": source_lang, "target_lang": target_lang}
        text = {"tokenizer": tokenizer, "bpe": bpe, "bpe_codes": bpe_codes}
        return _imported(path, {**languages, **text, "device": device, **options})
    checkpoints = checkpoints_of(path)
    folder = data_of(checkpoints[0], data)
    overrides = {"data": folder, "source_lang": source_lang, "target_lang": target_lang}
    models, cfg, task = _loaded(
        checkpoints, {name: value for name, value in overrides.items() if value is not None}
    )
    if not isinstance(task, FastDecoding):
        raise ValueError(
            f"path {checkpoints[0]}: its task, {type(task).__name__}, has no decoding methods; "
            "call fairseq_fastdec.tasks.register_fastdec(NAME OF THE TASK) first"
        )
    for model in models:
        model.prepare_for_inference_(cfg)
        model.to(device)
    folders = list(dict.fromkeys([os.path.dirname(checkpoints[0]) or ".", folder]))
    codec = _codec(task, tokenizer, bpe, bpe_codes, folders)
    return CheckpointTranslator(task, models, codec, device, options, recorded(checkpoints[0]))


def _imported(path: Any, options: dict[str, Any]) -> "CheckpointTranslator":
    """Import a model of another program for this process, and load it."""
    from ..importing.recognising import read
    from ..importing.writing import write

    logger.info(
        "%s: is imported for this run; python -m fairseq_fastdec import %s --destdir DIR writes "
        "a checkpoint, which is loaded faster", path, path,
    )  # fmt: skip
    directory = tempfile.TemporaryDirectory(prefix="fastdec-")
    write(read(path), Path(directory.name))
    translator = load(directory.name, **options)
    # Weights may stay in the file, and the files of the BPE are read for bundles.
    weakref.finalize(translator, directory.cleanup)
    return translator


def recorded(checkpoint: str) -> dict[str, Any]:
    """See :func:`~..data.model_files.recorded_options`; the log has them."""
    options = recorded_options(checkpoint)
    if options:
        path, flags = Path(checkpoint).with_name(RECORDED), " ".join(flags_of(options))
        logger.info("%s: the options that the model was published with: %s", path, flags)
    return options


def _loaded(checkpoints: list[str], overrides: dict[str, Any]) -> tuple[list[Any], Any, Any]:
    """Models, configuration and task of an ensemble."""
    try:
        return checkpoint_utils.load_model_ensemble_and_task(checkpoints, overrides)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error.filename or error}: no such file; give source_lang and target_lang, or "
            "data=DIRECTORY with dict.LANGUAGE.txt for both"
        ) from error
    except Exception as error:  # a damaged pickle may raise anything
        if isinstance(error, (OSError, ValueError)):
            raise
        if "infer language pair" in str(error):
            raise ValueError(
                "source_lang, target_lang: neither the checkpoint nor the files of "
                f"{overrides['data']} name the languages; give both"
            ) from error
        raise ValueError(
            f"path {', '.join(checkpoints)}: cannot be loaded ({in_short(error)}); give a complete "
            "checkpoint of fairseq-train that was trained with these dictionaries"
        ) from error


def _codec(
    task: Any, tokenizer: Any, bpe: Any, codes: Optional[PathLike], folders: list[str]
) -> TaskCodec:
    """The tokeniser and BPE given to :func:`load`, or those found.

    Raises:
        ValueError: for an unknown name, or if the dictionary has subwords but no codes are found.
    """
    for name, value, known in (
        ("tokenizer", tokenizer, TOKENIZER_REGISTRY),
        ("bpe", bpe, BPE_REGISTRY),
    ):
        if isinstance(value, str) and value not in (AUTO, *known):
            raise ValueError(f"{name} {value}: unknown; choose from {', '.join([AUTO, *known])}")
    found = Codes(str(codes), bpe_of(str(codes))) if codes is not None else codes_in(folders)
    if bpe == AUTO:
        subword = subword_in(task.target_dictionary)
        if found is None and subword is not None:
            raise ValueError(
                f"bpe auto: the dictionary has subwords such as {subword}, but no codes were found "
                f"(looked for {', '.join(CODES)} in {' and '.join(folders)}); give bpe_codes=FILE, "
                "or bpe=None for text in subwords"
            )
        bpe = None if found is None else found.bpe
    if tokenizer == AUTO:
        tokenizer = "moses" if bpe in ("subword_nmt", "fastbpe") else None
    names = Namespace(
        tokenizer=tokenizer,
        bpe=bpe,
        bpe_codes=None if found is None else found.path,
        sentencepiece_model=None if found is None else found.path,
        gpt2_vocab_bpe=None if found is None else found.path,
        gpt2_encoder_json=None
        if found is None
        else str(Path(found.path).with_name(ENCODER_OF_GPT2)),
        source_lang=getattr(task._options, "source_lang", None),
        target_lang=getattr(task._options, "target_lang", None),
    )
    if isinstance(tokenizer, str):
        tokenizer = task.build_tokenizer(names)
    kind = bpe
    bpe = task.build_bpe(names) if isinstance(bpe, str) else bpe
    of_target = None if found is None else Path(found.path).with_name(TARGET_PIECES)
    if kind != "sentencepiece" or of_target is None or not of_target.is_file():
        return TaskCodec(task, tokenizer, bpe, names.bpe_codes)
    names.sentencepiece_model = str(of_target)
    target_bpe = task.build_bpe(names)
    return TaskCodec(task, tokenizer, bpe, names.bpe_codes, target_bpe, str(of_target))
