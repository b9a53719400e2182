"""The compiled search: what it finds, and when it is used."""

import random

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.compiled import CompiledSearch
from fairseq_fastdec.decoding.methods.blockwise import DEFAULT_CONFIDENCE
from fairseq_fastdec.decoding.methods.greedy import Greedy
from fairseq_fastdec.decoding.methods.outputs import OutputBatch
from fairseq_fastdec.packing.heads import has_sequential_heads
from tests.support import speech, tiny
from tests.support.against_fairseq import our_generator
from tests.support.compiled import PRECISIONS, compiled, examples
from tests.support.compiled_searches import admit, outputs_of, prefixes
from tests.support.lexical_tables import next_words
from tests.support.to_read import record_into
from tests.support.trained_models import TASK, blockwise_model, stock_model

pytestmark = compiled

METHODS = {
    "greedy": dict(),
    "chain": dict(decoding="blockwise"),
    "short chain": dict(decoding="blockwise", decoding_block_size=2),
    "block of one": dict(decoding="blockwise", decoding_block_size=1),
    "minimum block": dict(decoding="blockwise", min_block_size=3),
    "top 2": dict(decoding="blockwise", acceptance="topk", acceptance_topk=2),
    "top 2, minimum block": dict(
        decoding="blockwise", acceptance="topk", acceptance_topk=2, min_block_size=2
    ),
    "few types": dict(decoding="blockwise", proposal_types=12),
    "sure proposals": dict(decoding="blockwise", proposal_confidence=0.9),
    "window": dict(decoding="lookahead", lookahead_window=4),
    "window of one": dict(decoding="lookahead", lookahead_window=1),
    "window of copies": dict(decoding="lookahead", guess="copy"),
    "window of the source": dict(decoding="lookahead", guess="source"),
    "window of sentence": dict(decoding="lookahead", ngram_pool="sentence"),
    "jacobi": dict(decoding="jacobi"),
    "gs_jacobi": dict(decoding="gs_jacobi", jacobi_block_size=3),
    "oracle length": dict(decoding="gs_jacobi", jacobi_block_size=3, oracle_length=True),
    "gs_jacobi of copies": dict(decoding="gs_jacobi", jacobi_block_size=5, guess="copy"),
    "gs_jacobi of n-grams": dict(decoding="gs_jacobi", jacobi_block_size=5, guess="ngram"),
    "hybrid": dict(decoding="hybrid_jacobi", jacobi_block_size=3, parallel_len_b=6),
    "hybrid to the end": dict(decoding="hybrid_jacobi", jacobi_block_size=3),
    "hybrid by the source": dict(
        decoding="hybrid_jacobi", jacobi_block_size=4, parallel_len_a=0.5, parallel_len_b=1
    ),
}
KINDS = {
    "parallel": dict(),
    "sequential": dict(block_heads="sequential"),
    "sequential, narrow": dict(block_heads="sequential", block_output_rank=16),
    "separate": dict(block_ffn="split"),
    "learned first": dict(identity_first_head=False, freeze_base=False),
}
OPTIONS = dict(
    max_len_a=st.sampled_from([0.5, 1.5]),
    max_len_b=st.integers(1, 14),
    min_len=st.integers(0, 1),
    unk_penalty=st.sampled_from([-2.0, 1.0]),
    temperature=st.sampled_from([0.7, 1.7]),
    no_repeat_ngram_size=st.integers(2, 3),
    lenpen=st.sampled_from([0.0, 0.6]),
    unnormalized=st.booleans(),
)
INEXACT = {"acceptance", "min_block_size"}  # options that let proposals change the output
ARCHS = list(speech.ARCHITECTURES)
LEARNING = ("window", "window of sentence", "gs_jacobi of n-grams")
LENGTHS = [1, 4, 8, 9, 12, 0, 7, 3, 10, 11]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return next_words(tmp_path_factory.mktemp("table") / "lex.s2t", 20)


