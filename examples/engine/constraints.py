#!/usr/bin/env python3
"""Measure how much longer translations with constraints take.

    python examples/engine/constraints.py [--sentences N] [--rounds N] [--output FILE]

The bundled model translates its test set in one thread with beams of 5: one sentence per call, or
lists of 32. With constraints, each translation has to contain one word of the reference translation
that it does not contain by itself. The ways take turns at every call. The times are those of the
processor, which other programs affect less.
"""

import statistics
from typing import Any

import fairseq_fastdec
from examples.common.en_de import MODEL
from examples.engine.alignments import BATCH_SIZES, WITHOUT, parse_args, ratios, show
from examples.engine.scores import texts_of
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.translating.phrases import phrase_of

PRECISIONS = ("fp32", "int8")


@results_only()
def main() -> None:
    """Measure, print the table, and write the figures."""
    args = parse_args(__doc__, 320)
    lines, references = map(list, zip(*texts_of(args.sentences)))
    rows = []
    for precision in PRECISIONS:
        translator = fairseq_fastdec.load(MODEL, beam=5, engine_precision=precision)
        words = words_of(translator, lines, references)
        for size in BATCH_SIZES:
            n = -(-len(lines) // 4) if size == 1 else len(lines)
            starts = range(0, n, size)
            parts = [ways_of(translator, lines, words, slice(at, at + size)) for at in starts]
            shares = [ratios(parts, number)["constraints"] for number in range(args.rounds)]
            found = f"{statistics.median(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"
            rows.append({"precision": precision, "batch size": str(size), "time": found})
    show(f"Time without constraints = 1, {args.rounds} rounds (medians)", rows, args.output)


def words_of(translator: Any, lines: list[str], references: list[str]) -> list[Any]:
    """For each line, a word of its reference that its translation lacks; ``None`` for none."""
    return [
        next((word for word in reference.split() if is_new(translator, word, own)), None)
        for reference, own in zip(references, translator.translate(lines))
    ]


def is_new(translator: Any, word: str, translation: str) -> bool:
    """Whether the model can write a word that a translation lacks."""
    if not word.isalpha() or word in translation:
        return False
    try:
        return bool(phrase_of("word", word, translator.codec))
    except ValueError:
        return False


def ways_of(translator: Any, lines: list[str], words: list[Any], part: slice) -> dict[str, Any]:
    """The ways to translate a part of the lines."""
    own, given = lines[part], words[part]
    if len(own) == 1:
        (line,), (word,) = own, given
        return {
            WITHOUT: lambda: translator.translate(line),
            "constraints": lambda: translator.translate(line, constraints=word),
        }
    return {
        WITHOUT: lambda: translator.translate(own, batch_size=len(own)),
        "constraints": lambda: translator.translate(own, batch_size=len(own), constraints=given),
    }


if __name__ == "__main__":
    main()
