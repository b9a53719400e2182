#!/usr/bin/env python3
"""Measure greedy decoding with drafts, at batch size 1.

    python examples/engine/drafts.py [--sentences N] [--rounds N] [--output FILE]

The drafts are translations by the same model: of an earlier version of the text (LibreOffice's help
pages), of the beginning of a sentence that grows word by word, or of the same sentence with some
words replaced, removed or inserted. Each round decodes all sentences without and with drafts.
Transformer base has random weights; --no-repeat-ngram-size 2 prevents it from repeating a single
token.
"""

import argparse
import difflib
import lzma
import random
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerModel
from torch import Tensor, nn

from benchmarks.profile_engine.command import random_dictionary
from examples.common.en_de import EN_DE, MODEL
from examples.common.figures import write_figures
from examples.common.random_base import SOURCE_LENGTH, TARGET_LENGTH, TYPES, save_base
from examples.common.random_models import random_sentences
from examples.common.table import markdown
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.translating.command_line import positive

SHARES = {"5 %": 0.05, "10 %": 0.1, "20 %": 0.2}
# Ranges of the share of changed words in a new version.
UPDATES = {"up to 7.5 %": (0, 0.075), "7.5 to 15 %": (0.075, 0.15), "15 to 30 %": (0.15, 0.3)}
PRECISIONS = ("fp32", "int8")
LANGUAGES = ("en", "de")


class Model:
    """A model that decodes sentences one by one."""

    def __init__(self, hub: Any, precision: str, **options: Any) -> None:
        self.hub = hub
        args = Namespace(decoding="greedy", engine_precision=precision, beam=1, **options)
        self._generators = [hub.task.build_generator(hub.models, args) for _ in range(2)]

    def decoded(
        self, sources: Sequence[Tensor], drafts: Optional[Sequence[Tensor]] = None
    ) -> tuple[list[Tensor], float, float]:
        """Decode; return the tokens of the outputs, seconds, and tokens per invocation.

        Args:
            sources: int64 ``[n]`` each, with EOS; drafts: int64 ``[D]`` each.
        """
        generator = self._generators[drafts is not None]
        batches = [next(self.hub._build_batches([source], False)) for source in sources]
        if drafts is not None:
            batches = [dict(batch, drafts=[own]) for batch, own in zip(batches, drafts)]
        counts = generator.statistics
        before = counts.tokens, counts.row_invocations
        started = time.perf_counter()
        found = [generator.generate(self.hub.models, batch)[0][0]["tokens"] for batch in batches]
        seconds = time.perf_counter() - started
        tokens, invocations = counts.tokens - before[0], counts.row_invocations - before[1]
        return found, seconds, tokens / invocations


