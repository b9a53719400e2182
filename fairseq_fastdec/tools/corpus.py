"""Models, batches and text as in fairseq-generate, for other commands."""

import ast
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import BaseWrapperDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from torch import Tensor

from ..checkpoints.batches import max_positions_of
from ..fairseq_patches.languages import infer_languages
from ..processes.errors import in_short
from ..tasks import FastDecoding
from ..translating.text import detokenized


class SentenceRange(BaseWrapperDataset):
    """A pair dataset whose batches only have a range of sentences, with unchanged numbers."""

    def __init__(self, dataset: Any, sentences: range) -> None:
        """
        Args:
            dataset: the dataset of a translation task.
            sentences: the range of sentence numbers.
        """
        super().__init__(dataset)
        self._sentences = sentences

    def ordered_indices(self) -> np.ndarray:
        """The sentences by source length, then target length, like a test set in fairseq-generate.

        fairseq's method would sort the whole dataset for each part, and shuffles training data.

        Returns:
            int64 ``[len(sentences)]``
        """
        sizes = self.dataset.sizes[self._sentences.start : self._sentences.stop]
        least_important_first = np.atleast_2d(sizes.T)[::-1]
        return np.lexsort(least_important_first) + self._sentences.start


def to_config(args: Namespace) -> Any:
    """The configuration of a command line of fairseq-generate.

    Raises:
        OSError, ValueError: if the languages cannot be inferred from the data.
    """
    # Speech tasks have no languages.
    if hasattr(args, "source_lang"):
        infer_languages(args)
    return convert_namespace_to_omegaconf(args)


def uses_cuda(cfg: Any) -> bool:
    """Whether to decode on a GPU."""
    return torch.cuda.is_available() and not cfg.common.cpu


def on_device(batch: dict[str, Any], cfg: Any) -> dict[str, Any]:
    """Move a batch to the GPU if it is decoded there."""
    return utils.move_to_cuda(batch) if uses_cuda(cfg) else batch


def best_translations(
    task: Any,
    generator: Any,
    models: Sequence[Any],
    batch: dict[str, Any],
    prefix: Optional[Tensor] = None,
) -> list[Tensor]:
    """Decode a batch.

    Args:
        batch: a fairseq batch, on the device of the models.
        prefix: forced tokens, int64 ``[B, P]``.

    Returns:
        the tokens of each sentence's best hypothesis, int64 ``[m]`` with EOS, in the order of the
        batch
    """
    hypotheses = task.inference_step(generator, models, batch, prefix_tokens=prefix)
    return [best["tokens"] for best, *_ in hypotheses]


def check_options(cfg: Any, task: Any) -> None:
    """Check the decoding options before anything is loaded or written.

    Raises:
        ValueError: for an option that the method does not support; it names the flag.
    """
    if isinstance(task, FastDecoding):
        task.check_options(cfg.generation)


def load_models(cfg: Any, task: Any) -> list[Any]:
    """Load the ensemble of ``--path`` for inference, as in fairseq-generate.

    The models may only be used by generators that the task builds with a single precision: unless
    ``--keep-model`` is given, weights are freed once the engine has prepared them.

    Raises:
        OSError: for a missing file.
        ValueError: without a path, or for a file that is not a checkpoint for the task.
    """
    if cfg.common_eval.path is None:
        raise ValueError("--path: name the checkpoint, or several separated by colons")
    task.only_decodes = True
    overrides = ast.literal_eval(cfg.common_eval.model_overrides)
    models = [
        model
        for path in utils.split_paths(cfg.common_eval.path)
        for model in _load_model(cfg, task, path, overrides)
    ]
    for model in models:
        if cfg.common.fp16:
            model.half()
        if uses_cuda(cfg):
            model.cuda()
        model.prepare_for_inference_(cfg)
    return models


