"""Writes models, vocabularies and shortlists as Marian does, and makes random tiny ones."""

import struct

import numpy as np
import yaml

TYPES = {"i1": 0x0101, "f2": 0x0402, "f4": 0x0404}
INTGEMM8 = 0x4101
MAGIC = 0xF11A48D5013417F5
OPTIONS = {
    "type": "transformer",
    "version": "v1.12.0 65bf82ff 2023-02-21 09:56:29 -0800",
    "dim-emb": 8,
    "enc-depth": 2,
    "dec-depth": 2,
    "dec-cell": "gru",
    "transformer-heads": 2,
    "transformer-dim-ffn": 12,
    "transformer-ffn-activation": "swish",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-tied-layers": [],
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "tied-embeddings": False,
    "input-types": [],
}
SSRU = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}


def random_tensors(options=(), n_source=20, n_target=20, seed=0):
    """The tensors of a tiny model, by Marian's names, matrices ``[in, out]``."""
    options = {**OPTIONS, **dict(options)}
    generator = np.random.default_rng(seed)
    dim, tensors = options["dim-emb"], {}

    def matrix(name, *shape):
        tensors[name] = generator.normal(0, 1 / shape[-1] ** 0.5, shape).astype("f4")

    def norm(name, suffix=""):
        tensors[f"{name}_ln_scale{suffix}"] = generator.normal(1, 0.2, (1, dim)).astype("f4")
        matrix(f"{name}_ln_bias{suffix}", 1, dim)

    def part_norm(before, after):
        if "n" in options["transformer-preprocess"]:
            norm(before, "_pre")
        else:
            norm(after)

    def attention(name):
        for part in "qkvo"[: 3 if options.get("transformer-no-projection") else 4]:
            matrix(f"{name}_W{part}", dim, dim)
            matrix(f"{name}_b{part}", 1, dim)
        part_norm(f"{name}_Wo", f"{name}_Wo")

    def side(name, numbers, width):
        for number in sorted(set(numbers)):
            layer = f"{name}_l{number}"
            if name == "encoder" or options["transformer-decoder-autoreg"] != "rnn":
                attention(f"{layer}_self")
            else:
                matrix(f"{layer}_rnn_W", dim, dim)
                matrix(f"{layer}_rnn_Wf", dim, dim)
                matrix(f"{layer}_rnn_bf", 1, dim)
                part_norm(f"{layer}_rnn", f"{layer}_rnn_ffn")
            if name == "decoder":
                attention(f"{layer}_context")
            matrix(f"{layer}_ffn_W1", dim, width)
            matrix(f"{layer}_ffn_b1", 1, width)
            matrix(f"{layer}_ffn_W2", width, dim)
            matrix(f"{layer}_ffn_b2", 1, dim)
            part_norm(f"{layer}_ffn_ffn", f"{layer}_ffn_ffn")
        if "n" in options["transformer-postprocess-top"]:
            norm(f"{name}_top")
        if "n" in options["transformer-postprocess-emb"]:
            norm(f"{name}_emb", "_pre")

    embeddings(options, matrix, n_source, n_target)
    side("encoder", range(1, options["enc-depth"] + 1), options["transformer-dim-ffn"])
    numbers = options["transformer-tied-layers"] or range(1, options["dec-depth"] + 1)
    width = options.get("transformer-decoder-dim-ffn") or options["transformer-dim-ffn"]
    side("decoder", numbers, width)
    if options.get("positions"):
        matrix("Wpos", options["positions"], dim)
    tensors["special:model.yml"] = model_yml(options)
    return tensors


def embeddings(options, matrix, n_source, n_target):
    """Make the embeddings and the output layer."""
    dim = options["dim-emb"]
    if options["tied-embeddings-all"] or options["tied-embeddings-src"]:
        matrix("Wemb", n_source, dim)
    else:
        matrix("encoder_Wemb", n_source, dim)
        matrix("decoder_Wemb", n_target, dim)
    if not options["tied-embeddings-all"] and not options["tied-embeddings"]:
        if options.get("old-output"):
            matrix("decoder_ff_logit_out_W", dim, n_target)
        else:
            matrix("decoder_ff_logit_out_Wt", n_target, dim)
    if not options.get("output-omit-bias"):
        matrix("decoder_ff_logit_out_b", 1, n_target)


