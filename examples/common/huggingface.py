"""Models of transformers with the files of published ones: tiny ones, and random ones of any size.

A directory has a tokenizer that is trained on the spot. Types of the model that the tokenizer does
not have are made-up words.
"""

import importlib
import importlib.machinery
import io
import json
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch

from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.importing.published_languages import NLLB_200

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
EOS = 2


def transformers(*names: str) -> list[Any]:
    """These classes of the package transformers.

    It imports torchaudio, which fails if it is for another torch, and uses none of it.
    """
    hidden = None
    if "torchaudio" not in sys.modules:
        hidden = types.ModuleType("torchaudio")
        hidden.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
        sys.modules["torchaudio"] = hidden
    try:
        package = importlib.import_module("transformers")
        # Classes are imported when they are first used.
        return [getattr(package, name) for name in names]
    finally:
        if hidden is not None:
            del sys.modules["torchaudio"]


class Kind(NamedTuple):
    """A class of model, as it is published.

    Attributes:
        config, model, tokenizer: the names of classes of transformers.
        write: writes the files of the tokenizer for lines of both languages, and returns values of
            the config; see :func:`write_marian`.
        pair: the names of English and German, or ``None`` for a model of one pair.
        generation: the values of ``generation_config.json`` of a published model.
        architecture: values of the config that all published models have.
        published: those of a published model's size.
    """

    config: str
    model: str
    tokenizer: str
    write: Callable[[Path, Sequence[str], Sequence[str], int], dict[str, Any]]
    pair: Optional[tuple[str, str]]
    generation: dict[str, Any]
    architecture: dict[str, Any]
    published: dict[str, Any]


class Start(NamedTuple):
    """The types of a translation's start, as numbers of transformers.

    Attributes:
        first: the decoder's first input.
        forced: the forced first type of outputs; ``None`` for none.
    """

    first: int
    forced: Optional[int]

    def around(self, target: Sequence[int], eos: int) -> list[int]:
        """The decoder's first input and the outputs of a sentence."""
        return [self.first, *([] if self.forced is None else [self.forced]), *target, eos]


def train_pieces(
    lines: Sequence[str], size: int, kind: str = "unigram", coverage: float = 0.999
) -> bytes:
    """Train a SentencePiece model whose pieces cover this share of characters."""
    import sentencepiece

    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=content,
        vocab_size=size,
        model_type=kind,
        character_coverage=coverage,
        minloglevel=2,
    )
    return content.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a SentencePiece model after ``<unk>``, ``<s>`` and ``</s>``."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(number) for number in range(3, processor.get_piece_size())]


