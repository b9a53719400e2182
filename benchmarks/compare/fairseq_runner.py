"""Runs fairseq's generator or those of this package on a checkpoint."""

import time
from collections.abc import Iterable
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from fairseq_fastdec.decoding.generator import DecodingGenerator
from fairseq_fastdec.tools.corpus import (
    Corpus,
    best_translations,
    load_models,
    on_device,
    uses_cuda,
)

from .measurement import Round
from .operations import Operations

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class FairseqRunner:
    """Decodes batches like fairseq-generate, and measures it."""

    def __init__(self, cfg: Any, corpus: Corpus, dtype: str) -> None:
        """
        Args:
            cfg: the method's configuration.
            dtype: one of :data:`DTYPES`.

        Raises:
            ValueError: for a model or an option that the method cannot honour.
        """
        self._cfg = cfg
        self._corpus = corpus
        self._cuda = uses_cuda(cfg)
        self.models = [model.to(DTYPES[dtype]) for model in load_models(cfg, corpus.task)]
        generator = self._build_generator()
        one_hypothesis = getattr(generator, "keeps_one_hypothesis", False)
        self.beam_width = 1 if one_hypothesis else cfg.generation.beam
        if isinstance(generator, DecodingGenerator):
            generator.prepare()  # part of loading, which is not timed

    def decode(self, batches: Iterable[dict[str, Any]]) -> Round:
        """Translate fairseq's batches one after the other."""
        # A new one each time, since methods such as lookahead learn from previous sentences.
        generator = self._build_generator()
        calls = None if isinstance(generator, DecodingGenerator) else DecoderCalls(generator)
        # So that --sampling draws the same samples in every round.
        utils.set_torch_seed(self._cfg.common.seed)
        result = Round()
        best_tokens: list[tuple[int, Tensor]] = []
        for batch in batches:
            batch = on_device(batch, self._cfg)
            started = self._now()
            best = best_translations(
                self._corpus.task, generator, self.models, batch, self._corpus.prefix(batch)
            )
            seconds = self._now() - started
            ids = batch["id"].tolist()
            result.seconds += seconds
            if len(ids) == 1:
                result.latencies[ids[0]] = seconds
            best_tokens += zip(ids, best)
        # Detokenise at the end, since other processes would be faster meanwhile.
        for number, indices in best_tokens:
            result.tokens += indices.numel()
            tokens = self._corpus.target_tokens(indices)
            result.translations[number] = self._corpus.translation(tokens)
        if calls is None:
            statistics = generator.statistics
            result.invocations = statistics.decoder_invocations
            result.row_invocations = statistics.row_invocations
        else:
            result.invocations, result.row_invocations = calls.calls, calls.rows
        return result

    def flops(self, batches: Iterable[dict[str, Any]]) -> int:
        """Translate batches, and count the floating-point operations."""
        with Operations() as counted:
            self.decode(batches)
        return counted.flops

    def _build_generator(self) -> Any:
        return self._corpus.task.build_generator(self.models, self._cfg.generation)

    def _now(self) -> float:
        if self._cuda:
            torch.cuda.synchronize()
        return time.perf_counter()


class DecoderCalls:
    """Counts the calls of the decoder by fairseq's generator."""

    def __init__(self, generator: Any) -> None:
        """
        Args:
            generator: fairseq's ``SequenceGenerator``, whose model is wrapped.
        """
        self.calls = 0
        self.rows = 0
        self._forward = generator.model.forward_decoder
        generator.model.forward_decoder = self._count

    def _count(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.rows += tokens.size(0)
        return self._forward(tokens, *args, **kwargs)
