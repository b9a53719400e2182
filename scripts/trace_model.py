#!/usr/bin/env python3
"""Compare an imported model with its reference, layer by layer.

    python scripts/trace_model.py models/enpt --text "Good morning."

prints the largest difference of each tensor, in the order in which they are computed, and names the
first that differs by more than ``--tolerance``; the exit code is then 1. The reference of Marian's
files is a transformer in NumPy (``tests/support/marian_numpy.py``), and that of Hugging Face's
directories is the package ``transformers``.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_fastdec.data.model_files import SENTENCEPIECE  # noqa: E402
from fairseq_fastdec.importing import marian_directory, marian_vocabulary  # noqa: E402
from tests.support import marian_numpy, traces  # noqa: E402

EOS, UNK = 2, 3
STEPS = 8  # target tokens
LOGITS = "decoder.output_projection"
Tensors = dict[str, np.ndarray]


class MarianReference:
    """A model of Marian in NumPy."""

    def __init__(self, path: Path, imported: Any) -> None:
        files = marian_directory.found(path)
        self.oracle = marian_numpy.Marian(files.model)
        names, rows = files.vocabularies, (self.oracle.source, self.oracle.target)
        self.rows = [
            np.array(marian_vocabulary.vocabulary(name, len(own)).rows)
            for name, own in zip(names[:2], rows)
        ]
        self.symbols, self.files = imported.source, imported.files

    def encoded(self, text: str) -> list[str]:
        """The symbols of a text."""
        from sentencepiece import SentencePieceProcessor

        pieces = SentencePieceProcessor(model_proto=self.files[SENTENCEPIECE])
        return [*pieces.encode(text, out_type=str), "</s>"]

    def tensors(self, source: list[int], target: list[int]) -> Tensors:
        """All tensors for one sentence, by fairseq's numbers of types."""
        theirs, first = self.rows
        states = self.oracle.encode(theirs[source])
        logits = self.oracle.logits(states, first[target])
        self.oracle.recorded[LOGITS] = logits[:, first]
        return self.oracle.recorded

    def known(self) -> np.ndarray:
        """fairseq's numbers of the target types that the reference has."""
        return np.flatnonzero(self.rows[1] >= 0)


class HuggingFaceReference:
    """A model of the package ``transformers``."""

    def __init__(self, path: Path, imported: Any) -> None:
        # transformers imports it, which fails if it is for another torch, and uses none of it here.
        sys.modules.setdefault("torchaudio", None)  # type: ignore[arg-type]
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        self.model = AutoModelForSeq2SeqLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        n_types = self.model.get_output_embeddings().weight.size(0)
        names = self.tokenizer.convert_ids_to_tokens(range(min(n_types, len(self.tokenizer))))
        numbers = {name: number for number, name in enumerate(names)}
        self.rows = np.array([numbers.get(symbol, -1) for symbol in imported.source])

    def encoded(self, text: str) -> list[str]:
        """The symbols of a text."""
        return self.tokenizer.convert_ids_to_tokens(self.tokenizer(text)["input_ids"])

    def tensors(self, source: list[int], target: list[int]) -> Tensors:
        """All tensors for one sentence, by fairseq's numbers of types."""
        recorded: Tensors = {}
        end = traces.hook(self.model, recorded, lambda name: name.removeprefix("model."))
        start = self.model.config.decoder_start_token_id
        with torch.no_grad():
            output = self.model(
                input_ids=torch.from_numpy(self.rows[source])[None],
                decoder_input_ids=torch.tensor([[start, *self.rows[target[1:]]]]),
                use_cache=False,
            )
        end()
        # With the bias, which is not a part of the module of the output layer.
        recorded[LOGITS] = output.logits[0].numpy()[:, self.rows]
        return recorded

    def known(self) -> np.ndarray:
        """fairseq's numbers of the target types that the reference has."""
        return np.flatnonzero(self.rows >= 0)


def first_tokens(model: Any, source: list[int]) -> list[int]:
    """The decoder's first inputs: the most probable tokens of our model."""
    target = [EOS]
    with torch.no_grad():
        tokens = torch.tensor([source])
        encoded = model.encoder(tokens, torch.tensor([len(source)]))
        while len(target) < STEPS:
            logits = model.decoder(torch.tensor([target]), encoded)[0][0, -1]
            logits[UNK] = -torch.inf
            target.append(int(logits.argmax()))
            if target[-1] == EOS:
                return target[:-1]
    return target


def compared(path: Path, text: str, tokens: Sequence[str], tolerance: float) -> bool:
    """Print the differences of all tensors.

    Args:
        text: is split into tokens unless they are given.

    Returns:
        whether none is beyond the tolerance
    """
    is_hugging_face = (path / "config.json").is_file()
    reader = "huggingface" if is_hugging_face else "marian"
    imported = importlib.import_module(f"fairseq_fastdec.importing.{reader}").read(path)
    reference = (HuggingFaceReference if is_hugging_face else MarianReference)(path, imported)
    model = traces.built(imported)
    dictionary = model.encoder.dictionary
    symbols = list(tokens) or reference.encoded(text)
    source = [dictionary.index(symbol) for symbol in symbols]
    target = first_tokens(model, source)
    print(f"source: {' '.join(symbols)}")
    print(f"target: {' '.join(model.decoder.dictionary[number] for number in target)}")
    ours, theirs = traces.of_fairseq(model, source, target), reference.tensors(source, target)
    known = reference.known()
    ours[LOGITS], theirs[LOGITS] = ours[LOGITS][:, known], theirs[LOGITS][:, known]
    for name, largest in traces.differences(theirs, ours):
        print(f"{largest:10.2e}  {name}")
    first = traces.first_difference(theirs, ours, tolerance)
    if first is not None:
        print(f"first tensor that differs: {first.name}")
    return first is None


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Compare a model; the exit code is 1 if a tensor differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, metavar="MODEL", help="a directory, or Marian's file")
    parser.add_argument("--text", default="This is a small test.", help="the sentence")
    parser.add_argument(
        "--tokens", default="", help="its symbols, separated by spaces, in place of a text"
    )
    parser.add_argument(
        "--tolerance", type=float, default=1e-3, help="the largest difference (default: 1e-3)"
    )
    args = parser.parse_args(arguments)
    return int(not compared(args.model, args.text, args.tokens.split(), args.tolerance))


if __name__ == "__main__":
    sys.exit(main())