def write_marian(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of a MarianTokenizer: two SentencePiece models and one vocabulary.

    Args:
        english, german: lines to train the tokenizer on.
        size: the number of pieces.
    """
    words = ["</s>", "<unk>"]
    for side, lines in (("source", english), ("target", german)):
        model = train_pieces(lines, size)
        atomic_files.write_bytes(directory / f"{side}.spm", model)
        words += pieces_of(model)
    words = [*dict.fromkeys(words), "<pad>"]
    write_numbers(directory, words)
    options = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    atomic_files.write_text(directory / "tokenizer_config.json", json.dumps(options))
    pad = len(words) - 1
    return {
        "vocab_size": len(words),
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "bad_words_ids": [[pad]],
    }


def write_m2m_100(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of an M2M100Tokenizer; see :func:`write_marian`."""
    pieces = _write_both(directory, english, german, size, "unigram")
    write_numbers(directory, [*SPECIAL, *pieces])
    # The tokenizer has 100 languages, and eight types without a name follow them.
    return {"vocab_size": len(SPECIAL) + len(pieces) + 108}


def write_nllb(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of an NllbTokenizer; see :func:`write_marian`."""
    return _write_shifted(directory, english, german, size, "NllbTokenizer", NLLB_200)


def write_mbart(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of an MBartTokenizer; see :func:`write_marian`."""
    return _write_shifted(directory, english, german, size, "MBartTokenizer")


def write_mbart_50(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of an MBart50Tokenizer; see :func:`write_marian`."""
    return _write_shifted(directory, english, german, size, "MBart50Tokenizer")


def _write_both(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int, kind: str
) -> list[str]:
    """Write a SentencePiece model of both languages, and return its pieces."""
    model = train_pieces([*english, *german], size, kind)
    atomic_files.write_bytes(directory / "sentencepiece.bpe.model", model)
    return pieces_of(model)


def _write_shifted(
    directory: Path,
    english: Sequence[str],
    german: Sequence[str],
    size: int,
    name: str,
    languages: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the files of a tokenizer that follows the pieces with languages and ``<mask>``."""
    _write_both(directory, english, german, size, "bpe" if languages else "unigram")
    (tokenizer_class,) = transformers(name)
    added = {"extra_special_tokens": list(languages)} if languages else {}
    tokenizer = tokenizer_class.from_pretrained(directory, **added)
    # This numbers the languages in tokenizer.json, as in published directories.
    tokenizer.save_pretrained(directory)
    return {"vocab_size": len(tokenizer)}


def write_bart(
    directory: Path, english: Sequence[str], german: Sequence[str], size: int
) -> dict[str, Any]:
    """Write the files of a BartTokenizer: the byte-level BPE of GPT-2; see :func:`write_marian`."""
    import tokenizers

    # Its warnings are about the number of threads.
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        [*english, *german], size, special_tokens=list(SPECIAL), show_progress=False
    )
    bpe.save_model(str(directory))
    numbers = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
    write_numbers(directory, [*sorted(numbers, key=numbers.__getitem__), "<mask>"])
    return {"vocab_size": len(numbers) + 1}


def write_numbers(directory: Path, words: Sequence[str]) -> None:
    """Write ``vocab.json``."""
    numbers = {word: number for number, word in enumerate(words)}
    text = json.dumps(numbers, ensure_ascii=False)
    atomic_files.write_text(directory / "vocab.json", text)


def deep(layers: int, dim: int, ffn: int, heads: int) -> dict[str, int]:
    """The values of a config with the same sizes on both sides."""
    return {
        "d_model": dim,
        **{f"{side}_layers": layers for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": ffn for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": heads for side in ("encoder", "decoder")},
    }


MBART = ("MBartConfig", "MBartForConditionalGeneration")
M2M_100 = ("M2M100Config", "M2M100ForConditionalGeneration")
FIVE_BEAMS = {"num_beams": 5, "early_stopping": True, "max_length": 200}
LARGE = deep(12, 1024, 4096, 16)
KINDS = {
    "marian": Kind(
        "MarianConfig", "MarianMTModel", "MarianTokenizer", write_marian, None,
        {"num_beams": 4, "max_length": 512, "forced_eos_token_id": 0, "renormalize_logits": True},
        {"activation_function": "swish", "scale_embedding": True, "eos_token_id": 0,
         "forced_eos_token_id": 0, "max_position_embeddings": 512},
        {**deep(6, 512, 2048, 8), "vocab_size": 58_101},
    ),
    "m2m_100": Kind(
        *M2M_100, "M2M100Tokenizer", write_m2m_100, ("en", "de"),
        {**FIVE_BEAMS, "decoder_start_token_id": EOS},
        {"scale_embedding": True, "max_position_embeddings": 1024},
        {**LARGE, "vocab_size": 128_112},
    ),
    "nllb": Kind(
        *M2M_100, "NllbTokenizer", write_nllb, ("eng_Latn", "deu_Latn"),
        {"max_length": 200, "decoder_start_token_id": EOS},
        {"scale_embedding": True, "max_position_embeddings": 1024},
        {**LARGE, "vocab_size": 256_206},
    ),
    "mbart_25": Kind(
        *MBART, "MBartTokenizer", write_mbart, ("en_XX", "de_DE"),
        {**FIVE_BEAMS, "forced_eos_token_id": EOS},
        {"scale_embedding": True, "max_position_embeddings": 1024},
        {**LARGE, "vocab_size": 250_027},
    ),
    "mbart_50": Kind(
        *MBART, "MBart50Tokenizer", write_mbart_50, ("en_XX", "de_DE"),
        {**FIVE_BEAMS, "decoder_start_token_id": EOS, "forced_eos_token_id": EOS},
        {"scale_embedding": True, "max_position_embeddings": 1024},
        {**LARGE, "vocab_size": 250_054},
    ),
    "bart": Kind(
        "BartConfig", "BartForConditionalGeneration", "BartTokenizer", write_bart, None,
        {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0, "max_length": 142,
         "min_length": 12, "no_repeat_ngram_size": 3, "decoder_start_token_id": EOS,
         "forced_bos_token_id": 0, "forced_eos_token_id": EOS},
        {"max_position_embeddings": 1024},
        {**LARGE, "vocab_size": 50_265},
    ),
}  # fmt: skip


def class_names() -> list[str]:
    """The names of all classes of transformers in :data:`KINDS`."""
    return [name for kind in KINDS.values() for name in (kind.config, kind.model, kind.tokenizer)]


def new_model(
    name: str, directory: Path, english: Sequence[str], german: Sequence[str], pieces: int,
    **sizes: Any,
) -> Any:  # fmt: skip
    """Write a tokenizer, and make a random model of its size.

    Args:
        name: a key of :data:`KINDS`.
        english, german: lines to train the tokenizer on.
        pieces: the number of its pieces.
        sizes: values of the config.
    """
    kind = KINDS[name]
    config_class, model_class = transformers(kind.config, kind.model)
    directory.mkdir(parents=True, exist_ok=True)
    values = {**kind.architecture, **kind.write(directory, english, german, pieces), **sizes}
    banned = values.pop("bad_words_ids", None)
    torch.manual_seed(0)
    model = model_class(config_class(**values))
    start = {"decoder_start_token_id": values.get("decoder_start_token_id")}
    generation = {**start, **kind.generation, **({"bad_words_ids": banned} if banned else {})}
    for option, value in generation.items():
        setattr(model.generation_config, option, value)
    return model.eval()


def tokenizer_of(name: str, directory: Path) -> Any:
    """The tokenizer of a directory, for English sources and German targets."""
    kind = KINDS[name]
    languages = {} if kind.pair is None else dict(zip(("src_lang", "tgt_lang"), kind.pair))
    (tokenizer_class,) = transformers(kind.tokenizer)
    return tokenizer_class.from_pretrained(directory, **languages)


def start_of(name: str, model: Any, tokenizer: Any) -> Start:
    """The start of German translations."""
    options, pair = model.generation_config, KINDS[name].pair
    if pair is None:
        return Start(options.decoder_start_token_id, options.forced_bos_token_id)
    language = tokenizer.convert_tokens_to_ids(f"__{pair[1]}__" if name == "m2m_100" else pair[1])
    return Start(language, None) if name == "mbart_25" else Start(EOS, language)