def drafts_near(sample, kinds, seed):
    """A draft for each sentence: of its reversed source, which trained models write, or of noise.

    Args:
        kinds: of each draft: "right", "edited" (tokens replaced, removed and put in), "wrong",
            "twice" (a wrong and a right one) or "none".
    """
    rng = random.Random(seed)
    eos, pad = TASK.target_dictionary.eos(), TASK.target_dictionary.pad()
    drafts = []
    for number, source in enumerate(sample["net_input"]["src_tokens"].tolist()):
        right = [token for token in reversed(source) if token not in (eos, pad)]
        wrong = [rng.randrange(4, 24) for _ in range(rng.randrange(1, 40))]
        edited = []
        for token in right:
            edited += rng.choice([[token], [token], [token], [], [token, 5], [7]])
        made = {
            "right": [*right, eos],
            "edited": edited,
            "wrong": wrong,
            "twice": [*wrong, eos, *right, eos],
            "none": [],
        }
        drafts.append(torch.tensor(made[kinds[number % len(kinds)]], dtype=torch.int64))
    return drafts


def found(models, method, sample, prefix=None, compiled_search=True, own=None, **options):
    """Hypotheses, records and statistics of a batch, with ``own`` options of ours besides."""
    method = {**METHODS[method], **(own or {})}
    # By default, proposals that are verified exactly are in int8, and times decide whether
    # sequential heads propose.
    is_exact = not INEXACT & method.keys()
    if method.get("decoding") == "blockwise" and is_exact:
        method.setdefault("proposal_precision", "engine")
        if any(has_sequential_heads(model.decoder) for model in models):
            method.setdefault("proposal_confidence", DEFAULT_CONFIDENCE)
    generator = our_generator(models, method.pop("decoding", "greedy"), method, **options)
    if compiled_search:
        assert generator.decodes_compiled()
    else:
        generator.search = None
    records = record_into(generator)
    hypotheses = generator.generate(models, sample, prefix_tokens=prefix)
    return hypotheses, records, generator.statistics


def assert_alike(ours, expected, has_prefix, has_other_drafts=False):
    for own, other in zip(ours[0], expected[0]):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
        for name in ("score", "positional_scores"):
            torch.testing.assert_close(own[0][name], other[0][name], atol=1e-4, rtol=1e-4)
    if has_other_drafts:  # and so other invocations
        return
    # A prefix and the first token behind it take one invocation instead of two.
    for own, other in zip(ours[1], expected[1]):
        saved = other["invocations"] - own["invocations"]
        assert saved == 0 or (has_prefix and saved == 1)
        assert {**own, "invocations": other["invocations"]} == other
    for name in ("sentences", "tokens", "blocks", "encoder_invocations"):
        assert getattr(ours[2], name) == getattr(expected[2], name)
    if any(ours[2].proposed):  # or else zeros for each head, or nothing
        assert ours[2].proposed == expected[2].proposed
        assert ours[2].accepted == expected[2].accepted


@settings(max_examples=examples(100))
@given(
    method=st.sampled_from(sorted(METHODS)),
    heads=st.sampled_from(sorted(KINDS)),
    shortlist=st.sampled_from([{}, {}, dict(shortlist_first=0), dict(shortlist_first=6)]),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    n_forced=st.integers(0, 4),
    options=st.fixed_dictionaries({}, optional=OPTIONS),
    seed=st.integers(0, 3),
)
def test_it_finds_what_torch_finds(
    method, heads, shortlist, lengths, n_forced, options, seed, table
):
    shortlist = (
        dict(shortlist, shortlist=table)
        if shortlist and not INEXACT & METHODS[method].keys()
        else {}
    )
    models = [blockwise_model(**KINDS[heads])]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    options = {"max_len_b": 12, **options}
    ours = found(models, method, sample, prefix, own=shortlist, **options)
    expected = found(models, method, sample, prefix, False, shortlist, **options)
    # The compiled search learns n-grams of prefixes, too, and of sentences in another order. A
    # window begins behind a prefix in the same invocation.
    learns_more = method in LEARNING and (n_forced or len(lengths) > 1)
    has_other_drafts = learns_more or (n_forced and "window" in method)
    # With a shortlist, the steps from Python round proposals otherwise.
    has_other_drafts = has_other_drafts or bool(shortlist)
    assert_alike(ours, expected, n_forced > 0, has_other_drafts)


