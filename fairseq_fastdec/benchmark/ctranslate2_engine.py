"""CTranslate2 on the converted checkpoint: greedy and beam search, also in few bits.

Where it is not installed, or cannot convert the model, it says so with an error; nothing else
depends on it.
"""

import tempfile
import time
from dataclasses import fields
from typing import Any, Dict, List, Optional

import torch
from fairseq import utils
from fairseq.dataclass.configs import GenerationConfig

from ..inference import Corpus, uses_cuda
from .measurement import Round, Translation
from .processes import new_process

COMPUTE_TYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
HONOURED = {"beam", "max_len_a", "max_len_b", "min_len", "lenpen", "unnormalized", "sacrebleu"}
# Say nothing of the search itself.
WITHOUT_EFFECT = {"_name", "path", "no_seed_provided"}


class CTranslate2Engine:
    """Decodes the same batches as :class:`~.fairseq_engine.FairseqEngine`."""

    def __init__(
        self, cfg: Any, corpus: Corpus, dtype: str, compute_type: Optional[str], threads: int
    ) -> None:
        """
        Args:
            cfg: the method's configuration.
            compute_type: CTranslate2's name of a type; ``None`` for that of ``dtype``.

        Raises:
            ImportError: if CTranslate2 is not installed.
            ValueError: if it cannot convert the model, or honour an option or the type.
        """
        try:
            import ctranslate2
        except ImportError as error:
            raise ImportError(
                "CTranslate2 is not installed: pip install 'fairseq_fastdec[bench]' "
                "(or pip install ctranslate2)"
            ) from error
        _check_options(cfg.generation)
        self._corpus = corpus
        self._options = cfg.generation
        self.beam_width = cfg.generation.beam
        self.models: List[Any] = []
        with tempfile.TemporaryDirectory() as directory:
            _convert(cfg.common_eval.path, corpus.task.cfg, directory)
            self._translator = ctranslate2.Translator(
                directory,
                device="cuda" if uses_cuda(cfg) else "cpu",
                compute_type=compute_type or COMPUTE_TYPES[dtype],
                intra_threads=threads,
            )

    def decode(self, batches: List[Dict[str, Any]]) -> Round:
        """Translate batches of fairseq's, one after the other."""
        result = Round()
        for batch in batches:
            sources = self._words(batch["net_input"]["src_tokens"])
            options = self._search_options(batch["net_input"]["src_tokens"].size(1))
            started = time.perf_counter()
            outputs = self._translator.translate_batch(sources, **options)
            seconds = time.perf_counter() - started
            ids = batch["id"].tolist()
            result.seconds += seconds
            if len(ids) == 1:
                result.latencies[ids[0]] = seconds
            for number, output in zip(ids, outputs):
                result.tokens += len(output.hypotheses[0]) + 1
                tokens = self._target_tokens(output.hypotheses[0])
                result.translations[number] = Translation(tokens, self._corpus.plain(tokens))
        return result

    def _words(self, source: Any) -> List[List[str]]:
        """The source sentences ``[B, S]`` as strings; CTranslate2 appends EOS itself."""
        dictionary = self._corpus.task.source_dictionary
        left_out = (dictionary.pad(), dictionary.eos())
        return [
            [dictionary[index] for index in row if index not in left_out] for row in source.tolist()
        ]

    def _search_options(self, source_width: int) -> Dict[str, Any]:
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

    def _target_tokens(self, words: List[str]) -> str:
        dictionary = self._corpus.task.target_dictionary
        return self._corpus.target_tokens(torch.tensor([dictionary.index(word) for word in words]))


def _check_options(options: Any) -> None:
    for field in fields(GenerationConfig):
        if field.name in HONOURED | WITHOUT_EFFECT:
            continue
        if getattr(options, field.name) != field.default:
            flag = "--" + field.name.replace("_", "-")
            raise ValueError(f"{flag}: not possible with --engine ctranslate2; remove it")


def _convert(path: str, task_cfg: Any, directory: str) -> None:
    """Convert in another process, whose memory does not count as the method's.

    Raises:
        ValueError: if CTranslate2 does not support the model; the message says why.
    """
    paths = utils.split_paths(path)
    if len(paths) > 1:
        raise ValueError("--path: an ensemble, and CTranslate2 takes one model")
    data = utils.split_paths(task_cfg.data)[0]
    with new_process() as process:
        process.submit(
            _run_converter, paths[0], data, task_cfg.source_lang, task_cfg.target_lang, directory
        ).result()


def _run_converter(path: str, data: str, source: str, target: str, directory: str) -> None:
    from ctranslate2.converters import FairseqConverter

    converter = FairseqConverter(path, data, source_lang=source, target_lang=target)
    converter.convert(directory, force=True)
