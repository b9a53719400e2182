"""The compiled beam search: what it finds, what it counts, and when it is used."""

import json
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.streaming import Capacity
from tests.support import speech, tiny
from tests.support.against_fairseq import our_generator
from tests.support.compiled import compiled, examples
from tests.support.compiled_searches import assert_alike_beams, prefixes
from tests.support.lexical_tables import next_words
from tests.support.trained_models import TASK, blockwise_model, stock_model

pytestmark = compiled

LENGTHS = [1, 4, 8, 9, 12, 0, 7, 3, 10, 11]
COUNTERS = (
    "sentences", "tokens", "blocks", "encoder_invocations", "decoder_invocations",
    "row_invocations", "beam_steps", "waiting", "refills",
)  # fmt: skip
PRUNING = dict(
    prune_threshold=st.sampled_from([0.0, 0.7, 4.0, math.inf]),
    max_candidates=st.integers(1, 7),
    finalize=st.sampled_from(["paper", "fairseq"]),
)
STREAMS = dict(
    **PRUNING,
    refill_threshold=st.sampled_from([0.0, 0.3, 0.9]),
    stream_policy=st.sampled_from(["min-length", "fifo"]),
)
METHODS = st.one_of(
    st.tuples(st.just("beam"), st.fixed_dictionaries({}, optional=PRUNING)),
    st.tuples(st.just("variable_beam"), st.fixed_dictionaries({}, optional=PRUNING)),
    st.tuples(st.just("streaming"), st.fixed_dictionaries({}, optional=STREAMS)),
)
CAPACITIES = st.builds(
    Capacity,
    st.one_of(st.none(), st.integers(1, 6)),
    st.one_of(st.none(), st.integers(1, 40)),
)
OPTIONS = dict(
    max_len_a=st.sampled_from([0.5, 1.5]),
    max_len_b=st.integers(3, 14),
    min_len=st.integers(0, 3),
    unk_penalty=st.sampled_from([-2.0, 1.0]),
    temperature=st.sampled_from([0.7, 1.7]),
    no_repeat_ngram_size=st.integers(2, 3),
    lenpen=st.sampled_from([0.0, 0.6]),
    unnormalized=st.booleans(),
)
MODELS = {
    "trained": lambda: [stock_model(0)],
    "random": lambda: [stock_model(0, trained=False)],
    "blockwise": lambda: [blockwise_model(identity_first_head=False, freeze_base=False)],
    "ensemble": lambda: [stock_model(0), stock_model(1, decoder_layers=1), blockwise_model()],
    "random ensemble": lambda: [stock_model(seed, trained=False) for seed in range(2)],
}


SHORTLISTS = st.sampled_from([{}, {}, dict(shortlist_first=0), dict(shortlist_first=6)])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return next_words(tmp_path_factory.mktemp("table") / "lex.s2t", 20)


def build(models, decoding, method, capacity=None, compiled_search=True, **options):
    generator = our_generator(models, decoding, method, **options)
    if capacity is not None and decoding == "streaming":
        generator.capacity = capacity
    if compiled_search:
        assert generator.decodes_compiled()
    else:
        generator.search = None
    return generator


