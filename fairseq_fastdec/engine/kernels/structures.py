"""The structures that Python and C++ share: cpp/structures.h says what their fields mean."""

import ctypes

# What becomes of a linear layer's sums, by number. Activations are those of these names.
EPILOGUES = ("linear", "add", "relu", "gelu", "gelu_accurate", "tanh")

_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


def _fields(kind: type, *names: str) -> list:
    return [(name, kind) for name in names]


class Linear(ctypes.Structure):
    _fields_ = [
        *_fields(_POINTER, "weight", "weight_bf16", "weight_int8"),
        *_fields(_POINTER, "zero_point_compensation", "scales", "bias"),
        *_fields(_INT, "inputs", "outputs"),
    ]


class Norm(ctypes.Structure):
    _fields_ = [*_fields(_POINTER, "weight", "bias"), ("epsilon", _FLOAT)]


class Layer(ctypes.Structure):
    _fields_ = [
        *_fields(Linear, "self_qkv", "self_out", "cross_query", "cross_out", "fc1", "fc2"),
        *_fields(Norm, "self_norm", "cross_norm", "final_norm", "self_out_norm", "fc1_norm"),
        ("residual_scale", _POINTER),
    ]


class Model(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_layers", "dim", "n_heads", "head_dim", "hidden"),
        *_fields(_INT, "pre_norm", "activation", "tokens_per_step"),
        ("layers", _POINTER),
        *_fields(Norm, "embed_norm", "final_norm"),
        *_fields(_POINTER, "embed", "positions"),
        *_fields(_INT, "n_types", "n_positions"),
        ("embed_scale", _FLOAT),
    ]


class Cache(ctypes.Structure):
    _fields_ = [
        ("data", _POINTER),
        *_fields(_INT, "layer", "part", "slot", "head", "slots", "length"),
    ]


class Threads(ctypes.Structure):
    _fields_ = _fields(_POINTER, "parallel", "number", "count")


class Barrier(ctypes.Structure):
    _fields_ = _fields(_INT, "arrived", "phase")


class Step(ctypes.Structure):
    _fields_ = [
        ("model", Model),
        ("threads", _POINTER),
        *_fields(Cache, "rows", "sources"),
        *_fields(_INT, "n_rows", "n_sources", "n_new", "first_slot", "n_threads"),
        *_fields(_POINTER, "tokens", "parents", "past", "row_source", "source_lengths"),
        *_fields(_POINTER, "features", "scratch"),
        ("scratch_size", _INT),
        ("barrier", Barrier),
    ]


class Product(ctypes.Structure):
    _fields_ = [
        ("linear", Linear),
        ("threads", _POINTER),
        *_fields(_INT, "n", "n_threads"),
        *_fields(_POINTER, "x", "y", "scratch"),
    ]


class BestToken(ctypes.Structure):
    _fields_ = [
        ("linear", Linear),
        ("threads", _POINTER),
        *_fields(_INT, "n", "n_threads", "normalize"),
        ("never", _POINTER),
        *_fields(_INT, "n_never", "eos", "penalized"),
        *_fields(_FLOAT, "penalty", "temperature"),
        *_fields(_POINTER, "x", "no_end", "only_end", "types", "scratch"),
        ("scratch_size", _INT),
        *_fields(_POINTER, "scores", "tokens", "asked", "asked_scores"),
        ("barrier", Barrier),
    ]


class Heads(ctypes.Structure):
    _fields_ = [
        ("hidden", Linear),
        *_fields(_POINTER, "outputs", "threads"),
        *_fields(_INT, "n_outputs", "n_heads", "gelu", "n", "n_threads"),
        *_fields(_POINTER, "x", "y", "scratch"),
        ("scratch_size", _INT),
        ("barrier", Barrier),
    ]


class TopK(ctypes.Structure):
    _fields_ = [
        ("threads", _POINTER),
        *_fields(_INT, "n_rows", "n_types", "n_best", "n_threads", "normalize"),
        ("never", _POINTER),
        *_fields(_INT, "n_never", "eos", "penalized"),
        ("penalty", _FLOAT),
        *_fields(_POINTER, "scores", "only", "no_end"),
        ("n_beams", _INT),
        *_fields(_POINTER, "rows", "starts", "totals"),
        ("n_parts", _INT),
        *_fields(_POINTER, "scratch", "best", "tokens", "origins"),
    ]


class Append(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_sentences", "width", "n_rows", "n_new", "eos"),
        *_fields(_POINTER, "tokens", "scores", "sentence", "lengths", "finished"),
        *_fields(_POINTER, "new_tokens", "new_scores", "counts"),
        ("count", _INT),
        ("taken", _POINTER),
    ]


class Blocks(ctypes.Structure):
    _fields_ = [
        ("rows", Append),
        ("dim", _INT),
        *_fields(_POINTER, "next_tokens", "next_scores", "states", "proposals", "tokens"),
        *_fields(_POINTER, "parents", "depths", "features", "answers", "answer_scores"),
        *_fields(_POINTER, "verdict", "own_scores", "accepted", "path"),
        *_fields(_POINTER, "kept_tokens", "kept_scores"),
    ]


class Trees(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_rows", "n_heads", "n_best", "n_proposals", "eos", "pad"),
        *_fields(_POINTER, "roots", "scores", "ranked", "tokens", "parents", "depths"),
    ]


class Move(ctypes.Structure):
    _fields_ = [
        ("threads", _POINTER),
        ("n_threads", _INT),
        ("data", _POINTER),
        *_fields(_INT, "n_parts", "n_slots", "n_heads", "part", "slot", "head", "used"),
        *_fields(_POINTER, "origins", "places"),
        ("n", _INT),
        ("scratch", _POINTER),
    ]


# fastdec_size_of counts them in this order.
ALL = (
    Linear, Norm, Layer, Model, Cache, Threads, Barrier, Step, Product, BestToken, Heads, TopK,
    Append, Blocks, Trees, Move,
)  # fmt: skip
