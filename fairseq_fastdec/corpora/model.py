"""Translates lines of text with a bundle or with checkpoints; for a bundle, without torch."""

import importlib
import math
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

from ..data.draft_lines import DraftLines
from ..data.model_files import beside_codes, checkpoints_of, codes_in, data_of, recorded_files
from ..translating.bundle_file import is_bundle
from ..translating.command_line import one_or_all, version
from ..translating.opening import load
from ..translating.results import Problem
from ..translating.scheduler import CAPACITY
from ..translating.translator import Translator
from .chunks import Chunk, Translated
from .output_lines import EMPTY_LINE, NOT_UTF8, LineResult, Outcome, OutputRules, TextHypothesis
from .text_files import content_of
from .worker import Progress

# Options of ``load`` that translations do not depend on, and may change when a translation is
# resumed, for example to reduce memory. Dictionaries in ``data`` are compared by content.
WITHOUT_EFFECT = {
    "batch_size", "data", "keep_model", "max_beam_rows", "max_tokens", "memory_source",
    "memory_target", "stream_buffer",
}  # fmt: skip
# Source tokens that a GPU decodes at once, unless --max-tokens or --batch-size is given.
TOKENS_ON_GPU = 12000


@dataclass(frozen=True)
class CorpusModel:
    """The model and the decoding options of a command line. It can be sent to other processes.

    Attributes:
        paths: a bundle, or checkpoints.
        options: passed to :func:`fairseq_fastdec.load`.
        draft_file: the file with a draft for each line; ``None`` without drafts.
        seed: the random seed of the first chunk.
        may_use_gpus: whether to decode on GPUs if a machine has them.
        fp16: whether to decode in half precision on a GPU.
        user_dir: fairseq's ``--user-dir``.
    """

    paths: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    draft_file: Optional[str] = None
    seed: int = 1
    may_use_gpus: bool = False
    fp16: bool = False
    user_dir: Optional[str] = None

    @property
    def is_bundle(self) -> bool:
        """Whether neither torch nor fairseq is needed."""
        return is_bundle(self.paths[0])

    def n_gpus(self) -> int:
        """The number of GPUs to use on this machine."""
        if not self.may_use_gpus:
            return 0
        return importlib.import_module("torch").cuda.device_count()

    def settings(self) -> dict[str, Any]:
        """All settings that translations depend on, as JSON-serialisable values.

        Raises:
            OSError: for files that cannot be read.
        """
        options = {
            name: content_of(value).sha256 if _is_file(value) else value
            for name, value in self.options.items()
            if name not in WITHOUT_EFFECT
        }
        return {
            "files": [content_of(file).sha256 for file in self._files().values()],
            "options": options,
            "fp16": self.fp16,
            "seed": self.seed,
            "version": version(),
        }

    def portable(self) -> tuple["CorpusModel", dict[str, str]]:
        """A copy of the model for another machine.

        Returns:
            the copy, with relative file paths, and a mapping from these paths to local files
        """
        files, options = self._files(), dict(self.options)
        checkpoints = [] if self.is_bundle else checkpoints_of(self.paths)
        paths = [name for name, file in files.items() if self.is_bundle or file in checkpoints]
        if not self.is_bundle:
            # The names of binarised files may name the languages.
            data = data_of(checkpoints[0], options.get("data"))
            infer = importlib.import_module("fairseq.data.data_utils").infer_language_pair
            for name, language in zip(("source_lang", "target_lang"), infer(data)):
                if language is not None:
                    options.setdefault(name, language)
            options["data"] = "data"
        for name, value in options.items():
            if _is_file(value):
                options[name] = place = f"{name}/{Path(value).name}"
                files[place] = value
        codes = [name for name in files if name.startswith("bpe_codes")]
        options.update(dict.fromkeys(["bpe_codes"], codes[0]) if codes else {})
        copy = replace(self, paths=paths, options=options)
        if self.draft_file is not None:
            files["drafts"], copy = self.draft_file, replace(copy, draft_file="drafts")
        if self.user_dir is not None and os.path.exists(self.user_dir):
            copy = replace(copy, user_dir=os.path.abspath(self.user_dir))
        return copy, files

    def inputs(self) -> list[str]:
        """The values of options that can be the names of files."""
        values = [*self.paths, *self.options.values(), self.draft_file]
        return [value for value in values if isinstance(value, str)]

    def _files(self) -> dict[str, str]:
        """The files of the model and its text, by their names on another machine."""
        if self.is_bundle:
            return {"model": self.paths[0]}
        checkpoints = checkpoints_of(self.paths)
        data = data_of(checkpoints[0], self.options.get("data"))
        files = {
            f"model{number}/{Path(file).name}": file for number, file in enumerate(checkpoints)
        }
        for file in sorted(Path(data).glob("dict*.txt")):
            files[f"data/{file.name}"] = str(file)
        for own in recorded_files(checkpoints[0]):
            files[f"model0/{Path(own).name}"] = own
        found = codes_in([os.path.dirname(checkpoints[0]) or ".", data])
        codes = self.options.get("bpe_codes", found and found.path)
        for own in [] if codes is None else [codes, *beside_codes(codes)]:
            files[f"bpe_codes/{Path(own).name}"] = own
        return files

    def translator(self, rules: OutputRules, device: Optional[int]) -> "LineTranslator":
        """Load the model.

        Args:
            device: the number of the GPU; ``None`` for the CPU.

        Raises:
            OSError, ValueError: for a file or an option that cannot be used.
        """
        options = dict(self.options)
        if not self.is_bundle:
            torch: Any = importlib.import_module("torch")
            # A process that has computed in several threads must not be forked.
            torch.set_num_threads(1)
            if device is not None:
                torch.cuda.set_device(device)
                options["device"] = f"cuda:{device}"
                if not options.keys() & {"batch_size", "max_tokens"}:
                    options.update(batch_size=None, max_tokens=TOKENS_ON_GPU)
            utils: Any = importlib.import_module("fairseq.utils")
            utils.import_user_module(Namespace(user_dir=self.user_dir))
        elif "batch_size" in options:
            del options["batch_size"]
        translator: Any = load(one_or_all(self.paths), **options)
        if not self.is_bundle:
            # Weights are freed once the engine has prepared them.
            translator.task.only_decodes = True
            for model in translator.models if self.fp16 and device is not None else ():
                model.half()
        return LineTranslator(self, translator, rules)


