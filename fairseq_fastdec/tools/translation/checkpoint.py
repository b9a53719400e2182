"""Translates lines of text with the checkpoints of fairseq-generate's command line.

Lines are translated as by fairseq-interactive, except that an empty line stays empty.
"""

import copy
import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional, Union

import torch
from fairseq import checkpoint_utils, tasks, utils
from omegaconf import OmegaConf
from torch import Tensor

from ...checkpoints.codec import TaskCodec, as_tensors, warn_of_subwords
from ...checkpoints.whole_batches import LEFT_OUT, SourceLimit, WholeBatches, stripped_by
from ...decoding.draft_file import DraftFile
from ...translating.results import Problem
from ..command_line import to_config, version
from ..corpus import check_options, load_models, uses_cuda
from .output_lines import EMPTY_LINE, LineResult, Outcome, OutputRules, TextHypothesis
from .text_files import content_of
from .worker import CorpusModel, LineTranslator, Progress

# The groups of fairseq's configuration that affect translations.
GROUPS = ("task", "generation", "tokenizer", "bpe")
# Options in these groups that do not, and may change when a translation is resumed, for example to
# reduce memory.
WITHOUT_EFFECT = {
    "task.data",
    "task.draft_file",
    "task.keep_model",
    "task.max_beam_rows",
    "task.memory_source",
    "task.memory_target",
    "task.stream_buffer",
}
DICTIONARIES = "dict*.txt"
DEFAULT_RULES = OutputRules()


class CheckpointModel(CorpusModel):
    """The checkpoints of a command line.

    Attributes:
        cfg: the configuration of fairseq-generate's command line.
    """

    def __init__(self, cfg: Any) -> None:
        self.cfg = cfg
        self.may_use_gpus = not cfg.common.cpu

    @classmethod
    def of(cls, args: Any) -> "CheckpointModel":
        """The model of a command line; warns if the output will contain subwords.

        Raises:
            OSError, ValueError: for data that cannot be read.
            ValueError: for an option that the method does not support.
        """
        cfg = to_config(args)
        utils.import_user_module(cfg.common)
        task = tasks.setup_task(cfg.task)
        check_options(cfg, task)
        warn_of_subwords(cfg, task, args.data)
        return cls(cfg)

    def n_gpus(self) -> int:
        return torch.cuda.device_count() if uses_cuda(self.cfg) else 0

    def settings(self) -> dict[str, Any]:
        return settings_of(self.cfg, tasks.setup_task(self.cfg.task))

    def translator(self, rules: OutputRules, device: Optional[int]) -> "CheckpointTranslator":
        settle(device)
        return CheckpointTranslator(self.cfg, rules)

    def portable(self) -> tuple["CheckpointModel", dict[str, str]]:
        cfg, files = copy.deepcopy(self.cfg), {}
        paths = utils.split_paths(cfg.common_eval.path)
        for number, path in enumerate(paths):
            for file in _checkpoints_of(cfg, path):
                files[f"model{number}/{Path(file).name}"] = file
        for dictionary in sorted(Path(cfg.task.data).glob(DICTIONARIES)):
            files[f"data/{dictionary.name}"] = str(dictionary)
        names = [f"model{number}/{Path(path).name}" for number, path in enumerate(paths)]
        changed = {"common_eval.path": ":".join(names), "task.data": "data"}
        for group in GROUPS:
            for name, file in _file_options(cfg[group]):
                changed[f"{group}.{name}"] = place = f"{group}.{name}/{Path(file).name}"
                files[place] = file
        user_dir = cfg.common.user_dir
        if user_dir is not None and os.path.exists(user_dir):
            changed["common.user_dir"] = os.path.abspath(user_dir)
        for name, value in changed.items():
            OmegaConf.update(cfg, name, value)
        return CheckpointModel(cfg), files


