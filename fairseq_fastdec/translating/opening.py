"""A call from Python: from text to translations, with a bundle or with the models of checkpoints.

import fairseq_fastdec

translator = fairseq_fastdec.load("checkpoint_best.pt", "data-bin/en-de")
translator.translate("Hello world.")
"""

import importlib
import os
from typing import Any

from .bundle_file import is_bundle


def load(path: Any, *arguments: Any, **options: Any) -> Any:
    """Load a translation model.

    Args:
        path: a bundle of ``python -m fairseq_fastdec export``, which needs neither torch nor
            fairseq; or a checkpoint, a directory with one, or a list of either.
        arguments, options: passed to :meth:`~.bundle.BundleTranslator.of` or
            :func:`~.checkpoints.loading.load`: decoding options and, for checkpoints, dictionaries,
            languages, tokeniser and BPE.

    Returns:
        a :class:`~.translator.Translator`

    Raises:
        ModuleNotFoundError: if a checkpoint needs torch or fairseq, and it is not installed.
        OSError: if a file is missing; the message names it.
        ValueError: for an option that the method does not support, for incompatible files, and for
            a bundle that is damaged or has another version.
    """
    if is_bundle(path):
        module = importlib.import_module(".bundle", __package__)
        return module.BundleTranslator.of(path, *arguments, **options)
    try:
        module = importlib.import_module("..checkpoints.loading", __package__)
    except ModuleNotFoundError as error:  # without fairseq
        if isinstance(path, (str, os.PathLike)) and not os.path.exists(path):
            raise FileNotFoundError(f"{path}: no such file or directory") from error
        raise
    return module.load(path, *arguments, **options)
