#!/usr/bin/env python3
"""Translate English sentences with the bundled model, and compare methods on the test set.

    python examples/en_de/demo.py "Click the Save button to save your document."
    python examples/en_de/demo.py < sentences.txt

The model (``model/``) is small, and trained on LibreOffice's help and user interface. Use sentences
of this kind.
"""

import argparse
import copy
import logging
import sys
import time
from pathlib import Path
from typing import Any

import torch
from omegaconf import open_dict

from examples.common import arguments
from examples.common.en_de import EN_DE, MODEL
from examples.common.table import SCORER, Run, grouped, markdown, row_of, signed
from fairseq_fastdec.models.blockwise_transformer import BlockwiseTransformerModel
from fairseq_fastdec.processes.noise import imports_unheard, results_only
from fairseq_fastdec.tools.corpus import best_translations
from fairseq_fastdec.translating.command_line import positive

with imports_unheard():
    from fairseq.hub_utils import GeneratorHubInterface

OWN_SENTENCES = (
    "Click the Save button to save your document.",
    "Select the cells that you want to format, and then choose Format - Cells.",
    "You can use the keyboard to move through the list of functions.",
)
METHODS: dict[str, dict[str, Any]] = {
    "fairseq --beam 1": {"decoding": "fairseq"},
    "greedy": {"decoding": "greedy"},
    "lookahead": {"decoding": "lookahead"},
    "blockwise": {"decoding": "blockwise"},
}


def main() -> None:
    """Translate, then compare."""
    args = parse_args()
    with results_only(logging.WARNING):
        hub = load(MODEL)
        translate(hub, args.text or sentences_of(sys.stdin))
        print_comparison(hub, args.test_sentences, args.rounds)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument(
        "text", nargs="*", help="English sentences (default: standard input, if any)"
    )
    parser.add_argument("--test-sentences", type=positive, default=100, metavar="N")
    parser.add_argument("--rounds", type=positive, default=3)
    return parser.parse_args()


def load(folder: Path) -> GeneratorHubInterface:
    """Load the model in a folder with fairseq's hub interface."""
    return BlockwiseTransformerModel.from_pretrained(
        str(folder),
        "checkpoint.pt",
        str(folder),
        tokenizer="moses",
        bpe="subword_nmt",
        bpe_codes=str(folder / "bpe.codes"),
    )


def sentences_of(stream: Any) -> list[str]:
    """The lines of a pipe; example sentences for a terminal or empty input."""
    lines = [] if stream.isatty() else [line.strip() for line in stream]
    return [line for line in lines if line] or list(OWN_SENTENCES)


def translate(hub: GeneratorHubInterface, sentences: list[str]) -> None:
    """Print each sentence, its translation, and the blocks in which it was found."""
    generator = generator_of(hub, METHODS["blockwise"])
    for sentence in sentences:
        before = generator.statistics.decoder_invocations
        tokens = decode(hub, generator, batch_of(hub, sentence))
        invocations = generator.statistics.decoder_invocations - before
        print(f"en: {sentence}\nde: {hub.decode(tokens)}")
        print(f"    ({tokens.numel()} tokens in {invocations} decoder invocations)\n", flush=True)


def print_comparison(hub: GeneratorHubInterface, n_sentences: int, n_rounds: int) -> None:
    """Run all methods in turns, one sentence at a time, and print the table."""
    sources, references = (
        (EN_DE / "data" / f"test.{language}").read_text(encoding="utf-8").splitlines()[:n_sentences]
        for language in ("en", "de")
    )
    batches = [batch_of(hub, source) for source in sources]
    runs = [run_of(hub, method, batches, references) for _ in range(n_rounds) for method in METHODS]
    groups = grouped(runs)
    print(
        markdown(
            signed(
                f"{len(sources)} test sentences, one at a time, {torch.get_num_threads()} threads, "
                "alternating rounds (medians)."
            ),
            [row_of(group, groups[0]) for group in groups],
        )
    )


def run_of(
    hub: GeneratorHubInterface,
    method: str,
    batches: list[dict[str, Any]],
    references: list[str],
) -> Run:
    """Run one round of one method."""
    generator = generator_of(hub, METHODS[method])
    decode(hub, generator, batches[0])  # exclude one-time preparation
    counters = getattr(generator, "statistics", None)
    before = counters.decoder_invocations if counters else 0
    started = time.perf_counter()
    hypotheses = [decode(hub, generator, batch) for batch in batches]
    seconds = time.perf_counter() - started
    texts = dict(enumerate(hub.decode(tokens) for tokens in hypotheses))
    n_tokens = sum(tokens.numel() for tokens in hypotheses)
    return Run(
        model="the bundled model",
        method=method,
        bleu=SCORER.score(texts, dict(enumerate(references))),
        seconds=seconds,
        tokens=n_tokens,
        # fairseq's generator calls the decoder once per token.
        invocations=counters.decoder_invocations - before if counters else n_tokens,
        hypotheses=texts,
        translations=texts,
    )


def generator_of(hub: GeneratorHubInterface, options: dict[str, Any]) -> Any:
    """Build a generator of the task with these options."""
    args = copy.deepcopy(hub.cfg.generation)
    with open_dict(args):
        args.update({"beam": 1, **options})
    return hub.task.build_generator(hub.models, args)


def batch_of(hub: GeneratorHubInterface, sentence: str) -> dict[str, Any]:
    """A fairseq batch of one sentence."""
    (batch,) = hub._build_batches([hub.encode(sentence)], skip_invalid_size_inputs=False)
    return batch


def decode(hub: GeneratorHubInterface, generator: Any, batch: dict[str, Any]) -> torch.Tensor:
    """Decode a batch of one sentence; return the tokens of the best translation, int64 ``[m]``."""
    (tokens,) = best_translations(hub.task, generator, hub.models, batch)
    return tokens


if __name__ == "__main__":
    main()