class CheckpointTranslator(LineTranslator):
    """Translates with checkpoints."""

    def __init__(self, cfg: Any, rules: OutputRules = DEFAULT_RULES) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.

        Raises:
            OSError: if a checkpoint cannot be read.
            ValueError: for an option that the method does not support.
        """
        super().__init__(rules, cfg.common.seed)
        utils.import_user_module(cfg.common)
        limit_batches(cfg)
        self._cfg = cfg
        self.task = tasks.setup_task(cfg.task)
        self._models = load_models(cfg, self.task)
        # Building a sampling generator draws a random number.
        utils.set_torch_seed(cfg.common.seed)
        self._generator = self.task.build_generator(self._models, cfg.generation)
        device = "cuda" if uses_cuda(cfg) else "cpu"
        self._batches = WholeBatches(self.task, self._models, device)
        # Cached, since reading the configuration for each line is slow.
        self._limit = SourceLimit.of(self._batches.positions, cfg.dataset.max_tokens)
        self._nbest = cfg.generation.nbest
        # fairseq's generator has no drafts.
        drafts = getattr(self._generator, "drafts", None)
        self._draft_file = drafts if isinstance(drafts, DraftFile) else None
        self._stripped = stripped_by(self._generator)
        self._codec = TaskCodec.of_command_line(cfg, self.task)

    def prepare(self) -> None:
        """See :class:`~.worker.ChunkTranslator`.

        Raises:
            ValueError: if the command line's tokeniser or BPE fails.
        """
        (result,) = self.translate_lines(["a"], seed=0)
        if isinstance(result, Problem):
            raise ValueError(f"--tokenizer, --bpe: the line 'a' cannot be translated: {result}")

    def use_threads(self, n_threads: int) -> None:
        torch.set_num_threads(n_threads)

    def translate_lines(
        self,
        texts: Sequence[str],
        seed: int,
        progress: Progress = lambda n: None,
        numbers: Optional[Sequence[int]] = None,
    ) -> list[LineResult]:
        utils.set_torch_seed(seed)
        stripped = [text.strip() for text in texts]
        encoded = [self._codec.encode(text) for text in stripped]
        results: list[Optional[LineResult]] = [
            (of_line if isinstance(of_line, Problem) else self._limit.problem(of_line))
            if text
            else EMPTY_LINE
            for text, of_line in zip(stripped, encoded)
        ]
        places = [place for place, problem in enumerate(results) if problem is None]
        tokens = as_tensors([own for i in places if isinstance(own := encoded[i], list)])
        progress(len(texts) - len(places))
        drafts = None
        if self._draft_file is not None:
            drafts = self._draft_file.of([numbers[i] if numbers else i for i in places])
        found = self._decoded(tokens, drafts, progress) if places else {}
        for place, best in found.items():
            if isinstance(best, list):
                written = [self._written(own.tolist(), float(score)) for own, score in best]
                results[places[place]] = Outcome(len(tokens[place]) - 1, written)
            else:
                results[places[place]] = best
        return [result or LEFT_OUT for result in results]

    def _written(self, tokens: list[int], score: float) -> TextHypothesis:
        kept = [token for token in tokens if token not in self._stripped]
        return TextHypothesis(self._codec.decode(kept), score / math.log(2), len(kept))

    def _decoded(
        self, tokens: Sequence[Tensor], drafts: Optional[list[Tensor]], progress: Progress
    ) -> dict[int, Union[list[tuple[Tensor, Any]], Problem]]:
        """The tokens and scores of the ``--nbest`` hypotheses of each place in the list.

        Text is created after the last batch: other work in between would evict the model from the
        processor's caches.
        """
        found: dict[int, Union[list[tuple[Tensor, Any]], Problem]] = {}
        data = self._cfg.dataset
        limits = (data.batch_size, data.max_tokens, self._nbest)
        for place, best in self._batches.decoded(self._generator, tokens, *limits, drafts):
            found[place] = (
                best
                if isinstance(best, Problem)
                else [(hypo["tokens"], hypo["score"]) for hypo in best]
            )
            progress(1)
        return found


def settle(device: Optional[int]) -> None:
    """Set up this process for a GPU, or for a single thread, so that it can be forked.

    A process that has computed in several threads must not be forked.

    Args:
        device: the number of the GPU.
    """
    torch.set_num_threads(1)
    if device is not None:
        torch.cuda.set_device(device)


def limit_batches(cfg: Any) -> None:
    """Set a default batch size for this machine.

    It determines the memory of a worker. Any line that is not too long fits in a batch.
    """
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        least = 12000 if uses_cuda(cfg) else 1024
        longest = getattr(cfg.task, "max_source_positions", None) or 0
        cfg.dataset.max_tokens = max(least, longest)


def settings_of(cfg: Any, task: Any) -> dict[str, Any]:
    """All settings that translations depend on. Files are identified by content, not by name.

    Args:
        cfg: the configuration of fairseq-generate's command line.

    Raises:
        OSError: for files that cannot be read.
    """
    options: dict[str, Any] = {}
    for group in GROUPS:
        options.update({f"{group}.{name}": value for name, value in _options(cfg[group]).items()})
        for name, file in _file_options(cfg[group]):
            options[f"{group}.{name}"] = {"sha256": content_of(file).sha256}
    symbols = [
        "\n".join(words.symbols) for words in (task.source_dictionary, task.target_dictionary)
    ]
    return {
        **{name: value for name, value in options.items() if name not in WITHOUT_EFFECT},
        "dictionaries": [hashlib.sha256(text.encode("utf-8")).hexdigest() for text in symbols],
        "checkpoints": [
            content_of(file).sha256
            for path in utils.split_paths(cfg.common_eval.path)
            for file in _checkpoints_of(cfg, path)
        ],
        "model_overrides": cfg.common_eval.model_overrides,
        "post_process": cfg.common_eval.post_process,
        "fp16": cfg.common.fp16,
        "seed": cfg.common.seed,
        "version": version(),
    }


def _checkpoints_of(cfg: Any, path: str) -> list[str]:
    """The files of one path of ``--path``; several if the checkpoint is sharded."""
    suffix, n_shards = cfg.checkpoint.checkpoint_suffix, cfg.checkpoint.checkpoint_shard_count
    name = checkpoint_utils.get_maybe_sharded_checkpoint_filename
    return [name(path, suffix, shard, n_shards) for shard in range(n_shards)]


def _file_options(group: Any) -> Iterator[tuple[str, str]]:
    """The options of a group of the configuration whose values name files."""
    for name, value in _options(group).items():
        if isinstance(value, str) and os.path.isfile(value):
            yield name, value


def _options(group: Any) -> dict[str, Any]:
    values: Any = {} if group is None else OmegaConf.to_container(group, enum_to_str=True)
    return values
