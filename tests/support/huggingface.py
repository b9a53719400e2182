"""Tiny random models of transformers in directories, and their logits."""

import functools
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.data import data_utils

from examples.common import huggingface as published
from fairseq_fastdec.importing import building
from tests.support import skips

DATA = Path(__file__).resolve().parents[2] / "examples" / "en_de" / "data"
SIZES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 64,
}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def transformers(*names):
    """Classes of transformers; the test is skipped if it is not installed."""
    skips.needs("transformers")
    return published.transformers(*names)


def train_sentencepiece(prefix, language="en", size=120, kind="unigram"):
    """Train a SentencePiece model, and return its file."""
    path = Path(f"{prefix}.model")
    path.write_bytes(_trained(language, size, kind))
    return path


@functools.cache
def _trained(language, size, kind):
    skips.needs("sentencepiece")
    lines = (DATA / f"valid.{language}").read_text(encoding="utf-8").splitlines()[:400]
    return published.train_pieces(lines, size, kind, coverage=0.98)


def pieces(path):
    """The pieces of a SentencePiece model."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def write_json(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")


def changed(path, **values):
    """Change values of a JSON file; those that are ``None`` are removed."""
    content = {**json.loads(path.read_text(encoding="utf-8")), **values}
    write_json(path, {name: value for name, value in content.items() if value is not None})


def randomised(model, seed=1):
    """A model with random parameters, also where transformers begins with zeros and ones."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        is_sinusoid = model.config.model_type == "fsmt" and "embed_positions" in name
        if parameter.requires_grad and not is_sinusoid:
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.zero_()
    return model.eval()


def built(imported):
    """fairseq's model of an imported one, and its task."""
    source = building.dictionary_of(imported.source)
    target = source if imported.source == imported.target else None
    target = target or building.dictionary_of(imported.target)
    task = Namespace(source_dictionary=source, target_dictionary=target)
    return building.model_of(imported, building.options_of(imported), task), task


def batch(task, n_types, seed=1):
    """A ragged batch of fairseq: source tokens padded on the left, lengths, and target tokens."""
    generator = torch.Generator().manual_seed(seed)
    sources = [_random(generator, length, n_types[0]) for length in (7, 3, 11, 1)]
    targets = [_random(generator, 8, n_types[1]) for _ in sources]
    eos, pad = task.source_dictionary.eos(), task.source_dictionary.pad()
    ended = [torch.cat([tokens, torch.tensor([eos])]) for tokens in sources]
    lengths = torch.tensor([len(tokens) for tokens in ended])
    return data_utils.collate_tokens(ended, pad, left_pad=True), lengths, torch.stack(targets)


def _random(generator, length, n_types):
    return torch.randint(3, n_types, (length,), generator=generator)


def logits_of_fairseq(model, batch, start):
    """The logits ``[B, T, V]`` of a batch, whose outputs begin with the type ``start``."""
    sources, lengths, targets = batch
    inputs = torch.cat([torch.full_like(targets[:, :1], start), targets], dim=1)
    with torch.no_grad():
        return model(sources, lengths, inputs)[0]


def logits_of_transformers(model, batch, start, source, target):
    """The logits ``[B, T, V]`` of transformers, in the order of fairseq's dictionaries.

    Args:
        start: the number of the first input in transformers.
        source, target: the numbers in transformers of fairseq's types; -1 for none.
    """
    sources, lengths, targets = batch
    source, target = torch.tensor(source), torch.tensor(target)
    rows = [source[row[-length:]] for row, length in zip(sources, lengths.tolist())]
    ids = torch.nn.utils.rnn.pad_sequence(rows, True, model.config.pad_token_id)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], True, 0)
    first = torch.full_like(targets[:, :1], start)
    inputs = torch.cat([first, target[targets]], dim=1)
    with torch.no_grad():
        # With a cache, FSMT has no causal mask.
        options = {"attention_mask": mask, "decoder_input_ids": inputs, "use_cache": False}
        logits = model(input_ids=ids, **options).logits
    return logits[..., target.clamp(min=0)]


def save(directory, kind, bias=False, files=None, **config):
    """Save a tiny random model with its tokenizer's files.

    Args:
        kind: a key of :data:`KINDS`.
        bias: whether the logits have random biases.
        files: options of ``save_pretrained``.
        config: values of the config.

    Returns:
        the model of transformers
    """
    config_class, model_class = transformers(*KINDS[kind].classes)
    values = {**SIZES, **KINDS[kind].write(directory), **config}
    torch.manual_seed(0)
    model = randomised(model_class(config_class(**values)))
    # transformers 5 takes these from its own file only.
    for name in {"forced_bos_token_id", "forced_eos_token_id"} & set(values):
        setattr(model.generation_config, name, values[name])
    if bias:
        model.final_logits_bias.normal_()
    model.save_pretrained(directory, **(files or {}))
    return model


class Kind(NamedTuple):
    """The classes of a model in transformers, and what writes its tokenizer."""

    classes: tuple[str, str]
    write: Callable


def marian(directory):
    """Write the files of a MarianTokenizer of one vocabulary."""
    words = ["</s>", "<unk>", *_write_both(directory)]
    return _vocab(directory, [*dict.fromkeys(words), "<pad>"])


def separate_marian(directory):
    """Write the files of a MarianTokenizer of two vocabularies."""
    _write_both(directory)
    sizes = []
    for side, name in (("source", "vocab.json"), ("target", "target_vocab.json")):
        words = ["</s>", "<unk>", *pieces(directory / f"{side}.spm")[3:110]]
        sizes.append(_vocab(directory, [*words, "<pad>"], name)["vocab_size"])
    write_json(directory / "tokenizer_config.json", {"separate_vocabs": True})
    pad = sizes[0] - 1
    return {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "share_encoder_decoder_embeddings": False,
        **_numbers(pad),
    }


