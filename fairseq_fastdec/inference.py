"""Models, batches and text as fairseq-generate sets them up, for scripts that do more with them."""

import argparse
import ast
import warnings
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from torch import Tensor

from .data.sentence_range import SentenceRange


def uses_cuda(cfg: Any) -> bool:
    """Whether to decode on a GPU."""
    return torch.cuda.is_available() and not cfg.common.cpu


def infer_languages(args: argparse.Namespace) -> None:
    """Fill in the languages of a command line that names none, as tasks do only later.

    ``--tokenizer moses`` asks for them earlier.

    Raises:
        OSError: if the data directory cannot be read.
        ValueError: if the names of its files say no languages.
    """
    if None not in (args.source_lang, args.target_lang):
        return
    data = utils.split_paths(args.data)[0]
    found = data_utils.infer_language_pair(data)
    if None in found:
        raise ValueError(f"{data}: holds no binarised data; name a directory of fairseq-preprocess")
    args.source_lang, args.target_lang = found


def check_places(args: argparse.Namespace, places: Dict[str, Tuple[bool, str]]) -> None:
    """Refuse options of fairseq-generate that a script would not honour.

    Args:
        places: those of the script besides what no script honours: by flag, whether the option was
            given, and what to do instead.

    Raises:
        ValueError: for such an option; it names the flag.
    """
    remove = "remove it"
    common = {
        "--nbest": (args.nbest > 1, "remove it: the best hypothesis counts"),
        "--score-reference": (args.score_reference, remove),
        "--lm-path": (args.lm_path is not None, remove),
        "--replace-unk": (args.replace_unk is not None, remove),
        "--print-alignment": (args.print_alignment is not None, remove),
        "--constraints": (args.constraints is not None, remove),
    }
    for flag, (is_given, remedy) in {**common, **places}.items():
        if is_given:
            raise ValueError(f"{flag}: not possible here; {remedy}")


def to_config(args: argparse.Namespace) -> Any:
    """The configuration of a command line of fairseq-generate.

    Raises:
        OSError, ValueError: if there are no data to say which languages are meant.
    """
    infer_languages(args)
    with warnings.catch_warnings():
        # hydra's, of how fairseq calls it.
        warnings.simplefilter("ignore")
        return convert_namespace_to_omegaconf(args)


def load_models(cfg: Any, task: Any) -> List[Any]:
    """The ensemble of ``--path``, ready for inference, as fairseq-generate loads it.

    Raises:
        ValueError: without a path.
    """
    if cfg.common_eval.path is None:
        raise ValueError("--path: name the checkpoint, or several separated by colons")
    models, _ = checkpoint_utils.load_model_ensemble(
        utils.split_paths(cfg.common_eval.path),
        arg_overrides=ast.literal_eval(cfg.common_eval.model_overrides),
        task=task,
        suffix=cfg.checkpoint.checkpoint_suffix,
        strict=cfg.checkpoint.checkpoint_shard_count == 1,
        num_shards=cfg.checkpoint.checkpoint_shard_count,
    )
    for model in models:
        if cfg.common.fp16:
            model.half()
        if uses_cuda(cfg):
            model.cuda()
        model.prepare_for_inference_(cfg)
    return models


class Corpus:
    """The binarised ``--gen-subset`` of a task: its batches and its text."""

    def __init__(self, cfg: Any) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.

        Raises:
            FileNotFoundError: if the data directory or the subset is not there.
            ValueError: if the subset has no sentences.
        """
        utils.import_user_module(cfg.common)
        self._cfg = cfg
        self.task = tasks.setup_task(cfg.task)
        self.task.load_dataset(cfg.dataset.gen_subset)
        self.dataset = self.task.dataset(cfg.dataset.gen_subset)
        self._tokenizer = self.task.build_tokenizer(cfg.tokenizer)
        self._bpe = self.task.build_bpe(cfg.bpe)

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, sentences: range, models: Sequence[Any]) -> Iterator[Dict[str, Any]]:
        """fairseq's batches of ``--batch-size`` and ``--max-tokens``, with every sentence in one.

        Args:
            sentences: which sentences; consecutive.
            models: whose greatest lengths hold.

        Raises:
            Exception: fairseq's, for sentences that are longer, unless
                ``--skip-invalid-size-inputs-valid-test`` leaves them out.
        """
        data = self._cfg.dataset
        iterator = self.task.get_batch_iterator(
            SentenceRange(self.dataset, sentences),
            max_tokens=data.max_tokens,
            max_sentences=data.batch_size,
            max_positions=utils.resolve_max_positions(
                self.task.max_positions(), *(model.max_positions() for model in models)
            ),
            ignore_invalid_inputs=data.skip_invalid_size_inputs_valid_test,
            required_batch_size_multiple=data.required_batch_size_multiple,
            seed=self._cfg.common.seed,
            disable_iterator_cache=True,
        )
        return iterator.next_epoch_itr(shuffle=False)

    def prefix(self, sample: Dict[str, Any]) -> Any:
        """The forced tokens ``[B, P]`` of ``--prefix-size``, or ``None``."""
        size = self._cfg.generation.prefix_size
        return sample["target"][:, :size] if size > 0 else None

    def source(self, index: int) -> str:
        """The tokens of a source sentence, separated by spaces."""
        return self.task.source_dictionary.string(self.dataset.src[index])

    def target_tokens(self, tokens: Tensor) -> str:
        """The tokens of a translation ``[m]``, separated by spaces, without EOS."""
        return self.task.target_dictionary.string(tokens, self._cfg.common_eval.post_process)

    def reference(self, index: int) -> str:
        """The text of a reference, with marks where a word was not in the dictionary."""
        dictionary = self.task.target_dictionary
        tokens = self.dataset.tgt[index]
        return self.plain(
            dictionary.string(tokens, self._cfg.common_eval.post_process, escape_unk=True)
        )

    def plain(self, tokens: str) -> str:
        """Text for people: subwords joined, detokenised (``--bpe``, ``--tokenizer``)."""
        for decoder in (self._bpe, self._tokenizer):
            if decoder is not None:
                tokens = decoder.decode(tokens)
        return tokens
