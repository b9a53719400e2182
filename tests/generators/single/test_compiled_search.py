"""The compiled search: what it finds, and when it is used."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators.single.batch import Batch
from fairseq_fastdec.generators.single.compiled_search import CompiledSearch
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.compiled import PRECISIONS, compiled, examples
from tests.support.compiled_searches import (
    assert_same_at_once,
    found_alone,
    found_joining,
    outputs_of,
)
from tests.support.to_read import method_to_read, record_into
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
    "tree": dict(decoding="blockwise", proposal_tree=7),
    "few types": dict(decoding="blockwise", proposal_types=12),
    "sure proposals": dict(decoding="blockwise", proposal_confidence=0.9),
    "window": dict(decoding="lookahead", lookahead_window=4),
    "window of one": dict(decoding="lookahead", lookahead_window=1),
    "window of copies": dict(decoding="lookahead", draft="copy"),
    "window of the source": dict(decoding="lookahead", draft="source"),
    "window of sentence": dict(decoding="lookahead", ngram_pool="sentence"),
    "jacobi": dict(decoding="jacobi"),
    "gs_jacobi": dict(decoding="gs_jacobi", jacobi_block_size=3),
    "oracle length": dict(decoding="gs_jacobi", jacobi_block_size=3, oracle_length=True),
    "gs_jacobi of copies": dict(decoding="gs_jacobi", jacobi_block_size=5, draft="copy"),
    "gs_jacobi of n-grams": dict(decoding="gs_jacobi", jacobi_block_size=5, draft="ngram"),
    "hybrid": dict(decoding="hybrid_jacobi", jacobi_block_size=3, parallel_len_b=6),
    "hybrid to the end": dict(decoding="hybrid_jacobi", jacobi_block_size=3),
    "hybrid by the source": dict(
        decoding="hybrid_jacobi", jacobi_block_size=4, parallel_len_a=0.5, parallel_len_b=1
    ),
}
LEARNING = ("window", "window of sentence", "gs_jacobi of n-grams")
LENGTHS = [1, 4, 8, 9, 12, 0, 7, 3, 10, 11]


def prefixes(n_sentences, longest):
    """Some forced tokens for each sentence, none for some."""
    draw = torch.Generator().manual_seed(longest)
    tokens = torch.randint(4, 24, (n_sentences, longest), generator=draw)
    n_forced = torch.randint(0, longest + 1, (n_sentences, 1), generator=draw)
    return tokens.masked_fill(torch.arange(longest) >= n_forced, TASK.target_dictionary.pad())


def found(models, method, sample, prefix=None, compiled_search=True, **options):
    """Hypotheses, records and statistics of a batch."""
    method = dict(METHODS[method])
    generator = our_generator(models, method.pop("decoding", "greedy"), method, **options)
    if compiled_search:
        assert generator._compiled_search is not None
    else:
        generator.__dict__["_compiled_search"] = None
    hypotheses = generator.generate(models, sample, prefix_tokens=prefix)
    return hypotheses, generator.records, generator.statistics


def assert_alike(ours, expected, has_prefix, has_other_drafts=False):
    for own, other in zip(ours[0], expected[0]):
        assert own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
        for name in ("score", "positional_scores"):
            torch.testing.assert_close(own[0][name], other[0][name], atol=1e-4, rtol=1e-4)
    if has_other_drafts:  # and so other invocations
        return
    # A prefix and the first token behind it take one invocation instead of two.
    for own, other in zip(ours[1], expected[1]):
        saved = other.invocations - own.invocations
        assert saved == 0 or (has_prefix and saved == 1)
        own.invocations = other.invocations
        assert own == other
    for name in ("sentences", "tokens", "blocks", "encoder_invocations"):
        assert getattr(ours[2], name) == getattr(expected[2], name)
    if any(ours[2].proposed):  # or else zeros for each head, or nothing
        assert ours[2].proposed == expected[2].proposed
        assert ours[2].accepted == expected[2].accepted


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    method=st.sampled_from(sorted(METHODS)),
    heads=st.sampled_from(["parallel", "sequential", "separate", "learned first"]),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    n_forced=st.integers(0, 4),
    options=st.fixed_dictionaries(
        {},
        optional=dict(
            max_len_a=st.sampled_from([0.5, 1.5]),
            max_len_b=st.integers(1, 14),
            min_len=st.integers(0, 1),
            unk_penalty=st.sampled_from([-2.0, 1.0]),
            temperature=st.sampled_from([0.7, 1.7]),
            no_repeat_ngram_size=st.integers(2, 3),
            lenpen=st.sampled_from([0.0, 0.6]),
            unnormalized=st.booleans(),
        ),
    ),
    seed=st.integers(0, 3),
)
def test_it_finds_what_the_steps_from_python_find(method, heads, lengths, n_forced, options, seed):
    kinds = {
        "parallel": dict(),
        "sequential": dict(block_heads="sequential"),
        "separate": dict(block_ffn="split"),
        "learned first": dict(identity_first_head=False, freeze_base=False),
    }
    models = [blockwise_model(**kinds[heads])]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    options = {"max_len_b": 12, **options}
    ours = found(models, method, sample, prefix, **options)
    expected = found(models, method, sample, prefix, compiled_search=False, **options)
    # The compiled search learns n-grams of prefixes, too, and of sentences in another order. A
    # window begins behind a prefix in the same invocation.
    learns_more = method in LEARNING and (n_forced or len(lengths) > 1)
    has_other_drafts = learns_more or (n_forced and "window" in method)
    assert_alike(ours, expected, n_forced > 0, has_other_drafts)


@pytest.mark.parametrize("with_prefix", [False, True])
def test_the_mean_of_an_ensemble(with_prefix):
    models = [stock_model(0), stock_model(1), blockwise_model()]
    sample = tiny.random_batch(TASK, LENGTHS, seed=2)
    prefix = prefixes(len(LENGTHS), 3) if with_prefix else None
    ours = found(models, "greedy", sample, prefix, max_len_b=12)
    expected = found(models, "greedy", sample, prefix, compiled_search=False, max_len_b=12)
    assert_alike(ours, expected, with_prefix)


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
    "three sequential": lambda: [
        blockwise_model(block_heads="sequential"),
        blockwise_model(block_heads="sequential", seed=1),
        small_model("sequential"),
    ],
}  # fmt: skip
OF_HEADS = sorted(name for name, own in METHODS.items() if own.get("decoding") == "blockwise")


@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    ensemble=st.sampled_from(sorted(ENSEMBLES)),
    method=st.sampled_from(OF_HEADS),
    confidence=st.sampled_from([None, 0.0, 0.3]),
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
    ensemble, method, confidence, lengths, n_forced, options, seed
):
    models, method = ENSEMBLES[ensemble](), dict(METHODS[method])
    decoding = method.pop("decoding")
    method = {"proposal_confidence": confidence, "proposal_precision": "engine", **method}
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = prefixes(len(lengths), n_forced) if n_forced else None
    options = {"max_len_b": 12, **options}
    generator = our_generator(models, decoding, method, **options)
    assert generator._compiled_search is not None
    hypotheses = generator.generate(models, sample, prefix_tokens=prefix)
    ours = (hypotheses, generator.records, generator.statistics)
    to_read = method_to_read(models, decoding, method, **options)
    records = record_into(to_read)
    expected = to_read.generate(models, sample, prefix_tokens=prefix), records, to_read.statistics
    assert_alike(ours, expected, n_forced > 0)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("method", ["greedy", "chain", "tree", "top 2"])
@pytest.mark.parametrize("ensemble", ["one", "two", "three sequential"])
def test_a_sentence_has_the_same_numbers_in_any_batch(ensemble, method, precision):
    """It joins while others are under way, and gets what it gets alone, bit for bit."""
    models = [blockwise_model()] if ensemble == "one" else ENSEMBLES[ensemble]()
    options = dict(METHODS[method], engine_precision=precision)
    generator = our_generator(models, options.pop("decoding", "greedy"), options, max_len_b=12)
    generator.generate(models, tiny.random_batch(TASK, [3]))
    search = generator._compiled_search._search
    bos = TASK.target_dictionary.eos()

    def admit(search, source, number):
        search.admit(source, number, bos, 12)

    def numbers_of(finished):
        return dict(zip(finished.ids, outputs_of(finished)))

    alone = found_alone(search, admit, numbers_of, LENGTHS)
    assert found_joining(search, admit, numbers_of, LENGTHS) == alone


def test_a_cancelled_sentence_leaves():
    models = [blockwise_model()]
    generator = our_generator(models, "greedy", {}, max_len_b=12)
    generator.generate(models, tiny.random_batch(TASK, [3]))
    search, bos = generator._compiled_search._search, TASK.target_dictionary.eos()
    sources = tiny.random_batch(TASK, [9, 8, 7])["net_input"]["src_tokens"].numpy()
    search.admit(sources, 10, bos, 12)
    assert search.cancel(12)  # it has not begun
    search.advance(1, 1)
    assert search.cancel(10)  # it is under way
    assert not search.cancel(99)
    search.advance(1000, 1)
    assert search.finished().ids == [11]


def test_two_threads_decode_with_one_models_weights():
    models = [stock_model(0)]
    sample = tiny.random_batch(TASK, LENGTHS, seed=4)
    generators = [our_generator(models, "greedy", {}, max_len_b=12) for _ in range(2)]
    assert_same_at_once(generators, models, sample)


def test_changed_parameters_are_followed():
    model = stock_model(0, trained=False)
    generator = our_generator([model], "greedy", {}, max_len_b=12)
    sample = tiny.random_batch(TASK, LENGTHS, seed=4)
    before = [best[0]["positional_scores"] for best in generator.generate([model], sample)]
    with torch.no_grad():
        model.decoder.output_projection.weight.mul_(0.5)
    after = [best[0]["positional_scores"] for best in generator.generate([model], sample)]
    with torch.no_grad():
        model.decoder.output_projection.weight.mul_(2)
    assert not any(one.equal(other) for one, other in zip(before, after))


def test_longer_sources_and_outputs_than_before():
    models = [tiny.build_model(TASK, max_source_positions=700, max_target_positions=700)]
    tiny.stir(models[0], 0)
    sample = tiny.random_batch(TASK, [600, 3])
    ours = found(models, "greedy", sample, max_len_b=400)
    expected = found(models, "greedy", sample, compiled_search=False, max_len_b=400)
    assert_alike(ours, expected, False)


@pytest.mark.parametrize("why", ["an observer", "a shortlist", "fp64", "a method from elsewhere"])
def test_it_is_not_used_for(why, monkeypatch, tmp_path):
    models, options = [stock_model(0)], {}
    if why == "fp64":
        models = [stock_model(0, dtype=torch.float64)]
    if why == "a shortlist":
        words = TASK.target_dictionary.symbols[4:]
        table = tmp_path / "table"
        table.write_text("".join(f"{word} {word} 1\n" for word in words), encoding="utf-8")
        options["shortlist"] = str(table)
    generator = our_generator(models, "greedy", options, max_len_b=12)
    if why == "an observer":
        generator.observer = lambda *_: None
    if why == "a method from elsewhere":
        monkeypatch.setattr(type(generator), "search_options", lambda _: None)
    used = []
    monkeypatch.setattr(CompiledSearch, "translate", lambda *_: used.append(1))
    decoded = []
    hypotheses = Batch.hypotheses
    monkeypatch.setattr(Batch, "hypotheses", lambda own: decoded.append(1) or hypotheses(own))
    generator.generate(models, tiny.random_batch(TASK, [3, 5]))
    assert decoded and not used


def test_errors_name_what_is_wrong():
    models = [stock_model(0)]
    generator = our_generator(models, "greedy", {}, max_len_b=12)
    generator.generate(models, tiny.random_batch(TASK, [3]))
    search = generator._compiled_search._search
    source = tiny.random_batch(TASK, [3])["net_input"]["src_tokens"].numpy()
    with pytest.raises(IndexError, match="source token that is not in the dictionary"):
        search.admit(source + 1000, 0, 2, 12)
    with pytest.raises(IndexError, match="first token"):
        search.admit(source, 0, 1000, 12)
    with pytest.raises(IndexError, match="prefix token"):
        search.admit(source, 0, 2, 12, source + 1000)
    with pytest.raises(ValueError, match="without a token"):
        search.admit(source * 0 + TASK.source_dictionary.pad(), 0, 2, 12)
    with pytest.raises(ValueError, match="prefix"):
        search.admit(source, 0, 2, 12, source[0])


def test_a_refused_batch_leaves_no_sentence_behind():
    models = [stock_model(0)]
    generator = our_generator(models, "greedy", {}, max_len_b=12)
    generator.generate(models, tiny.random_batch(TASK, [3]))
    search = generator._compiled_search._search
    sources = tiny.random_batch(TASK, [3, 3])["net_input"]["src_tokens"].numpy()
    sources[1] = TASK.source_dictionary.pad()
    with pytest.raises(ValueError, match="without a token"):
        search.admit(sources, 0, 2, 12)
    assert search.advance(1, 1) == 0
