"""Translates lines of text with a bundle, without importing torch or fairseq."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ...data.draft_lines import DraftLines
from ...translating.bundle import BundleTranslator
from ...translating.registry import ANY_DRAFTED
from ...translating.results import Translation
from ..command_line import version
from .output_lines import EMPTY_LINE, LineResult, Outcome, OutputRules, TextHypothesis
from .text_files import content_of
from .worker import CorpusModel, LineTranslator, Progress


@dataclass(frozen=True)
class BundleModel(CorpusModel):
    """A bundle and the decoding options of a command line.

    Attributes:
        path: the file of the bundle.
        options: passed to :meth:`...bundles.translator.BundleTranslator.of`.
        batch_size: the sentences that a thread decodes at once.
        draft_file: the file with a draft for each line; ``None`` without drafts.
        memory: the files of a translation memory by option, see
            :meth:`...bundles.translator.BundleTranslator.of`.
    """

    path: str
    options: dict[str, Any]
    batch_size: int
    draft_file: Optional[str] = None
    memory: dict[str, str] = field(default_factory=dict)
    may_use_gpus: bool = False

    def check(self) -> None:
        """Check the options before anything is written.

        Raises:
            OSError, ValueError: see :class:`BundleLineTranslator`.
        """
        BundleLineTranslator(self, OutputRules())

    def n_gpus(self) -> int:
        return 0

    def settings(self) -> dict[str, Any]:
        digest = content_of(self.path).sha256
        return {"bundle": digest, "options": self.options, "version": version()}

    def translator(self, rules: OutputRules, device: Optional[int]) -> "BundleLineTranslator":
        return BundleLineTranslator(self, rules)

    def portable(self) -> tuple["BundleModel", dict[str, str]]:
        files, copy = {"bundle": self.path}, replace(self, path="bundle")
        if self.draft_file is not None:
            files["drafts"], copy = self.draft_file, replace(copy, draft_file="drafts")
        # The options are the names of the copies.
        files.update(self.memory)
        return replace(copy, memory={option: option for option in self.memory}), files


class BundleLineTranslator(LineTranslator):
    """Translates with a bundle that it loads."""

    def __init__(self, model: BundleModel, rules: OutputRules) -> None:
        """
        Raises:
            OSError, ValueError: see :meth:`...bundles.translator.BundleTranslator.of`.
            ValueError: for a draft file that cannot be read, or a method that verifies no drafts.
        """
        super().__init__(rules, seed=0)
        self._translator = BundleTranslator.of(model.path, **model.options, **model.memory)
        self._batch_size = model.batch_size
        self._drafts = None if model.draft_file is None else DraftLines(model.draft_file)
        if self._drafts is not None and not self._translator.verifies_drafts:
            raise ValueError(
                f"--draft-file {model.draft_file}: the bundle's method does not verify drafts; "
                f"choose --decoding {ANY_DRAFTED}, or remove it"
            )

    def prepare(self) -> None:
        """Build the index of the translation memory; the weights of a bundle need no preparation.

        Raises:
            ValueError: if the index cannot be written.
        """
        self._translator.job("a", {})

    def use_threads(self, n_threads: int) -> None:
        self._translator.schedule(threads=n_threads, batch_size=self._batch_size)

    def translate_lines(
        self,
        texts: Sequence[str],
        seed: int = 0,
        progress: Progress = lambda n: None,
        numbers: Optional[Sequence[int]] = None,
    ) -> list[LineResult]:
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


def _result(found: list[Translation]) -> LineResult:
    best = found[0]
    if best.error is not None:
        return best.error
    hypotheses = [
        TextHypothesis(own.text or "", own.score / math.log(2), len(own.tokens)) for own in found
    ]
    return Outcome(len(best.source_tokens), hypotheses)