def model_yml(options):
    """The options as Marian stores them: text that ends in a zero."""
    return np.frombuffer(yaml.safe_dump(options).encode() + b"\0", dtype="i1")


def write_npz(path, tensors):
    """Write the tensors as numpy does."""
    np.savez(path, **tensors)


def quantised(name, matrix):
    """The bytes of a matrix as int8, transposed unless it is an embedding, with its multiplier."""
    multiplier = np.float32(127) / np.abs(matrix).max()
    values = np.rint(matrix * multiplier).clip(-127, 127).astype("i1")
    stored = values if "Wemb" in name else values.T
    return np.ascontiguousarray(stored).tobytes() + multiplier.tobytes()


def write_bin(path, tensors, is_quantised=False):
    """Write the tensors as ``marian-conv`` does; quantised, those of its matrices."""
    names = sorted(tensors)
    blocks, headers = [], []
    for name in names:
        tensor, last = tensors[name], name.rpartition("_")[2]
        if is_quantised and ("Wemb" in name or last.startswith("W") and len(last) in (1, 2)):
            data, kind = quantised(name, tensor), INTGEMM8
        else:
            data, kind = tensor.tobytes(), TYPES[tensor.dtype.str[1:]]
        blocks.append(data if name.startswith("special:") else padded(data))
        headers.append((len(name) + 1, kind, tensor.ndim, len(blocks[-1])))
    start = struct.pack("<2Q", 1, len(names))
    start += b"".join(struct.pack("<4Q", *header) for header in headers)
    start += b"".join(name.encode() + b"\0" for name in names)
    start += b"".join(np.array(tensors[name].shape, dtype="<i4").tobytes() for name in names)
    padding = -(len(start) + 8) % 256
    path.write_bytes(start + struct.pack("<Q", padding) + bytes(padding) + b"".join(blocks))


def padded(data):
    """The bytes with padding up to a multiple of 256."""
    return data + bytes(-len(data) % 256)


def write_shortlist(path, first, lists):
    """Write a binary shortlist.

    Args:
        lists: the target types of each source type.
    """
    offsets = np.cumsum([0, *map(len, lists)]).astype("<u8")
    types = np.concatenate([np.array(own, dtype="<u4") for own in lists])
    header = struct.pack("<6Q", MAGIC, 0, first, 0, len(offsets), len(types))
    path.write_bytes(header + offsets.tobytes() + types.tobytes())


def pieces(n_types, prefix="▁w"):
    """The pieces of a vocabulary as Marian orders them."""
    return ["</s>", "<unk>", *(f"{prefix}{number}" for number in range(n_types - 2))]


def write_vocabulary(path, symbols):
    """Write a ``vocab.yml``."""
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    path.write_text(yaml.safe_dump(numbers, allow_unicode=True), encoding="utf-8")


def write_directory(folder, tensors, suffix="npz", n_source=20, n_target=20, **options):
    """Write a model with two vocabularies, or one for equal sizes, and models of pieces.

    Args:
        options: of :func:`write_bin`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if suffix == "npz":
        write_npz(folder / "model.npz", tensors)
    else:
        write_bin(folder / "model.bin", tensors, **options)
    if n_source == n_target:
        write_vocabulary(folder / "model.vocab.yml", pieces(n_source))
    else:
        write_vocabulary(folder / "src.vocab.yml", pieces(n_source))
        write_vocabulary(folder / "trg.vocab.yml", pieces(n_target, "▁z"))
    # The reader copies them, and does not read them.
    (folder / "source.spm").write_bytes(b"source pieces")
    (folder / "target.spm").write_bytes(b"target pieces")
    return folder