DRAFT_KINDS = ["right", "edited", "wrong", "twice", "none"]
VERIFYING = [
    name
    for name, method in METHODS.items()
    if method.get("decoding", "greedy") in ("greedy", "blockwise", "lookahead")
    and not INEXACT & method.keys()
]


@settings(max_examples=examples(100))
@given(
    method=st.sampled_from([*VERIFYING, *["greedy", "chain"] * 2]),
    heads=st.sampled_from(sorted(KINDS)),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    kinds=st.lists(st.sampled_from(DRAFT_KINDS), min_size=1, max_size=5),
    n_forced=st.integers(0, 4),
    options=st.fixed_dictionaries({}, optional=OPTIONS),
    seed=st.integers(0, 3),
)
def test_drafts_change_no_output(method, heads, lengths, kinds, n_forced, options, seed):
    """Compiled code and torch propose and accept the same tokens of drafts."""
    models = [blockwise_model(**KINDS[heads])]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    drafted = dict(sample, drafts=drafts_near(sample, kinds, seed))
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    options = {"max_len_b": 12, **options}
    ours = found(models, method, drafted, prefix, **options)
    in_torch = found(models, method, drafted, prefix, False, **options)
    alone = found(models, "greedy", sample, prefix, **options)
    assert_alike(ours, alone, n_forced > 0, has_other_drafts=True)
    # The window's n-grams come in another order, and a prefix takes no invocation of its own.
    learns_more = method in LEARNING and len(lengths) > 1
    assert_alike(ours, in_torch, n_forced > 0, learns_more or n_forced > 0)
    if not learns_more and not n_forced:
        for name in ("drafted", "drafted_right"):
            assert getattr(ours[2], name) == getattr(in_torch[2], name)


def test_right_drafts_save_invocations():
    models, sample = [stock_model()], tiny.random_batch(TASK, LENGTHS, seed=2)
    hypotheses, _, alone = found(models, "greedy", sample)
    drafted = dict(sample, drafts=[own[0]["tokens"] for own in hypotheses])
    _, _, statistics = found(models, "greedy", drafted)
    assert statistics.row_invocations < alone.row_invocations / 2
    assert statistics.drafted_right == statistics.drafted > statistics.tokens / 2
    assert f"{statistics.drafted_right} of {statistics.drafted} tokens of drafts" in (
        statistics.summary()
    )


@pytest.mark.parametrize("with_shortlist", [False, True])
@pytest.mark.parametrize("with_prefix", [False, True])
def test_the_mean_of_an_ensemble(with_prefix, with_shortlist, table):
    models = [stock_model(0), stock_model(1), blockwise_model()]
    sample = tiny.random_batch(TASK, LENGTHS[:3] if with_shortlist else LENGTHS, seed=2)
    prefix = prefixes(len(sample["id"]), 3) if with_prefix else None
    own = dict(shortlist=table, shortlist_first=0) if with_shortlist else {}
    ours = found(models, "greedy", sample, prefix, own=own, max_len_b=12)
    expected = found(models, "greedy", sample, prefix, False, own, max_len_b=12)
    assert_alike(ours, expected, with_prefix)


