"""The structures that Python and C++ share: cpp/structures.h says what their fields mean.

They have their names in C++, and are written with this module's: ``structures.TopK``. A class with
such a name that is written alone is what fills and runs the structure.
"""

import ctypes

# What becomes of a linear layer's sums, by number. Activations are those of these names.
EPILOGUES = ("linear", "add", "relu", "gelu", "gelu_accurate", "tanh")

_POINTER, _INT, _SHORT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
_FLOAT, _DOUBLE = ctypes.c_float, ctypes.c_double


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
        *_fields(_INT, "is_bf16", "layer", "part", "slot", "head", "slots", "length"),
    ]


class Costs(ctypes.Structure):
    _fields_ = [
        *_fields(_DOUBLE, "of_byte", "of_product_fp32", "of_product_bf16", "of_product_int8"),
        *_fields(_DOUBLE, "start", "meeting_of_two", "meeting_of_most"),
        ("most_threads", _INT),
    ]


class Threads(ctypes.Structure):
    _fields_ = [*_fields(_POINTER, "parallel", "number", "count"), ("costs", Costs)]


class Barrier(ctypes.Structure):
    _fields_ = _fields(_INT, "arrived", "phase")


class Step(ctypes.Structure):
    _fields_ = [
        ("model", Model),
        ("threads", _POINTER),
        *_fields(Cache, "rows", "sources"),
        *_fields(_INT, "n_rows", "n_sources", "n_new", "first_slot", "n_threads"),
        *_fields(_POINTER, "tokens", "parents", "past", "row_slots", "row_source"),
        ("source_lengths", _POINTER),
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
        *_fields(_POINTER, "x", "no_end", "only_end", "forbidden"),
        ("n_forbidden", _INT),
        *_fields(_POINTER, "types", "scratch"),
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


class Draft(ctypes.Structure):
    _fields_ = [
        ("step", Step),
        *_fields(Linear, "begin", "token", "query", "source", "fc1", "fc2", "narrow"),
        *_fields(Norm, "token_norm", "source_norm", "ffn_norm", "output_norm"),
        ("layer", _INT),
        *_fields(_POINTER, "from_features", "outputs"),
    ]


class DraftChains(ctypes.Structure):
    _fields_ = [
        *_fields(_POINTER, "draft", "best"),
        ("n_steps", _INT),
        ("confidence", _FLOAT),
        *_fields(_POINTER, "next_tokens", "no_end", "only_end", "proposals", "path_scores"),
    ]


class TopK(ctypes.Structure):
    _fields_ = [
        ("threads", _POINTER),
        *_fields(_INT, "n_rows", "n_types", "n_best", "n_threads", "n_per_row", "normalize"),
        ("never", _POINTER),
        *_fields(_INT, "n_never", "eos", "penalized"),
        ("penalty", _FLOAT),
        ("scores", _POINTER),
        ("n_members", _INT),
        *_fields(_POINTER, "only", "no_end", "has_to_end", "forbidden"),
        *_fields(_INT, "n_forbidden", "n_beams"),
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
        ("n_known", _INT),
        *_fields(_POINTER, "kept_tokens", "kept_scores", "kept_counts", "ended", "rest", "n_rest"),
        *_fields(_INT, "rest_width", "pad"),
    ]


class Verification(ctypes.Structure):
    _fields_ = [
        *_fields(_POINTER, "step", "heads", "states", "best", "blocks", "chains"),
        *_fields(_INT, "n_drafted", "shortest", "longest"),
    ]


class NgramTable(ctypes.Structure):
    _fields_ = [*_fields(_POINTER, "contexts", "tokens"), *_fields(_INT, "size", "used")]


class Ngrams(ctypes.Structure):
    _fields_ = [
        *_fields(NgramTable, "young", "old"),
        *_fields(_INT, "order", "eos", "n_sentences", "n_rows", "n", "remembers"),
        *_fields(_POINTER, "pools", "contexts", "sentences", "tokens", "counts"),
        *_fields(_POINTER, "guesses", "sizes"),
    ]


class Trees(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_rows", "n_heads", "n_best", "n_proposals", "eos", "pad"),
        *_fields(_POINTER, "roots", "scores", "ranked", "tokens", "parents", "depths"),
        ("path_scores", _POINTER),
    ]


class HeadTrees(ctypes.Structure):
    _fields_ = [*_fields(_POINTER, "heads", "product", "top_k", "trees"), ("temperature", _FLOAT)]


class DraftTrees(ctypes.Structure):
    _fields_ = [
        *_fields(_POINTER, "draft", "product", "best"),
        *_fields(_INT, "n_members", "n_levels", "n_proposals", "width", "eos", "pad"),
        *_fields(_FLOAT, "temperature", "least_score"),
        *_fields(_POINTER, "no_end", "only_end", "flags", "states", "roots"),
        *_fields(_POINTER, "tokens", "parents", "depths", "path_scores"),
    ]


class BeamTable(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_slots", "n_lengths", "width"),
        *_fields(_POINTER, "lengths", "widths", "steps", "expansions", "n_final", "n_waiting"),
        *_fields(_POINTER, "best_final", "final_scores", "final_lengths", "final_columns"),
        *_fields(_POINTER, "waiting_scores", "waiting_lengths", "waiting_columns"),
        *_fields(_POINTER, "tokens", "parents", "scores"),
        *_fields(_INT, "eos", "lets_wait"),
        ("threshold", _FLOAT),
        *_fields(_INT, "most_beams", "n_beams", "n_rows"),
        *_fields(_POINTER, "focus", "row_slots", "columns", "next_tokens", "totals"),
        *_fields(_POINTER, "rows", "starts", "origins"),
        ("n_candidates", _INT),
        *_fields(_POINTER, "candidate_scores", "candidate_tokens", "candidate_rows"),
        *_fields(_POINTER, "child_scores", "child_tokens", "child_columns", "child_rows"),
        *_fields(_POINTER, "done", "order"),
        *_fields(_INT, "n_kept", "shortest", "longest"),
        ("scratch", _POINTER),
        ("scratch_size", _INT),
    ]


class TokenPair(ctypes.Structure):
    _fields_ = [
        ("total", _FLOAT),
        ("scores", 2 * _FLOAT),
        ("column", _SHORT),
        ("tokens", 2 * _SHORT),
    ]


class DoubleTopK(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_beams", "n_entries", "width", "end", "n_best"),
        *_fields(_POINTER, "scores", "rows", "tokens", "best", "going_on"),
        *_fields(_INT, "n_ends", "n_lost", "most_rows"),
        *_fields(_POINTER, "next_tokens", "totals", "origins"),
        ("moves", _INT),
        ("scratch", _POINTER),
        ("scratch_size", _INT),
    ]


class Trace(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_slots", "n_lengths", "width"),
        *_fields(_POINTER, "history_tokens", "history_parents", "history_scores"),
        *_fields(_INT, "eos", "n", "n_tokens"),
        *_fields(_POINTER, "slots", "lengths", "columns", "totals", "tokens", "scores"),
    ]


class Repeats(ctypes.Structure):
    _fields_ = [
        *_fields(_INT, "n_rows", "n_new", "size", "before_first"),
        ("tokens", _POINTER),
        ("n_tokens", _INT),
        *_fields(_POINTER, "starts", "lengths", "block", "parents"),
        *_fields(_INT, "first", "filler", "most"),
        ("forbidden", _POINTER),
    ]


class Move(ctypes.Structure):
    _fields_ = [
        ("threads", _POINTER),
        *_fields(_INT, "n_threads", "few_bytes"),
        ("data", _POINTER),
        *_fields(_INT, "n_parts", "n_slots", "n_heads", "part", "slot", "head", "used"),
        ("origins", _POINTER),
        ("n", _INT),
        ("scratch", _POINTER),
        ("scratch_size", _INT),
    ]


class PathMove(ctypes.Structure):
    _fields_ = [
        ("data", _POINTER),
        *_fields(_INT, "n_parts", "n_slots", "n_heads", "length", "part", "slot", "head", "token"),
        *_fields(_INT, "n_rows", "n_path", "first_slot"),
        *_fields(_POINTER, "starts", "path"),
    ]


# fastdec_size_of counts them in this order.
ALL = (
    Linear, Norm, Layer, Model, Cache, Costs, Threads, Barrier, Step, Product, BestToken, Heads,
    TopK, Append, Blocks, NgramTable, Ngrams, Trees, HeadTrees, BeamTable, Trace, Repeats, Move,
    PathMove, Draft, DraftChains, DraftTrees, Verification, TokenPair, DoubleTopK,
)  # fmt: skip
