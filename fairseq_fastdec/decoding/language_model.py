"""The language model of ``--lm-path``, whose log-probabilities are added to the translation's."""

import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.modules import LearnedPositionalEmbedding

from ..processes.errors import in_short

# fairseq's name for the dictionary of a language model.
DICTIONARY = "dict.txt"
# The weight of fairseq's generator, if a Python program gives it a model without a weight.
USUAL_WEIGHT = 1.0


class LanguageModel(NamedTuple):
    """A language model of the target's dictionary, as in fairseq's ``SequenceGenerator``.

    Attributes:
        model: a ``transformer_lm``.
        weight: the factor of its log-probabilities, not 0.
    """

    model: FairseqLanguageModel
    weight: float

    @property
    def max_positions(self) -> float:
        """The maximum number of tokens that it can read; infinity without learned positions."""
        positions = self.model.decoder.embed_positions
        is_limited = isinstance(positions, LearnedPositionalEmbedding)
        return positions.max_positions if is_limited else float("inf")

    @classmethod
    def of(
        cls,
        args: Any,
        extra: Mapping[str, Any],
        dictionary: Dictionary,
        model: FairseqEncoderDecoderModel,
    ) -> Optional["LanguageModel"]:
        """The language model of a generator; ``None`` if there is none, or its weight is 0.

        Args:
            args: fairseq's generation options.
            extra: fairseq's ``extra_gen_cls_kwargs``: fairseq-generate has loaded the model.
            dictionary: the target's.
            model: of the ensemble, with the device and the dtype.

        Raises:
            ValueError: for a file that is no language model, or one with another dictionary.
        """
        given, path = extra.get("lm_model"), getattr(args, "lm_path", None)
        weight = getattr(args, "lm_weight", 0.0)
        if given is not None:
            weight = extra.get("lm_weight", USUAL_WEIGHT)
        if weight == 0 or (given is None and path is None):
            return None
        if given is None:
            given = _kept(str(path), dictionary, model)
        _check_dictionary(path, given.decoder.dictionary, dictionary)
        given.eval()
        return cls(given, float(weight))


# The models that were loaded, by path, for generators that share a translation model.
_LOADED: "weakref.WeakKeyDictionary[Any, dict[str, Any]]" = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def _kept(path: str, dictionary: Dictionary, model: FairseqEncoderDecoderModel) -> Any:
    """The language model of a file, which is loaded once for a translation model."""
    with _LOCK:
        loaded = _LOADED.setdefault(model, {})
        if path not in loaded:
            loaded[path] = _loaded(path, dictionary)
        like = next(model.decoder.parameters())
        return loaded[path].to(device=like.device, dtype=like.dtype)


def _loaded(path: str, dictionary: Dictionary) -> Any:
    """
    Raises:
        ValueError: see :meth:`LanguageModel.of`.
    """
    # Imported late, since few commands need it.
    from fairseq.tasks.language_modeling import LanguageModelingTask

    own = Path(path).with_name(DICTIONARY)
    if own.is_file():
        _check_dictionary(path, Dictionary.load(str(own)), dictionary)
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        n_types = state["model"].get("decoder.embed_tokens.weight", torch.empty(0)).size(0)
        if n_types in (0, len(dictionary)):
            task = LanguageModelingTask(None, dictionary, dictionary, targets=[])
            ((lm,), _) = checkpoint_utils.load_model_ensemble([path], task=task, state=state)
            return lm
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(
            f"--lm-path {path}: cannot be loaded ({in_short(error)}); give a checkpoint of "
            "fairseq-train --task language_modeling"
        ) from error
    raise ValueError(
        f"--lm-path {path}: the model has {n_types} types, and the target dictionary "
        f"{len(dictionary)}; give one that was trained with the target dictionary"
    )


def _check_dictionary(path: Optional[str], own: Dictionary, target: Dictionary) -> None:
    """
    Raises:
        ValueError: for a language model with another dictionary than the target's.
    """
    if own.symbols == target.symbols and len(own) == len(target):
        return
    pairs = enumerate(zip(own.symbols, target.symbols))
    differs = next((f"type {at} is {a}, not {b}" for at, (a, b) in pairs if a != b), None)
    counts = f"it has {len(own)} types, not {len(target)}"
    raise ValueError(
        f"--lm-path{f' {path}' if path else ''}: the model's dictionary is not the target's: "
        f"{differs or counts}; give one that was trained with the target dictionary"
    )