@pytest.mark.parametrize("method", ["greedy", "jacobi", "window"])
@pytest.mark.parametrize("archs", [*([one] for one in ARCHS), ARCHS])
def test_speech(archs, method):
    """Which fairseq's encoders read; those of an ensemble make states of more or fewer frames."""
    models = [speech.random_model(arch, seed) for seed, arch in enumerate(archs)]
    sample = speech.random_batch()
    ours = found(models, method, sample, max_len_b=12)
    expected = found(models, method, sample, compiled_search=False, max_len_b=12)
    assert_alike(ours, expected, False, method == "window")


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("with_shortlist", [False, True])
@pytest.mark.parametrize("method", ["greedy", "window of copies", "window of the source"])
def test_encoders_that_are_not_compiled(method, with_shortlist, left_pad, table):
    """In an ensemble, all encoders are then run by torch."""
    own = dict(shortlist=table, shortlist_first=0) if with_shortlist else {}
    sample = tiny.random_batch(TASK, [3, 6, 1], left_pad, seed=3)
    without_layers = stock_model(3, trained=False, encoder_layers=0)
    for models in ([without_layers], [stock_model(0), without_layers]):
        ours = found(models, method, sample, own=own, max_len_b=12)
        expected = found(models, method, sample, None, False, own, max_len_b=12)
        assert_alike(ours, expected, False, method != "greedy")


@pytest.mark.parametrize("method", ["chain", "few types", "window"])
@pytest.mark.parametrize("kind", ["parallel", "sequential"])
def test_proposals_of_a_shortlist(kind, method):
    """Heads propose what p_1 may choose: all of that, or the first types of it."""
    models, bos = [blockwise_model(**KINDS[kind])], TASK.target_dictionary.eos()
    sources = tiny.random_batch(TASK, LENGTHS, seed=6)["net_input"]["src_tokens"].numpy()
    types = numpy.array([1, 2, 3, 5, 6, 9, 10, 11, 13, 17, 22])
    outputs = []
    for name in ("greedy", method):
        own = dict(METHODS[name])
        generator = our_generator(models, own.pop("decoding", "greedy"), own, max_len_b=12)
        generator.generate(models, tiny.random_batch(TASK, [3]))
        search = generator.search._search
        admit(search, sources, range(len(sources)), bos, types=[types] * len(sources))
        search.advance(1000, 1)
        outputs.append({number: tokens for number, (tokens, _) in outputs_of(search).items()})
    assert outputs[0] == outputs[1]
    assert {token for tokens in outputs[0].values() for token in tokens} <= set(types.tolist())


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_shortlist_needs_proposals_that_change_nothing(name, table):
    """Or else the output would depend on the shortlists of the other sentences of a batch."""
    own = {**METHODS[name], "shortlist": table}
    given = ([blockwise_model()], own.pop("decoding", "greedy"), own)
    if INEXACT & own.keys():
        with pytest.raises(
            ValueError, match="--shortlist .*: needs --acceptance exact and --min-b"
        ):
            our_generator(*given)
    else:
        assert our_generator(*given).shortlist is not None


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_sentence_alone_has_its_own_shortlist(precision, table):
    """And while others are under way, theirs, too."""
    models = [stock_model(0, trained=False)]
    own = dict(shortlist=table, shortlist_first=0, engine_precision=precision)
    generator = our_generator(models, "greedy", own, max_len_b=12)
    for lengths in ([3], [4, 2, 5]):
        sample = tiny.random_batch(TASK, lengths, seed=1)
        source = set(sample["net_input"]["src_tokens"].flatten().tolist())
        allowed = source | {4 + (word - 3) % 20 for word in source if word >= 4} | {0, 2, 3}
        found = [one[0]["tokens"].tolist() for one in generator.generate(models, sample)]
        assert {token for tokens in found for token in tokens} <= allowed
    search, bos = generator.search._search, TASK.target_dictionary.eos()
    sources = tiny.random_batch(TASK, [3, 3], seed=5)["net_input"]["src_tokens"].numpy()
    types = [numpy.array([1, 2, 3, 5, 9]), numpy.array([1, 2, 3, 6, 7, 8, 23])]

    def outputs(numbers, steps=1000):
        for number in numbers:
            one = slice(number, number + 1)
            admit(search, sources[one], [number], bos, types=types[one])
            search.advance(steps, 1)
        search.advance(1000, 1)
        return outputs_of(search)

    alone = {**outputs([0]), **outputs([1])}
    assert all(set(alone[number][0]) <= set(types[number].tolist()) for number in (0, 1))
    joined = outputs([0, 1], steps=3)
    assert joined[0][0][:3] == alone[0][0][:3]
    # Types of both have probabilities now.
    assert {t for tokens, _ in joined.values() for t in tokens} <= {*types[0], *types[1]}
    assert outputs([0, 1]) == alone


