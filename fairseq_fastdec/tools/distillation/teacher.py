"""The teacher: a checkpoint or an ensemble that translates sentences of a corpus."""

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import torch
from fairseq import utils

from ...corpora.chunks import Chunk, Translated
from ..corpus import Corpus, best_translations, load_models, on_device
from .shards import rendered


class Teacher:
    """Translates as in fairseq-generate."""

    def __init__(
        self, cfg: Any, corpus: Optional[Corpus] = None, device: Optional[int] = None
    ) -> None:
        """
        Args:
            cfg: the configuration of fairseq-generate's command line.
            corpus: its corpus; ``None`` to load it.
            device: the number of the GPU.

        Raises:
            OSError: if a checkpoint cannot be read.
            ValueError: for an option that the method does not support.
        """
        # A process that has computed in several threads must not be forked.
        torch.set_num_threads(1)
        if device is not None:
            torch.cuda.set_device(device)
        self._cfg = cfg
        self._corpus = Corpus(cfg) if corpus is None else corpus
        task = self._corpus.task
        self._models = load_models(cfg, task)
        self._generator = task.build_generator(self._models, cfg.generation)

    def prepare(self) -> None:
        """Prepare the engine's weights, so that forked processes share them."""
        # Pairs have two sizes, sources one.
        sizes = np.asarray(self._corpus.dataset.sizes)
        shortest = int(sizes.reshape(len(sizes), -1)[:, 0].argmin())
        self._translations(range(shortest, shortest + 1), lambda n: None)

    def use_threads(self, n_threads: int) -> None:
        """Set the number of threads of a decoding step."""
        torch.set_num_threads(n_threads)

    def translate(self, shard: Chunk, progress: Callable[[int], Any]) -> Translated:
        """Translate a shard: the best hypothesis of each sentence, as tokens separated by spaces.

        Args:
            progress: called with the number of newly translated sentences.
        """
        sentences = range(shard.first, shard.first + shard.n_lines)
        return rendered(self._translations(sentences, progress))

    def _translations(self, sentences: range, progress: Callable[[int], Any]) -> dict[int, str]:
        # Makes samples independent of interruptions of the run.
        utils.set_torch_seed(self._cfg.common.seed + sentences.start)
        translations = {}
        for batch in self._corpus.batches(sentences, self._models):
            batch = on_device(batch, self._cfg)
            best = best_translations(
                self._corpus.task,
                self._generator,
                self._models,
                batch,
                self._corpus.prefix(batch),
            )
            for number, tokens in zip(batch["id"].tolist(), best):
                translations[number] = self._corpus.target_tokens(tokens)
            progress(len(best))
        return translations
