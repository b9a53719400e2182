"""What is needed to run fairseq safely on today's torch; no other module works around versions.

Checkpoints are data from strangers, so they are read with torch's restricted unpickler
(``weights_only=True``), which refuses every class it was not told of. fairseq's own checkpoints
hold a few besides tensors: :func:`install` names exactly those and never turns the check off.
"""

import argparse
import os

import numpy
import torch

try:
    from numpy._core import multiarray
except ImportError:  # numpy 1
    from numpy.core import multiarray


def install() -> None:
    """Make ``torch.load`` accept fairseq's checkpoints, and only with the restricted unpickler."""
    torch.serialization.add_safe_globals(_checkpoint_classes())
    # torch 2.4 and 2.5 still default to the unrestricted unpickler, and fairseq does not choose.
    os.environ.setdefault("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")


def _checkpoint_classes() -> list:
    """The classes in the checkpoints of fairseq-train.

    ``Namespace`` holds the options of models with the classic argument parser; numpy arrays are
    the BLEU counts in the saved training meters when the run used ``--eval-bleu``.
    """
    array_types = {type(numpy.dtype(code)) for code in ("i4", "i8", "f4", "f8")}
    return [
        argparse.Namespace,
        numpy.ndarray,
        numpy.dtype,
        multiarray._reconstruct,
        multiarray.scalar,
        *sorted(array_types, key=lambda cls: cls.__name__),
    ]