def _write_both(directory):
    symbols = []
    for side, language in (("source", "en"), ("target", "de")):
        trained = train_sentencepiece(directory / side, language)
        symbols += pieces(trained)[3:]
        trained.rename(trained.with_suffix(".spm"))
    return symbols


def _vocab(directory, words, name="vocab.json"):
    write_json(directory / name, {word: number for number, word in enumerate(words)})
    return {"vocab_size": len(words), **_numbers(len(words) - 1)}


def _numbers(pad):
    return {
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
        "activation_function": "swish",
        "scale_embedding": True,
    }


def m2m_100(directory):
    """Write the files of an M2M100Tokenizer."""
    words = SPECIAL + _write_sentencepiece(directory)
    write_json(directory / "vocab.json", {word: number for number, word in enumerate(words)})
    return {"vocab_size": len(words) + 100 + 8}


def nllb(directory):
    """Write the files of an NllbTokenizer, with two types more than it has."""
    n_pieces = len(_write_sentencepiece(directory, kind="bpe"))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "NllbTokenizer"})
    return {"vocab_size": 4 + n_pieces + 202 + 1 + 2}


def mbart(directory):
    """Write the files of an MBartTokenizer."""
    n_pieces = len(_write_sentencepiece(directory))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBartTokenizer"})
    return {"vocab_size": 4 + n_pieces + 25 + 1, "scale_embedding": True}


def mbart_50(directory):
    """Write the files of an MBart50Tokenizer."""
    n_pieces = len(_write_sentencepiece(directory))
    write_json(directory / "tokenizer_config.json", {"tokenizer_class": "MBart50Tokenizer"})
    return {"vocab_size": 4 + n_pieces + 52 + 1, "decoder_start_token_id": 2}


def _write_sentencepiece(directory, kind="unigram"):
    """Write a SentencePiece model, and return its pieces after the special ones."""
    trained = train_sentencepiece(directory / "sentencepiece.bpe", kind=kind)
    return pieces(trained)[3:]


def bart(directory):
    """Write the files of a BartTokenizer: bytes and a few merges."""
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + number) for number in range(68)]
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("o", "u"), ("Ġ", "s")]
    words = [*SPECIAL, *letters, *("".join(pair) for pair in merges), "madeupword0000", "<mask>"]
    write_json(directory / "vocab.json", {word: number for number, word in enumerate(words)})
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges)]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"vocab_size": len(words), "forced_bos_token_id": 0}


def fsmt(directory):
    """Write the files of an FSMTTokenizer."""
    sizes = {}
    merges = [("t", "h"), ("th", "e</w>"), ("o", "u"), ("i", "n</w>")]
    for side, letters in (("src", "abcdefghinotu"), ("tgt", "efghinoptu")):
        ends = [letter + "</w>" for letter in letters]
        words = [*SPECIAL, *letters, *ends, *("".join(pair) for pair in merges)]
        numbers = {word: number for number, word in enumerate(words)}
        write_json(directory / f"vocab-{side}.json", numbers)
        sizes[f"{side}_vocab_size"] = len(words)
    lines = [" ".join(pair) for pair in merges]
    (directory / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = {"langs": ["en", "de"], "tokenizer_class": "FSMTTokenizer"}
    write_json(directory / "tokenizer_config.json", names)
    return {**sizes, "langs": ["en", "de"]}


MARIAN, BART = ("MarianConfig", "MarianMTModel"), ("BartConfig", "BartForConditionalGeneration")
M2M_100 = ("M2M100Config", "M2M100ForConditionalGeneration")
MBART = ("MBartConfig", "MBartForConditionalGeneration")
KINDS = {
    "marian": Kind(MARIAN, marian),
    "separate_marian": Kind(MARIAN, separate_marian),
    "m2m_100": Kind(M2M_100, m2m_100),
    "nllb": Kind(M2M_100, nllb),
    "mbart": Kind(MBART, mbart),
    "mbart_50": Kind(MBART, mbart_50),
    "bart": Kind(BART, bart),
    "fsmt": Kind(("FSMTConfig", "FSMTForConditionalGeneration"), fsmt),
}


def encoded(imported, text, directory):
    """The input of a model: the numbers of fairseq's dictionary, by the format and the BPE."""
    for name, content in imported.files.items():
        (directory / name).write_bytes(content)
    if imported.bpe == "subword_nmt":
        from subword_nmt.apply_bpe import BPE

        with open(directory / "bpe.codes", encoding="utf-8") as file:
            symbols = BPE(file).process_line(text).split()
    elif imported.bpe == "gpt2":
        from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

        files = (str(directory / "encoder.json"), str(directory / "vocab.bpe"))
        symbols = [str(number) for number in get_encoder(*files).encode(text)]
    else:
        from sentencepiece import SentencePieceProcessor

        model = SentencePieceProcessor(model_file=str(directory / "sentencepiece.bpe.model"))
        symbols = model.encode(text, out_type=str)
    names = {
        "{source}": [imported.languages.get(imported.source_lang, "")],
        "{target}": [imported.languages.get(imported.target_lang, "")],
        "{text}": symbols,
    }
    parts = [names.get(part, [part]) for part in imported.source_format.split()]
    unknown = SPECIAL.index("<unk>")
    numbers = {symbol: number for number, symbol in enumerate(imported.source)}
    return [numbers.get(symbol, unknown) for part in parts for symbol in part]
