"""The compiled search of double-token decoding: what it finds, and when it is used."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.orders.special_tokens import EOD
from tests.support import tiny
from tests.support.compiled import compiled, examples
from tests.support.compiled_searches import assert_alike_beams, prefixes
from tests.support.to_read import arguments, compiled_method, method_to_read, record_into
from tests.support.trained_models import DOUBLE_TASKS, ORDERS, double_model

pytestmark = compiled

WORDS = DOUBLE_TASKS["l2r"].target_dictionary
BOS, PAD, EOS, END = WORDS.bos(), WORDS.pad(), WORDS.eos(), WORDS.index(EOD)
LENGTHS = [1, 4, 8, 9, 12, 0, 7, 3, 10, 11]
COUNTERS = (
    "sentences", "tokens", "encoder_invocations", "decoder_invocations", "row_invocations",
    "beam_steps",
)  # fmt: skip
MODELS = {
    "trained": [dict()],
    "random": [dict(trained=False)],
    "ensemble": [dict(), dict(trained=False)],
    "sizes": [
        dict(),
        dict(trained=False, seed=1, decoder_layers=1, decoder_normalize_before=True),
        dict(trained=False, seed=2),
    ],
}


def models_of(kind, order):
    return [double_model(order, torch.float32, **own) for own in MODELS[kind]]


def build(models, order, method=None, **options):
    """A generator that decodes by the compiled search."""
    generator = build_generator(
        models, DOUBLE_TASKS[order].target_dictionary, arguments(**options),
        DecodingOptions(decoding="double_token", **(method or {})),
    )  # fmt: skip
    assert generator.decodes_compiled()
    return generator


@settings(max_examples=examples(120))
@given(
    order=st.sampled_from(ORDERS),
    kind=st.sampled_from(sorted(MODELS)),
    beam=st.integers(1, 6),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    left_pad=st.booleans(),
    n_forced=st.integers(0, 5),
    method=st.fixed_dictionaries(
        {},
        optional=dict(
            prune_threshold=st.sampled_from([0.5, 1.5, 4.0]), max_candidates=st.integers(1, 5)
        ),
    ),
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            max_len_a=st.sampled_from([0.5, 1.5]),
            max_len_b=st.integers(3, 14),
            min_len=st.integers(0, 3),
            unkpen=st.sampled_from([-2.0, 1.0]),
            temperature=st.sampled_from([0.7, 1.7]),
            lenpen=st.sampled_from([0.0, 0.6]),
            unnormalized=st.booleans(),
        ),
    ),
    seed=st.integers(0, 3),
)
def test_it_finds_what_torch_finds(
    order, kind, beam, lengths, left_pad, n_forced, method, options, seed
):
    task, models = DOUBLE_TASKS[order], models_of(kind, order)
    sample = tiny.random_batch(task, lengths, left_pad, seed)
    prefix = prefixes(len(lengths), n_forced, END) if n_forced and order == "l2r" else None
    options = {"max_len_b": 12, "beam": beam, **options}
    ours = build(models, order, method, **options)
    to_read = method_to_read(models, "double_token", method, task=task, **options)
    found, records = [], []
    for generator in (ours, to_read):
        written = record_into(generator)
        found.append(generator.generate(models, sample, prefix_tokens=prefix))
        records.append(sorted(written, key=lambda record: record["id"]))
    assert_alike_beams(found[0], found[1])
    assert records[0] == records[1]
    for name in COUNTERS:
        assert getattr(ours.statistics, name) == getattr(to_read.statistics, name), name


def test_a_shortlist(tmp_path):
    task, models = DOUBLE_TASKS["l2r"], [double_model("l2r", torch.float32)]
    table = tmp_path / "table"
    words = WORDS.symbols[4:]
    table.write_text("".join(f"{word} {word} 1\n" for word in words), encoding="utf-8")
    method, options = dict(shortlist=str(table), shortlist_first=0), dict(beam=2, max_len_b=12)
    sample = tiny.random_batch(task, [3, 5])
    for prefix in (None, sample["target"][:, :1]):
        found = [
            make(models, "double_token", method, task=task, **options).generate(
                models, sample, prefix_tokens=prefix
            )
            for make in (compiled_method, method_to_read)
        ]
        assert_alike_beams(*found)