def small_model(block_heads):
    """A random model of other sizes than the trained ones, with fewer heads."""
    sizes = {f"{side}_embed_dim": 16 for side in ("encoder", "decoder")}
    given = dict(sizes, block_size=3, block_heads=block_heads, identity_first_head=True)
    return tiny.stir(tiny.build_model(TASK, "blockwise_transformer", seed=5, **given), 5, 0.1)


ENSEMBLES = {
    "two": lambda: [blockwise_model(), blockwise_model(block_ffn="split", seed=1)],
    "learned first": lambda: [
        blockwise_model(seed=1), blockwise_model(identity_first_head=False, freeze_base=False),
    ],
    "three": lambda: [blockwise_model(), blockwise_model(seed=1), small_model("parallel")],
    "two sequential": lambda: [
        blockwise_model(block_heads="sequential"),
        blockwise_model(block_heads="sequential", block_output_rank=16, seed=1),
    ],
    "heads of one": lambda: [stock_model(0), blockwise_model()],
    "sequential heads of one": lambda: [
        stock_model(0), blockwise_model(block_heads="sequential"), stock_model(1),
    ],
    "three sequential": lambda: [
        blockwise_model(block_heads="sequential"),
        blockwise_model(block_heads="sequential", seed=1),
        small_model("sequential"),
    ],
}  # fmt: skip
OF_HEADS = sorted(name for name, own in METHODS.items() if own.get("decoding") == "blockwise")


@settings(max_examples=examples(80))
@given(
    ensemble=st.sampled_from(sorted(ENSEMBLES)),
    method=st.sampled_from(OF_HEADS),
    confidence=st.sampled_from([0.0, 0.3, 0.5]),
    with_shortlist=st.booleans(),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    n_forced=st.integers(0, 3),
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            max_len_b=st.integers(1, 14),
            min_len=st.integers(0, 1),
            unkpen=st.sampled_from([-2.0, 1.0]),
            temperature=st.sampled_from([0.7, 1.7]),
        ),
    ),
    seed=st.integers(0, 3),
)
def test_ensembles_propose_by_the_mean_of_their_heads(
    ensemble, method, confidence, with_shortlist, lengths, n_forced, options, seed, table
):
    own = {"proposal_confidence": confidence, "proposal_precision": "engine"}
    own.update({name: METHODS[method][name] for name in own if name in METHODS[method]})
    with_shortlist = with_shortlist and not INEXACT & METHODS[method].keys()
    if with_shortlist:
        own.update(shortlist=table, shortlist_first=0)
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    given = (ENSEMBLES[ensemble](), method, sample, prefix)
    options = {"max_len_b": 12, **options}
    ours = found(*given, own=own, **options)
    expected = found(*given, compiled_search=False, own=own, **options)
    # Heads propose the types that any sentence of the batch may use, in Python those of their own.
    assert_alike(ours, expected, n_forced > 0, has_other_drafts=with_shortlist)


@pytest.mark.parametrize("why", ["an observer", "fp64", "a method from elsewhere"])
def test_torch_decodes_for(why, monkeypatch):
    models = [stock_model(0)]
    if why == "fp64":
        models = [stock_model(0, dtype=torch.float64)]
    if why == "a method from elsewhere":
        monkeypatch.setattr(Greedy, "search_options", lambda _: None)
    generator = our_generator(models, "greedy", {}, max_len_b=12)
    if why == "an observer":
        generator.observer = lambda *_: None
    used, decoded = [], []
    monkeypatch.setattr(CompiledSearch, "results", lambda *_: used.append(1))
    results = OutputBatch.results
    monkeypatch.setattr(OutputBatch, "results", lambda own: decoded.append(1) or results(own))
    generator.generate(models, tiny.random_batch(TASK, [3, 5]))
    assert decoded and not used