@settings(max_examples=examples(150))
@given(
    models=st.sampled_from(sorted(MODELS)),
    method=METHODS,
    beam=st.integers(1, 7),
    capacity=CAPACITIES,
    rows=st.one_of(st.none(), st.integers(0, 12)),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=9),
    left_pad=st.booleans(),
    n_forced=st.integers(0, 4),
    shortlist=SHORTLISTS,
    options=st.fixed_dictionaries({}, optional=OPTIONS),
    seed=st.integers(0, 3),
)
def test_it_finds_and_counts_what_torch_does(
    models,
    method,
    beam,
    capacity,
    rows,
    lengths,
    left_pad,
    n_forced,
    shortlist,
    options,
    seed,
    table,
    tmp_path_factory,
):
    models = MODELS[models]()
    decoding, method = method
    if shortlist:
        method = dict(method, **shortlist, shortlist=table)
    if decoding == "streaming" and rows is not None:
        method = dict(method, max_beam_rows=beam + rows)
    sample = tiny.random_batch(TASK, lengths, left_pad, seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    options = {"max_len_b": 12, "beam": beam, **options}
    hypotheses, records, statistics = [], [], []
    for is_compiled in (True, False):
        path = tmp_path_factory.mktemp("records") / "records"
        own = dict(method, decoding_stats=str(path))
        generator = build(models, decoding, own, capacity, is_compiled, **options)
        hypotheses.append(generator.generate(models, sample, prefix_tokens=prefix))
        lines = path.read_text(encoding="utf-8").splitlines()
        records.append(sorted(map(json.loads, lines), key=lambda record: record["id"]))
        statistics.append(generator.statistics)
    assert_alike_beams(*hypotheses)
    assert records[0] == records[1]
    # With a limit of rows, the order of work depends on the order of sentences of one length.
    is_limited = decoding == "streaming" and rows is not None
    of_order = ("encoder_invocations", "decoder_invocations", "refills") if is_limited else ()
    for name in set(COUNTERS) - set(of_order):
        assert getattr(statistics[0], name) == getattr(statistics[1], name), name


@settings(max_examples=examples(60))
@given(
    models=st.sampled_from(sorted(MODELS)),
    decoding=st.sampled_from(["beam", "variable_beam", "streaming"]),
    beam=st.integers(1, 7),
    limits=st.sampled_from([{}, dict(topk=1), dict(topk=4), dict(topp=0.3), dict(topp=0.9)]),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    n_forced=st.integers(0, 3),
    shortlist=SHORTLISTS,
    options=st.fixed_dictionaries({}, optional=OPTIONS),
    seed=st.integers(0, 3),
)
# The shortlist has as many types as may be drawn.
@example(
    models="random", decoding="beam", beam=1, limits=dict(topk=4), lengths=[0], n_forced=0,
    shortlist=dict(shortlist_first=0), options={}, seed=0,
)  # fmt: skip
def test_it_draws_what_torch_draws(
    models, decoding, beam, limits, lengths, n_forced, shortlist, options, seed, table
):
    models = MODELS[models]()
    method = dict(shortlist, shortlist=table) if shortlist else {}
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    limits = {f"sampling_{name}": value for name, value in limits.items()}
    options = {"max_len_b": 12, "beam": beam, "sampling": True, **options, **limits}
    drawn = []
    for is_compiled in (True, False):
        torch.manual_seed(seed)
        generator = build(models, decoding, method, Capacity(3), is_compiled, **options)
        drawn.append(generator.generate(models, sample, prefix_tokens=prefix))
    assert_alike_beams(*drawn)


@pytest.mark.parametrize("method", [{}, dict(finalize="paper")])
@pytest.mark.parametrize("arch", speech.ARCHITECTURES)
def test_speech(arch, method):
    """Streams count its frames."""
    models, sample = [speech.random_model(arch)], speech.random_batch()
    found = [
        build(models, "beam", method, None, own, beam=3, max_len_b=12).generate(models, sample)
        for own in (True, False)
    ]
    assert_alike_beams(*found)
    streams = [
        build(models, "streaming", method, capacity, beam=3, max_len_b=12)
        for capacity in (Capacity(source_tokens=40), Capacity(source_tokens=1000))
    ]
    together = [generator.generate(models, sample) for generator in streams]
    assert_alike_beams(*together)
    assert streams[0].statistics.refills > streams[1].statistics.refills == 0


@pytest.mark.parametrize("decoding", ["beam", "streaming"])
@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("with_shortlist", [False, True])
def test_encoders_that_are_not_compiled(decoding, with_shortlist, left_pad, table):
    """In an ensemble, all encoders are then run by torch."""
    method = dict(shortlist=table, shortlist_first=0) if with_shortlist else {}
    sample = tiny.random_batch(TASK, [3, 6, 1], left_pad, seed=3)
    without_layers = stock_model(3, trained=False, encoder_layers=0)
    for models in ([without_layers], [stock_model(0), without_layers]):
        found = [
            build(models, decoding, method, Capacity(3), own, beam=3, max_len_b=12).generate(
                models, sample
            )
            for own in (True, False)
        ]
        assert_alike_beams(*found)


def test_an_interrupted_stream_leaves_nothing_behind(monkeypatch):
    models = [stock_model(0)]
    generator = build(models, "streaming", {}, Capacity(2), beam=3, max_len_b=12)
    sample = tiny.random_batch(TASK, LENGTHS)
    expected = generator.generate(models, sample)
    monkeypatch.setattr("fairseq_fastdec.decoding.compiled.STEPS_AT_ONCE", 2)

    def interrupt(results, _):
        yield next(results)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(generator, "_shown", interrupt)
        generator.generate(models, sample)
    assert_alike_beams(generator.generate(models, sample), expected)