class LineTranslator:
    """Translates chunks with a loaded model; see :class:`.worker.ChunkTranslator`."""

    def __init__(self, model: CorpusModel, translator: Translator, rules: OutputRules) -> None:
        """
        Raises:
            ValueError: for a draft file that cannot be read, or a method that verifies no drafts.
        """
        self._model, self._translator, self._rules = model, translator, rules
        self._drafts = None if model.draft_file is None else DraftLines(model.draft_file)
        if self._drafts is not None:
            try:
                translator.job("a", {}, ["a"])
            except ValueError as error:
                raise ValueError(f"--draft-file {model.draft_file}: {error}") from error

    def prepare(self) -> None:
        """Prepare the weights and the index of a translation memory.

        Raises:
            ValueError: if the tokeniser or BPE fails, or the index cannot be written.
        """
        job: Any = self._translator.job("a", {})
        if job is None:
            (found,) = self._translator.translate(["a"], details=True, nbest=1)
            job = found.error
        if isinstance(job, Problem):
            raise ValueError(f"--tokenizer, --bpe: the line 'a' cannot be translated: {job}")

    def use_threads(self, n_threads: int) -> None:
        """Set the number of threads of a decoding step."""
        if not self._model.is_bundle:
            importlib.import_module("torch").set_num_threads(n_threads)
        batch_size = self._model.options.get("batch_size") or CAPACITY
        self._translator.schedule(threads=n_threads, batch_size=batch_size)

    def translate(self, chunk: Chunk, progress: Progress) -> Translated:
        """Translate a chunk.

        Raises:
            UntranslatedLine: with ``--on-error stop``.
        """
        texts = [_decoded(line) for line in chunk.lines]
        valid = [(text, chunk.first + i) for i, text in enumerate(texts) if text is not None]
        lines, numbers = [text for text, _ in valid], [number for _, number in valid]
        results = iter(self.translate_lines(lines, chunk.number, progress, numbers))
        return self._rules.render(
            chunk, [NOT_UTF8 if text is None else next(results) for text in texts]
        )

    def translate_lines(
        self,
        texts: Sequence[str],
        chunk: int = 0,
        progress: Progress = lambda n: None,
        numbers: Optional[Sequence[int]] = None,
    ) -> list[LineResult]:
        """Translate lines.

        Args:
            texts: lines; surrounding white space is ignored. An empty line stays empty.
            chunk: the number of the chunk; samples depend on it, but not on earlier chunks.
            progress: called with the number of newly translated lines.
            numbers: the line numbers in the input, for drafts (default: from 0).

        Returns:
            the result of each line, in order
        """
        if not self._model.is_bundle:
            utils: Any = importlib.import_module("fairseq.utils")
            utils.set_torch_seed(self._model.seed + chunk)
        # Sentences of similar length finish together.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        results: list[LineResult] = [EMPTY_LINE] * len(texts)
        sources = (texts[number] for number in order)
        drafts = None
        if self._drafts is not None:
            drafts = self._drafts.of([numbers[number] if numbers else number for number in order])
        stream = self._translator.translate_stream(sources, drafts=drafts, in_order=False)
        for place, found in stream:
            number = order[place]
            if texts[number].strip():
                results[number] = _result(found if isinstance(found, list) else [found])
            progress(1)
        return results


def _result(found: list[Any]) -> LineResult:
    best = found[0]
    if best.error is not None:
        return best.error
    hypotheses = [
        TextHypothesis(own.text or "", own.score / math.log(2), len(own.tokens)) for own in found
    ]
    return Outcome(len(best.source_tokens), hypotheses)


def _is_file(value: Any) -> bool:
    return isinstance(value, str) and os.path.isfile(value)


def _decoded(line: bytes) -> Optional[str]:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None
