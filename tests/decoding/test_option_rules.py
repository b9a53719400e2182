"""Our options: the values they can have, and the methods they are for."""

import math
import re
from dataclasses import fields

import pytest

from fairseq_fastdec.decoding.option_rules import methods_of, rule_of, values_of
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.processes.errors import flag_of
from fairseq_fastdec.translating.generation_options import shown
from fairseq_fastdec.translating.registry import METHODS

NAN, INF = math.nan, math.inf
FIELDS = {
    option.name: option
    for option in fields(DecodingOptions)
    if option.name not in ("_name", "decoding")
}
CHOICES = [name for name, option in FIELDS.items() if values_of(option)]
MINIMA = [name for name, option in FIELDS.items() if rule_of(option).at_least is not None]
METHOD_OF = {
    "ngram_order": "lookahead", "parallel_len_a": "hybrid_jacobi",
    "parallel_len_b": "hybrid_jacobi", "lookahead_window": "lookahead",
    "jacobi_block_size": "gs_jacobi", "decoding_block_size": "blockwise",
    "min_block_size": "blockwise", "oracle_length": "jacobi", "max_candidates": "beam",
    "prune_threshold": "beam", "refill_threshold": "streaming", "stream_buffer": "streaming",
    "max_beam_rows": "streaming", "proposal_confidence": "blockwise", "shortlist": "greedy",
    "decoding_stats": "greedy",
}  # fmt: skip


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(decoding="greedy", guess="pad"), "--guess pad: does not apply to --decoding greedy"),
        (dict(decoding="lookahead", oracle_length=True), "--oracle-length True: .*gs_jacobi"),
        (dict(decoding="jacobi", jacobi_block_size=4), "--jacobi-block-size 4: .*hybrid_jacobi"),
        (dict(decoding="gs_jacobi", parallel_len_b=9), "--parallel-len-b 9: .*hybrid_jacobi"),
        (dict(decoding="jacobi", ngram_order=3), "--ngram-order 3: .*use --guess ngram or source"),
        (dict(decoding="lookahead", guess="source", ngram_pool="sentence"), "--ngram-pool .*ngram"),
        (dict(decoding="blockwise", acceptance_topk=3), "--acceptance-topk 3: .*acceptance topk"),
        (
            dict(decoding="fairseq", decoding_stats="f"),
            "--decoding-stats f: .*use --decoding greedy",
        ),
        (dict(decoding="gs_jacobi", jacobi_block_size=0), "--jacobi-block-size 0: .*at least 1"),
        (
            dict(decoding="hybrid_jacobi", parallel_len_a=-1.0),
            "--parallel-len-a -1.0: .*at least 0",
        ),
        (dict(decoding="hybrid_jacobi", parallel_len_b=-1), "--parallel-len-b -1: .*at least 0"),
        (dict(decoding="lookahead", lookahead_window=0), "--lookahead-window 0: .*at least 1"),
        (dict(decoding="lookahead", ngram_order=1), "--ngram-order 1: .*at least 2"),
        (
            dict(decoding="lookahead", guess="best"),
            "--guess best: unknown; choose one of pad, copy",
        ),
        (dict(decoding="lookahead", ngram_pool="all"), "--ngram-pool all: unknown"),
        (dict(decoding="speculative"), "--decoding speculative: unknown"),
    ],
)
def test_options_that_are_wrong_or_of_no_use(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(**options).check()


def test_every_option_is_for_all_methods_or_for_some():
    for option in FIELDS.values():
        assert methods_of(option) and set(methods_of(option)) <= set(METHODS), option.name


@pytest.mark.parametrize(
    "option, value, message",
    [
        ("ngram_order", 10**9, "must be at most 64: each token is looked up"),
        ("parallel_len_a", INF, "must be at most 1000000000.0: no source"),
        ("parallel_len_a", NAN, "must be at least 0"),
        ("parallel_len_b", 1e20, "must be a whole number"),
        ("lookahead_window", 2.5, "must be a whole number"),
        ("jacobi_block_size", True, "must be a whole number"),
        ("decoding_block_size", "2", "must be a whole number"),
        ("min_block_size", 1.5, "must be a whole number"),
        ("oracle_length", "no", "must be True or False"),
        ("max_candidates", NAN, "must be a whole number"),
        ("prune_threshold", NAN, "must be at least 0"),
        ("prune_threshold", 10**400, "must be a number"),
        ("shortlist", 3, "must be text"),
        ("decoding_stats", True, "must be text"),
        ("prune_threshold", "1.5", "must be a number"),
        ("refill_threshold", NAN, "must be at least 0"),
        ("refill_threshold", 1.0, "must be less than 1"),
        ("proposal_confidence", -0.1, "must be at least 0"),
        ("proposal_confidence", 1.5, "must be at most 1: it is a probability"),
        ("proposal_confidence", NAN, "must be at least 0"),
        ("stream_buffer", 1e20, "must be a whole number"),
        ("max_beam_rows", 0, "must be at least 1"),
    ],
)
def test_values_of_our_own_that_mean_nothing(option, value, message):
    options = DecodingOptions(decoding=METHOD_OF[option], **{option: value})
    told = f"{flag_of(option)} {shown(value)}: {message}"
    with pytest.raises(ValueError, match="^" + re.escape(told)):
        options.check()


def test_every_option_of_ours_is_checked():
    """Numbers have a least value, names are one of a few, paths are opened when they are read."""
    paths = {
        "decoding_stats", "shortlist", "draft_file", "memory_source", "memory_target", "glossary",
    }  # fmt: skip
    flags = {option.name for option in FIELDS.values() if option.type is bool}
    assert set(FIELDS) == {*MINIMA, *CHOICES, *paths, *flags}


@pytest.mark.parametrize("option", sorted({*MINIMA, *CHOICES, "decoding_stats", "shortlist"}))
def test_fairseqs_own_decoding_has_none_of_our_options(option):
    """Not even that of statistics: fairseq's generator counts nothing."""
    values = {"decoding_stats": "f", "shortlist": "f", "prune_threshold": 1.0}
    shares = ("refill_threshold", "proposal_confidence")
    value = values.get(option, 0.5 if option in shares else 7)
    if option in CHOICES:
        default = FIELDS[option].default
        value = next(value for value in values_of(FIELDS[option]) if value != str(default))
    if option == "parallel_len_a":
        value = 0.7
    with pytest.raises(ValueError, match=f"^{flag_of(option)} .*does not apply to --decoding fair"):
        DecodingOptions(**{option: value}).check()
