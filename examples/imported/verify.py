#!/usr/bin/env python3
"""Compare imported models with transformers: tokens of tiny models, logits of published sizes.

    python examples/imported/verify.py                      # a quarter of an hour on one core
    python examples/imported/verify.py --published-sizes    # up to 10 GB of memory
    python examples/imported/verify.py marian nllb --sentences 100

A tiny model of each class is trained by transformers, imported, and decodes sentences greedily and
with a beam of 4, with both values of early_stopping, as the recorded options say. Published sizes
have random weights; logits of a ragged batch are compared.

A translation that differs is a near tie if the log-probabilities of the first tokens that differ
(for beams, the scores of both translations) differ by less than 1e-4 in float64, or if transformers
finds our translation in float64.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

import fairseq_fastdec
from examples.common import arguments, commands
from examples.common.en_de import EN_DE
from examples.common.figures import write_figures
from examples.common.huggingface import KINDS, Start, start_of
from examples.common.table import markdown
from examples.imported import sizes, training
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

NEAR = 1e-4
BATCH = 32
PACKAGES = ("torch", "transformers", "sentencepiece", "tokenizers")
# After so short a training, some translations do not end.
SHORT = {"max_length": 80}
SEARCHES = {
    "greedy": {**SHORT, "num_beams": 1, "early_stopping": False},
    "beam 4": {**SHORT, "num_beams": 4, "early_stopping": False},
    "beam 4, early_stopping": {**SHORT, "num_beams": 4, "early_stopping": True},
}


class Model(NamedTuple):
    """A model of transformers.

    Attributes:
        name: a key of :data:`~examples.common.huggingface.KINDS`.
        special: the types that are not part of translations.
    """

    name: str
    model: Any
    tokenizer: Any
    start: Start
    special: set[int]

    @classmethod
    def of(cls, name: str, directory: Path) -> "Model":
        """Open a directory."""
        model, tokenizer = training.opened(name, directory)
        start = start_of(name, model, tokenizer)
        special = {*tokenizer.all_special_ids, start.first, start.forced}
        return cls(name, model, tokenizer, start, special - {tokenizer.unk_token_id, None})

    def translate(self, lines: Sequence[str], search: dict[str, Any]) -> Iterator[list[int]]:
        """The types of translations, without special ones."""
        start = {"decoder_start_token_id": self.start.first}
        if self.start.forced is not None:
            start["forced_bos_token_id"] = self.start.forced
        for first in range(0, len(lines), BATCH):
            batch = self.tokenizer(list(lines[first : first + BATCH]))["input_ids"]
            rows = [torch.tensor(own) for own in batch]
            inputs = pad_sequence(rows, True, self.model.config.pad_token_id)
            mask = pad_sequence([torch.ones_like(own) for own in rows], True, 0)
            found = self.model.generate(inputs, attention_mask=mask, **start, **search)
            for row in found.tolist():
                yield [number for number in row if number not in self.special]

    def numbers(self, tokens: Sequence[str]) -> list[int]:
        """The numbers of the words of our translation."""
        if self.name == "bart":
            return [int(token) for token in tokens]
        return self.tokenizer.convert_tokens_to_ids(list(tokens))

    def log_probs(self, line: str, outputs: Sequence[int]) -> torch.Tensor:
        """The log-probabilities ``[T, V]`` at the outputs of a sentence, and at EOS."""
        source = torch.tensor([self.tokenizer(line)["input_ids"]])
        target = self.start.around(outputs, self.model.config.eos_token_id)
        with torch.no_grad():
            logits = self.model(source, decoder_input_ids=torch.tensor([target[:-1]])).logits[0]
        if self.model.generation_config.renormalize_logits:
            logits[:, self.model.config.pad_token_id] = -torch.inf
        # The first of them is for the forced type.
        return logits.log_softmax(-1)[self.start.forced is not None :]

    def score(self, line: str, outputs: Sequence[int]) -> float:
        """The score of a translation in beam search, in which the forced type counts 0."""
        target = torch.tensor([*outputs, self.model.config.eos_token_id])
        log_probs = self.log_probs(line, outputs)[range(len(target)), target]
        length = len(target) + (self.start.forced is not None)
        penalty = self.model.generation_config.length_penalty
        return float(log_probs.sum()) / length ** (1.0 if penalty is None else penalty)

    def is_near_tie(self, line: str, theirs: list[int], ours: list[int], is_greedy: bool) -> bool:
        """Whether two translations are equally good; the model is in float64."""
        if not is_greedy:
            return abs(self.score(line, theirs) - self.score(line, ours)) < NEAR
        eos = self.model.config.eos_token_id
        pairs = enumerate(zip([*theirs, eos], [*ours, eos]))
        place, two = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
        first, second = self.log_probs(line, theirs)[place, list(two)]
        return bool((first - second).abs() < NEAR)


def verify(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Train a model, and compare its translations by all searches."""
    work = args.workdir / name
    began = time.perf_counter()
    training.train(name, work / "model", args.updates)
    theirs = Model.of(name, work / "model")
    lines = (EN_DE / "data" / "valid.en").read_text(encoding="utf-8").splitlines()
    lines = lines[: args.sentences]
    found: dict[str, Any] = {"seconds_of_training": time.perf_counter() - began}
    for search, options in SEARCHES.items():
        found[search] = compare(theirs, work, lines, options)
        print(f"{name}, {search}: {found[search]}", flush=True)
    return found