def _load_model(cfg: Any, task: Any, path: str, overrides: dict[str, Any]) -> list[Any]:
    """Load the model of one path; errors name the file."""
    try:
        models, _ = checkpoint_utils.load_model_ensemble(
            [path],
            arg_overrides=overrides,
            task=task,
            suffix=cfg.checkpoint.checkpoint_suffix,
            strict=cfg.checkpoint.checkpoint_shard_count == 1,
            num_shards=cfg.checkpoint.checkpoint_shard_count,
        )
    except Exception as error:  # a damaged pickle may raise anything
        if isinstance(error, (OSError, ValueError)) and path in str(error):
            raise
        raise ValueError(
            f"--path {path}: cannot be loaded ({in_short(error)}); give a complete checkpoint of "
            "fairseq-train for this task and data"
        ) from error
    return models


class DecodedText(NamedTuple):
    """One output: its tokens separated by spaces, and its text."""

    tokens: str
    text: str


class Corpus:
    """The binarised ``--gen-subset`` of a task: its batches and its text."""

    def __init__(self, cfg: Any) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.

        Raises:
            FileNotFoundError: if the data directory or the subset is missing.
            ValueError: if the subset has no sentences.
        """
        utils.import_user_module(cfg.common)
        self._cfg = cfg
        self.task = tasks.setup_task(cfg.task)
        self.task.load_dataset(cfg.dataset.gen_subset)
        self.dataset = self.task.dataset(cfg.dataset.gen_subset)
        self._tokenizer = self.task.build_tokenizer(cfg.tokenizer)
        self._bpe = self.task.build_bpe(cfg.bpe)
        # Models of many languages: translations begin with tokens that are not part of the text.
        around = getattr(self.task, "surroundings", None)
        self._n_before = 0 if around is None else len(around.prefix)

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, sentences: range, models: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """fairseq's batches of the sentences, by ``--batch-size`` and ``--max-tokens``.

        Args:
            sentences: a range of consecutive sentences.
            models: their maximum positions limit the length.

        Raises:
            Exception: fairseq's, for longer sentences, unless
                ``--skip-invalid-size-inputs-valid-test`` is given.
        """
        data = self._cfg.dataset
        iterator = self.task.get_batch_iterator(
            SentenceRange(self.dataset, sentences),
            max_tokens=data.max_tokens,
            max_sentences=data.batch_size,
            max_positions=max_positions_of(self.task, models),
            ignore_invalid_inputs=data.skip_invalid_size_inputs_valid_test,
            required_batch_size_multiple=data.required_batch_size_multiple,
            seed=self._cfg.common.seed,
            disable_iterator_cache=True,
        )
        return iterator.next_epoch_itr(shuffle=False)

    def prefix(self, sample: dict[str, Any]) -> Any:
        """The forced tokens ``[B, P]`` of ``--prefix-size``, or ``None``."""
        size = self._cfg.generation.prefix_size
        return sample["target"][:, :size] if size > 0 else None

    def source(self, index: int) -> str:
        """The tokens of a source sentence, separated by spaces."""
        return self.task.source_dictionary.string(self.dataset.src[index])

    def target_tokens(self, tokens: Tensor) -> str:
        """The words of a translation ``[m]``, separated by spaces, without EOS and languages."""
        tokens = tokens[self._n_before :]
        return self.task.target_dictionary.string(tokens, self._cfg.common_eval.post_process)

    def translation(self, tokens: str) -> DecodedText:
        """A translation from its tokens as returned by :meth:`target_tokens`."""
        return DecodedText(tokens, self.plain(tokens))

    def reference(self, index: int) -> str:
        """The text of a reference, with marks for words that are not in the dictionary."""
        dictionary = self.task.target_dictionary
        return self.plain(
            dictionary.string(
                self._target(index)[self._n_before :],
                self._cfg.common_eval.post_process,
                escape_unk=True,
            )
        )

    def _target(self, index: int) -> Tensor:
        """The tokens of a reference, int64 ``[m]`` with EOS.

        Multilingual data have a data set for each pair; speech data have no separate sides.
        """
        if hasattr(self.dataset, "tgt"):
            return self.dataset.tgt[index]
        pair = self.dataset[index]
        return pair["target"] if isinstance(pair, dict) else pair.target

    def plain(self, tokens: str) -> str:
        """Join subwords and detokenise (``--bpe``, ``--tokenizer``)."""
        return detokenized(tokens, (self._bpe, self._tokenizer))