@results_only()
def main() -> None:
    """Measure, print the tables, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=positive, default=200)
    parser.add_argument("--base-sentences", type=positive, default=30)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    for precision in PRECISIONS:
        figures[f"the bundled model, {precision}"] = of_bundled(precision, args)
    with tempfile.TemporaryDirectory() as directory:
        for precision in PRECISIONS:
            figures[f"transformer base, {precision}"] = of_base(Path(directory), precision, args)
    for name, rows in figures.items():
        print(markdown(name, rows))
    if args.output is not None:
        write_figures(args.output, figures)


def of_bundled(precision: str, args: Namespace) -> list[dict[str, str]]:
    """The rows of the bundled model."""
    folder = str(MODEL)
    codes = str(MODEL / "bpe.codes")
    hub = TransformerModel.from_pretrained(
        folder, "checkpoint.pt", folder, tokenizer="moses", bpe="subword_nmt", bpe_codes=codes
    )
    model, n = Model(hub, precision), args.sentences
    text = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[:n]
    sources = [hub.encode(line) for line in text]
    rows = of_edited(model, sources, args.rounds)
    for name, (least, most) in UPDATES.items():
        pairs = [pair for pair in versions() if least < changed_share(*pair) <= most][:n]
        old, new = ([hub.encode(line) for line in side] for side in zip(*pairs))
        drafts, _, _ = model.decoded(old)
        rows.append(row(f"an earlier version, {name} changed", model, new, drafts, args.rounds))
    growing, drafts = [], []
    for line in text[: max(n // 10, 1)]:
        words = line.split()
        parts = [hub.encode(" ".join(words[:i])) for i in range(1, len(words) + 1)]
        outputs, _, _ = model.decoded(parts)
        growing += parts
        # Without the final punctuation mark and EOS, which would end the draft too early.
        drafts += [outputs[0][:0], *(output[:-2] for output in outputs[:-1])]
    rows.append(row("a source that grows by a word", model, growing, drafts, args.rounds))
    return rows


def of_base(folder: Path, precision: str, args: Namespace) -> list[dict[str, str]]:
    """The rows of transformer base with random weights."""
    if not (folder / "base.pt").exists():
        save_base(folder / "base.pt", LANGUAGES, 1, change=scramble)
        dictionary = random_dictionary(TYPES)
        for language in LANGUAGES:
            dictionary.save(str(folder / f"dict.{language}.txt"))
    hub = TransformerModel.from_pretrained(str(folder), "base.pt", str(folder))
    length = TARGET_LENGTH - 1
    options = dict(min_len=length, max_len_a=0, max_len_b=length, no_repeat_ngram_size=2)
    model = Model(hub, precision, **options)
    torch.manual_seed(2)
    sentences = random_sentences(hub.task.source_dictionary, args.base_sentences, SOURCE_LENGTH)
    return of_edited(model, list(sentences.long()), args.rounds)


def scramble(network: nn.Module) -> None:
    """Flip signs of features at random, so that the model does not repeat the last token."""
    weight = network.decoder.layers[-1].final_layer_norm.weight.data
    weight.mul_(torch.randint(0, 2, weight.shape) * 2 - 1)


def of_edited(model: Model, sources: Sequence[Tensor], rounds: int) -> list[dict[str, str]]:
    """The rows for drafts of the same sentences, edited or not, and of other sentences."""
    outputs, _, _ = model.decoded(sources)
    marks = model.hub.task.target_dictionary.symbols
    rows = [row("the translation", model, sources, outputs, rounds)]
    for name, share in SHARES.items():
        drafts = edited(outputs, share, marks)
        rows.append(row(f"{name} of its words changed", model, sources, drafts, rounds))
    others = [*outputs[1:], outputs[0]]
    rows.append(row("another sentence's", model, sources, others, rounds))
    return rows


def row(
    name: str, model: Model, sources: Sequence[Tensor], drafts: Sequence[Tensor], rounds: int
) -> dict[str, str]:
    """Decode without and with drafts in turns; report the median ratio of the rounds.

    Raises:
        AssertionError: if drafts change an output.
    """
    ratios = []
    for _ in range(rounds):
        alone, seconds, _ = model.decoded(sources)
        found, own_seconds, per_invocation = model.decoded(sources, drafts)
        assert all(torch.equal(*pair) for pair in zip(alone, found)), name
        ratios.append(seconds / own_seconds)
    return {
        "draft": name,
        "tokens per invocation": f"{per_invocation:.2f}",
        "speed of greedy": f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f})",
    }


def edited(outputs: Sequence[Tensor], share: float, symbols: Sequence[str]) -> list[Tensor]:
    """Outputs with a share of the words replaced, removed, or followed by another word."""
    rng = random.Random(1)
    split = [words_of(output.tolist()[:-1], symbols) for output in outputs]
    others = [word for words in split for word in words]
    drafts = []
    for words, output in zip(split, outputs):
        draft: list[int] = []
        for word in words:
            kinds = [word, rng.choice(others)], [rng.choice(others)], []
            for kept in rng.choice(kinds) if rng.random() < share else [word]:
                draft += kept
        drafts.append(torch.tensor([*draft, int(output[-1])]))
    return drafts


def words_of(tokens: Sequence[int], symbols: Sequence[str]) -> list[list[int]]:
    """Group tokens into words; all subwords of a word but the last end in ``@@``."""
    words: list[list[int]] = [[]]
    for token in tokens:
        words[-1].append(token)
        if not symbols[token].endswith("@@"):
            words.append([])
    return [word for word in words if word]


def versions() -> list[tuple[str, str]]:
    """Changed paragraphs of LibreOffice's help, old and new."""
    packed = (EN_DE / "data" / "updates.tsv.xz").read_bytes()
    lines = lzma.decompress(packed).decode("utf-8").splitlines()
    return [(old, new) for old, new in (line.split("\t") for line in lines)]


def changed_share(old: str, new: str) -> float:
    """The share of words of the longer of two texts that are not in the other."""
    words = old.split(), new.split()
    blocks = difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks()
    return 1 - sum(block.size for block in blocks) / max(map(len, words))


if __name__ == "__main__":
    main()