def compare(
    model: Model, work: Path, lines: list[str], search: dict[str, Any]
) -> dict[str, int | list[str]]:
    """Count the translations of an imported model that are those of transformers."""
    expected = list(model.translate(lines, search))
    translations = ours(model, work, lines, search)
    found = [model.numbers(own.tokens) for own in translations]
    special = model.special
    found = [[number for number in own if number not in special] for own in found]
    differing = [place for place, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]]
    model.model.double()
    near, others = 0, []
    for place in differing:
        two = (lines[place], expected[place], found[place])
        again = next(model.translate(lines[place : place + 1], search))
        if again == found[place] or model.is_near_tie(*two, search["num_beams"] == 1):
            near += 1
        else:
            others.append(lines[place])
    model.model.float()
    return {
        "sentences": len(lines),
        "identical": len(lines) - len(differing),
        "near_ties": near,
        "others": others,
    }


def ours(model: Model, work: Path, lines: list[str], search: dict[str, Any]) -> list[Any]:
    """Import the model with the options of a search, and translate with those that are recorded."""
    from fairseq_fastdec.importing import recognising, writing

    path = work / "model" / "generation_config.json"
    options = json.loads(path.read_text(encoding="utf-8"))
    atomic_files.write_text(path, json.dumps({**options, **search}))
    writing.write(recognising.read(work / "model"), work / "imported")
    translator = fairseq_fastdec.load(work / "imported")
    pair = KINDS[model.name].pair
    languages = {} if pair is None else dict(zip(("source", "target"), pair))
    return translator.translate(lines, details=True, **languages)


def main() -> None:
    """Compare, print a table, and write JSON."""
    args = parse_args()
    args.workdir.mkdir(parents=True, exist_ok=True)
    origin = commands.provenance()
    measure = published if args.published_sizes else verify
    found = {name: measure(name, args) for name in args.models}
    versions = {name: metadata.version(name) for name in PACKAGES}
    document = {**origin, "versions": versions, "models": found}
    kind = "published_sizes" if args.published_sizes else "tokens"
    output = args.json or args.workdir / f"{kind}.json"
    write_figures(output, document)
    rows = size_rows(found) if args.published_sizes else token_rows(found)
    print("\n" + markdown("Imported models beside transformers", rows), f"\n\n{output}")


def published(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Compare logits of a model of a published size."""
    found = sizes.compare(name, args.workdir / "published")
    print(f"{name}: {found}", flush=True)
    return found


def token_rows(found: dict[str, Any]) -> list[dict[str, str]]:
    """A row for each model: identical sentences, and near ties."""
    return [
        {
            "model": name,
            **{
                search: f"{own[search]['identical']} + {own[search]['near_ties']} of "
                f"{own[search]['sentences']}"
                for search in SEARCHES
            },
        }
        for name, own in found.items()
    ]


def size_rows(found: dict[str, Any]) -> list[dict[str, str]]:
    """A row for each model of a published size."""
    return [
        {
            "model": name,
            "parameters": f"{own['parameters'] / 1e6:.0f} million",
            "largest difference of logits": f"{own['largest_difference']:.1e}",
            "their standard deviation": f"{own['standard_deviation']:.2f}",
        }
        for name, own in found.items()
    ]


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--published-sizes", action="store_true", help="logits of random weights")
    parser.add_argument("--sentences", type=positive, default=500)
    parser.add_argument("--updates", type=positive, default=300, help="of each training")
    parser.add_argument("--workdir", type=Path, default=Path("work/imported"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: in the work directory")
    args = parser.parse_args()
    for name in args.models:
        if name not in KINDS:
            parser.error(f"{name}: there is no such model; choose from {', '.join(KINDS)}")
    args.models = args.models or list(KINDS)
    return args


if __name__ == "__main__":
    main()
