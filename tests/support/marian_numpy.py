"""Marian's transformer in NumPy, from the tensors of its files, for one sentence.

It shares no code with the package. The names of recorded tensors are those of fairseq's modules.
"""

import math
import struct

import numpy as np
import yaml

EOS, UNK = 0, 1
EXACT_GELU = (1, 12, 3)


def read(path):
    """The tensors of a ``.bin`` or ``.npz`` in fp32, by name, matrices ``[in, out]``."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return dict(arrays)
    data = path.read_bytes()
    (count,) = struct.unpack_from("<Q", data, 8)
    headers = list(struct.iter_unpack("<4Q", data[16 : 16 + 32 * count]))
    at, names, shapes, tensors = 16 + 32 * count, [], [], {}
    for length, *_ in headers:
        names.append(data[at : at + length - 1].decode())
        at += length
    for _, _, dimensions, _ in headers:
        shapes.append(struct.unpack_from(f"<{dimensions}i", data, at))
        at += 4 * dimensions
    at += 8 + struct.unpack_from("<Q", data, at)[0]
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers):
        tensors[name] = tensor_of(name, kind, shape, data[at : at + size])
        at += size
    return tensors


def tensor_of(name, kind, shape, data):
    """A tensor of a ``.bin`` from its bytes."""
    count = int(np.prod(shape))
    if kind == 0x0404:
        return np.frombuffer(data, "f4", count).reshape(shape)
    values = np.frombuffer(data, "i1", count)
    if kind == 0x0101:
        return values.reshape(shape)
    assert kind == 0x4101
    multiplier = np.frombuffer(data, "f4", 1, offset=count)
    values = values.astype("f4") / multiplier
    return values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T


def softmax(values):
    """Softmax over the last dimension."""
    powers = np.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def gelu(values):
    """The exact gelu, by the error function of the standard library."""
    return values * (1 + np.vectorize(math.erf)(values / math.sqrt(2))) / 2


class Marian:
    """A transformer of Marian.

    Attributes:
        recorded: tensors by name, of the last calls.
    """

    def __init__(self, path):
        self.tensors = read(path)
        text = self.tensors["special:model.yml"].tobytes().rstrip(b"\0").decode()
        self.options = yaml.safe_load(text)
        self.recorded = {}
        tied_src = self.is_on("tied-embeddings-all") or self.is_on("tied-embeddings-src")
        self.source = self.tensors["Wemb" if tied_src else "encoder_Wemb"]
        self.target = self.tensors["Wemb" if tied_src else "decoder_Wemb"]
        self.dim = self.source.shape[1]
        self.before = "n" in self.option("transformer-preprocess", "")
        self.activation = self.activation_of()

    def option(self, name, default):
        return self.options.get(name, default)

    def is_on(self, name):
        return self.option(name, False) is True

    def activation_of(self):
        """The function between the two maps of a feed-forward part."""
        name = self.option("transformer-ffn-activation", "swish")
        version = self.option("version", "v0.0.0").split()[0].lstrip("v")
        if name == "relu":
            return lambda values: np.maximum(values, 0)
        if name == "gelu" and tuple(map(int, version.split("."))) >= EXACT_GELU:
            return gelu
        scale = 1.702 if name == "gelu" else 1
        return lambda values: values * sigmoid(scale * values)

    def record(self, name, values):
        """Remember a tensor."""
        self.recorded[name] = values
        return values

    def embedded(self, side, rows):
        """Add positions to embeddings ``[T, C]``."""
        places = np.arange(len(rows))
        if "Wpos" in self.tensors:
            values = rows + self.tensors["Wpos"][places]
        else:
            half = self.dim // 2
            angles = places[:, None] * 10000.0 ** (-np.arange(half) / (half - 1))
            signal = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
            values = rows * math.sqrt(self.dim) + signal.astype("f4")
        if "n" in self.option("transformer-postprocess-emb", "d"):
            values = self.norm(f"{side}_emb", values, "_pre")
        return self.record(f"{side}.layers.0 (input)", values.astype("f4"))

    def norm(self, name, values, suffix=""):
        """Layer norm."""
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
        tensors = self.tensors
        return scaled * tensors[f"{name}_ln_scale{suffix}"] + tensors[f"{name}_ln_bias{suffix}"]

    def affine(self, name, values, suffix):
        return values @ self.tensors[f"{name}_W{suffix}"] + self.tensors[f"{name}_b{suffix}"]

    def part(self, values, names, function, before, after):
        """A part of a layer with its residual connection and its norm.

        Args:
            names: of the part and of its norm, for the record; the part's can be empty.
            function: the part.
            before, after: the norm's names in Marian, by its place.
        """
        ours, norm = names
        inputs = values
        if self.before:
            inputs = self.record(norm, self.norm(before, values, "_pre"))
        outputs = self.record(ours, function(inputs)) + values
        return outputs if self.before else self.record(norm, self.norm(after, outputs))

    def attention(self, name, queries, keys, mask=None):
        """Multi-head attention."""
        heads = self.option("transformer-heads", 8)

        def split(values):
            return values.reshape(len(values), heads, -1).swapaxes(0, 1)

        query = split(self.affine(name, queries, "q"))
        key, value = split(self.affine(name, keys, "k")), split(self.affine(name, keys, "v"))
        scores = query @ key.swapaxes(1, 2) / math.sqrt(self.dim // heads)
        if mask is not None:
            scores = scores + mask
        read = (softmax(scores) @ value).swapaxes(0, 1).reshape(len(queries), self.dim)
        return read if self.is_on("transformer-no-projection") else self.affine(name, read, "o")

    def ssru(self, name, values):
        """The simpler simple recurrent unit."""
        new = values @ self.tensors[f"{name}_W"]
        forget = sigmoid(self.affine(name, values, "f"))
        state, outputs = np.zeros(self.dim, dtype="f4"), []
        for kept, added in zip(forget, new):
            state = kept * state + (1 - kept) * added
            outputs.append(np.maximum(state, 0))
        return np.stack(outputs)

    def feed_forward(self, ours, theirs, values):
        """The feed-forward part of a layer."""

        def function(inputs):
            return self.affine(theirs, self.activation(self.affine(theirs, inputs, "1")), "2")

        names = (f"{ours}.fc2", f"{ours}.final_layer_norm")
        return self.part(values, names, function, f"{theirs}_ffn", f"{theirs}_ffn")

    def top(self, side, values):
        """The norm after the last layer, if there is one."""
        if "n" in self.option("transformer-postprocess-top", ""):
            values = self.record(f"{side}.layer_norm", self.norm(f"{side}_top", values))
        return values

    def encode(self, source):
        """The states ``[S, C]`` of a source, int ``[S]`` with EOS."""
        values = self.embedded("encoder", self.source[source])
        for layer in range(self.option("enc-depth", 1)):
            ours, theirs = f"encoder.layers.{layer}", f"encoder_l{layer + 1}"
            norm = f"{theirs}_self_Wo"
            values = self.part(
                values,
                (f"{ours}.self_attn", f"{ours}.self_attn_layer_norm"),
                lambda inputs: self.attention(f"{theirs}_self", inputs, inputs),
                norm,
                norm,
            )
            values = self.record(ours, self.feed_forward(ours, f"{theirs}_ffn", values))
        return self.top("encoder", values)

    def logits(self, states, target):
        """The logits ``[T, N]`` after each token; ``target``, int ``[T]``, begins with EOS."""
        return self.record("decoder.output_projection", self.output(self.decode(states, target)))

    def decode(self, states, target):
        """The decoder's last states ``[T, C]``. The first input is a vector of zeros."""
        rows = self.target[target] * (np.arange(len(target)) > 0)[:, None]
        values = self.embedded("decoder", rows.astype("f4"))
        mask = np.triu(np.full((len(target), len(target)), -np.inf, dtype="f4"), 1)
        n_layers = self.option("dec-depth", 1)
        numbers = self.option("transformer-tied-layers", []) or range(1, n_layers + 1)
        for layer, number in enumerate(numbers):
            ours, theirs = f"decoder.layers.{layer}", f"decoder_l{number}"
            values = self.read_target(ours, theirs, values, mask)
            norm = f"{theirs}_context_Wo"
            values = self.part(
                values,
                (f"{ours}.encoder_attn", f"{ours}.encoder_attn_layer_norm"),
                lambda inputs: self.attention(f"{theirs}_context", inputs, states),
                norm,
                norm,
            )
            values = self.record(ours, self.feed_forward(ours, f"{theirs}_ffn", values))
        return self.top("decoder", values)

    def read_target(self, ours, theirs, values, mask):
        """Self-attention or the recurrent unit of a layer."""
        names = (f"{ours}.self_attn", f"{ours}.self_attn_layer_norm")
        if self.option("transformer-decoder-autoreg", "self-attention") == "rnn":
            name = f"{theirs}_rnn"
            return self.part(
                values, names, lambda inputs: self.ssru(name, inputs), name, f"{name}_ffn"
            )
        name = f"{theirs}_self"
        return self.part(
            values,
            names,
            lambda inputs: self.attention(name, inputs, inputs, mask),
            f"{name}_Wo",
            f"{name}_Wo",
        )

    def output(self, values):
        """The output layer."""
        name = "decoder_ff_logit_out"
        if self.is_on("tied-embeddings-all") or self.is_on("tied-embeddings"):
            logits = values @ self.target.T
        elif f"{name}_W" in self.tensors:
            logits = values @ self.tensors[f"{name}_W"]
        else:
            logits = values @ self.tensors[f"{name}_Wt"].T
        return logits + self.tensors.get(f"{name}_b", 0)

    def greedy(self, source, factor=3.0, types=None):
        """The most probable tokens one by one, without EOS.

        Args:
            factor: the greatest number of tokens, in lengths of the source.
            types: of a shortlist, int; the others are never chosen.
        """
        states, target = self.encode(source), [EOS]
        allowed = np.full(len(self.target), -np.inf)
        allowed[slice(None) if types is None else types] = 0
        allowed[UNK] = -np.inf
        while len(target) <= factor * len(source):
            last = self.decode(states, np.array(target))[-1]
            target.append(int((self.output(last) + allowed).argmax()))
            if target[-1] == EOS:
                return target[1:-1]
        return target[1:]
