"""Runs CTranslate2 on the converted checkpoint, with greedy or beam search and any type.

CTranslate2 is optional: errors report that it is not installed or cannot convert the model.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig

from fairseq_fastdec.processes.errors import flag_of
from fairseq_fastdec.tools.corpus import Corpus, uses_cuda

from .measurement import Round
from .methods import Division
from .processes import new_process

COMPUTE_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
HONOURED = {"beam", "max_len_a", "max_len_b", "min_len", "lenpen", "unnormalized", "sacrebleu"}
# Options that do not affect the search.
WITHOUT_EFFECT = {"_name", "path", "no_seed_provided"}


class WordBatch(NamedTuple):
    """A batch for CTranslate2: sentence numbers, their words, and search options."""

    ids: list[int]
    sources: list[list[str]]
    options: dict[str, Any]


class CTranslate2Runner:
    """Decodes the same batches as :class:`~.fairseq_runner.FairseqRunner`."""

    def __init__(
        self,
        cfg: Any,
        corpus: Corpus,
        dtype: str,
        compute_type: Optional[str],
        division: Division,
        shared: Path,
    ) -> None:
        """
        Args:
            cfg: the method's configuration.
            compute_type: a type of CTranslate2; ``None`` for that of ``dtype``.
            division: workers are CTranslate2's inter threads, threads are intra threads.
            shared: the directory of converted models, shared by methods with the same model.

        Raises:
            ImportError: if CTranslate2 is not installed.
            ValueError: if it does not support the model, an option or the type.
        """
        try:
            import ctranslate2
        except ImportError as error:
            raise ImportError(
                "CTranslate2 is not installed: pip install 'fastdec-runtime[bench]' "
                "(or pip install ctranslate2)"
            ) from error
        _check_options(cfg.generation)
        self._corpus = corpus
        self._options = cfg.generation
        self.beam_width = cfg.generation.beam
        self.models: list[Any] = []
        self._n_workers = division.workers
        self._translator = ctranslate2.Translator(
            str(_converted(cfg.common_eval.path, corpus.task.cfg, shared)),
            device="cuda" if uses_cuda(cfg) else "cpu",
            compute_type=compute_type or COMPUTE_TYPES[dtype],
            inter_threads=division.workers,
            intra_threads=division.threads,
        )

    def decode(self, batches: Iterable[dict[str, Any]]) -> Round:
        """Translate fairseq's batches, one per worker at a time."""
        jobs = [self._job(batch) for batch in batches]
        if self._n_workers > 1:
            jobs.reverse()  # longest first, so that all workers end at about the same time
        started = time.perf_counter()
        # CTranslate2 releases the GIL while it translates, and uses one worker per concurrent call.
        with ThreadPoolExecutor(self._n_workers) as callers:
            answers = list(callers.map(self._translate, jobs))
        result = Round(time.perf_counter() - started)
        for job, (outputs, seconds) in zip(jobs, answers):
            if len(job.ids) == 1:
                result.latencies[job.ids[0]] = seconds
            for number, output in zip(job.ids, outputs):
                result.tokens += len(output.hypotheses[0]) + 1
                tokens = self._target_tokens(output.hypotheses[0])
                result.translations[number] = self._corpus.translation(tokens)
        return result

    def _job(self, batch: dict[str, Any]) -> WordBatch:
        source = batch["net_input"]["src_tokens"]
        return WordBatch(
            batch["id"].tolist(), self._words(source), self._search_options(source.size(1))
        )

    def _translate(self, job: WordBatch) -> tuple[list[Any], float]:
        """CTranslate2's outputs for a batch, and the time in seconds."""
        started = time.perf_counter()
        outputs = self._translator.translate_batch(job.sources, **job.options)
        return outputs, time.perf_counter() - started

    def _words(self, source: Any) -> list[list[str]]:
        """The source sentences ``[B, S]`` as words, without EOS, which CTranslate2 appends."""
        dictionary = self._corpus.task.source_dictionary
        left_out = (dictionary.pad(), dictionary.eos())
        return [
            [dictionary[index] for index in row if index not in left_out] for row in source.tolist()
        ]

    def _search_options(self, source_width: int) -> dict[str, Any]:
        options = self._options
        longest = self._corpus.task.max_positions()[1] - 1
        return {
            "beam_size": options.beam,
            "length_penalty": 0.0 if options.unnormalized else options.lenpen,
            "max_decoding_length": min(
                int(options.max_len_a * source_width + options.max_len_b), longest
            ),
            "min_decoding_length": options.min_len,
            "max_input_length": 0,
        }

    def _target_tokens(self, words: list[str]) -> str:
        dictionary = self._corpus.task.target_dictionary
        return self._corpus.target_tokens(torch.tensor([dictionary.index(word) for word in words]))


def _check_options(options: Any) -> None:
    for field in fields(GenerationConfig):
        if field.name in HONOURED | WITHOUT_EFFECT:
            continue
        if getattr(options, field.name) != field.default:
            flag = flag_of(field.name)
            raise ValueError(f"{flag}: not possible with --engine ctranslate2; remove it")


def _converted(path: str, task_cfg: Any, shared: Path) -> Path:
    """The directory of the converted model; models that have been converted before are reused.

    The conversion runs in another process, so that its memory does not count for the method.

    Raises:
        ValueError: if CTranslate2 does not support the model; the message gives the reason.
    """
    paths = utils.split_paths(path)
    if len(paths) > 1:
        raise ValueError("--path: is an ensemble; CTranslate2 supports only single models")
    data = utils.split_paths(task_cfg.data)[0]
    model = (paths[0], data, task_cfg.source_lang, task_cfg.target_lang)
    directory = shared / hashlib.sha256(repr(model).encode()).hexdigest()
    if not directory.exists():
        unfinished = tempfile.mkdtemp(dir=shared)
        with new_process() as process:
            process.submit(_run_converter, *model, unfinished).result()
        try:
            os.rename(unfinished, directory)
        except OSError:  # another process was faster, and its result is the same
            if not directory.exists():
                raise
    return directory


def _run_converter(path: str, data: str, source: str, target: str, directory: str) -> None:
    from ctranslate2.converters import FairseqConverter

    converter = FairseqConverter(path, data, source_lang=source, target_lang=target)
    converter.convert(directory, force=True)
