"""What all compiled searches have in common: sentences that join and leave, threads, errors."""

import numpy
import pytest
import torch

from fairseq_fastdec.engine.kernels import loading
from tests.support import skips, tiny
from tests.support.compiled import INSTRUCTION_SETS, PRECISIONS, compiled, using
from tests.support.compiled_searches import (
    admit,
    assert_alike_beams,
    assert_same_at_once,
    finished,
    found_alone,
    found_joining,
)
from tests.support.language_models import random_model
from tests.support.to_read import compiled_method, method_to_read
from tests.support.trained_models import (
    DOUBLE_TASKS,
    TASK,
    blockwise_model,
    double_model,
    stock_model,
)

pytestmark = compiled

LENGTHS = [1, 4, 8, 9, 12, 0, 7, 3, 10, 11]
EOS, PAD = TASK.target_dictionary.eos(), TASK.target_dictionary.pad()


def ensemble():
    return [blockwise_model(), blockwise_model(block_ffn="split", seed=1)]


def sequential():
    return [blockwise_model(block_heads="sequential", seed=seed) for seed in range(2)]


def trained():
    return [stock_model(0)]


def untrained():
    return [stock_model(0, trained=False)]


def double(trained=True):
    return [double_model("bidirectional", torch.float32, trained=trained)]


TOP_2 = dict(acceptance="topk", acceptance_topk=2)
# Models, the method and its options, and --beam.
SEARCHES = {
    "greedy": (trained, "greedy", {}, 1),
    "greedy of two": (ensemble, "greedy", {}, 1),
    "chain": (lambda: [blockwise_model()], "blockwise", {}, 1),
    "chain of two": (ensemble, "blockwise", {}, 1),
    "top 2": (lambda: [blockwise_model()], "blockwise", TOP_2, 1),
    "sequential": (sequential, "blockwise", dict(proposal_confidence=0.5), 1),
    "sequential, top 2": (sequential, "blockwise", TOP_2, 1),
    "window": (trained, "lookahead", dict(ngram_pool="sentence"), 1),
    "gs_jacobi": (trained, "gs_jacobi", {}, 1),
    "hybrid_jacobi": (trained, "hybrid_jacobi", dict(parallel_len_a=0.5, parallel_len_b=1), 1),
    "beam": (trained, "beam", {}, 4),
    "beam, random": (untrained, "beam", {}, 4),
    "variable_beam": (trained, "variable_beam", {}, 4),
    "variable_beam, random": (untrained, "variable_beam", {}, 4),
    "streaming": (trained, "streaming", {}, 4),
    "language model": (trained, "beam", {}, 4),
    "language model, of two": (ensemble, "streaming", {}, 4),
    "language model, greedy": (trained, "greedy", {}, 1),
    "streaming, random": (untrained, "streaming", {}, 4),
    "pairs": (double, "double_token", {}, 4),
    "one pair": (double, "double_token", {}, 1),
    "pairs, random": (lambda: double(False), "double_token", {}, 4),
    "one pair, random": (lambda: double(False), "double_token", {}, 1),
}
ONE_OF_EACH = ["greedy", "gs_jacobi", "beam", "language model", "pairs"]


def task_of(name):
    return DOUBLE_TASKS["bidirectional"] if "pair" in name else TASK


def generator_of(name, models=None, make=compiled_method, **options):
    own, decoding, method, beam = SEARCHES[name]
    method = {**method, **{key: options.pop(key) for key in [*options] if "precision" in key}}
    if name.startswith("language model"):
        options = {"lm_model": random_model(), "lm_weight": 0.4, **options}
    options = {"max_len_b": 12, "beam": beam, **options}
    generator = make(models or own(), decoding, method, task_of(name), **options)
    assert make is method_to_read or generator.decodes_compiled()
    return generator


def search_of(name, **options):
    """A search that has decoded something, and the token before the first."""
    generator = generator_of(name, **options)
    generator.generate([], tiny.random_batch(task_of(name), [3, 5]))
    return generator.search._search, generator.first_token(generator.eos)


def sources_of(lengths, seed=0):
    return tiny.random_batch(TASK, lengths, seed=seed)["net_input"]["src_tokens"].numpy()


def fresh(name):
    """Models whose parameters a test may change."""
    if "pair" in name:
        return [tiny.stir(tiny.build_model(task_of(name), "double_token_transformer"))]
    return [tiny.stir(tiny.build_model(TASK))]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", SEARCHES)
def test_a_sentence_has_the_same_numbers_in_any_batch(name, precision):
    """It joins while others are under way, and gets what it gets alone, bit for bit."""
    search, bos = search_of(name, engine_precision=precision)
    alone = found_alone(search, bos, LENGTHS)
    for n_threads in (1, 2):
        assert found_joining(search, bos, LENGTHS, n_threads) == alone


# The generic kernels of x86 have no fused multiply-add, and bf16 has instructions of its own.
@pytest.mark.skipif(len(INSTRUCTION_SETS) < 3, reason=skips.AVX512)
@pytest.mark.parametrize("precision", ["model", "int8"])
@pytest.mark.parametrize("name", SEARCHES)
def test_a_sentence_has_the_same_numbers_on_any_processor(name, precision):
    search, bos = search_of(name, engine_precision=precision)
    expected = found_alone(search, bos, LENGTHS)
    for instruction_set in INSTRUCTION_SETS[1:]:
        with using(instruction_set):
            assert found_alone(search, bos, LENGTHS) == expected


@pytest.mark.parametrize("name", SEARCHES)
def test_cancelled_sentences_leave(name):
    """Three of four are cancelled, two of them under way; the other one is not affected."""
    search, bos = search_of(name)
    sources = sources_of([9, 8, 7, 6])
    for number in (10, 11, 12, 13):
        admit(search, sources[number - 10 :][:1], [number], bos)
    assert search.cancel(13)  # not started yet
    search.advance(1, 1)
    assert search.cancel(10) and search.cancel(12)  # in progress
    assert not search.cancel(99)
    search.advance(1000, 1)
    found = finished(search)
    assert sorted(found) == [11]
    admit(search, sources[1:2], [11], bos)
    search.advance(1000, 1)
    assert finished(search) == found


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_two_threads_decode_with_one_models_weights(name):
    models = SEARCHES[name][0]()
    generators = [generator_of(name, models) for _ in range(2)]
    assert_same_at_once(generators, models, tiny.random_batch(task_of(name), LENGTHS, seed=4))


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_changed_parameters_are_followed(name):
    models = fresh(name)
    generator = generator_of(name, models)
    sample = tiny.random_batch(task_of(name), LENGTHS, seed=4)

    def scores():
        return [own[0]["score"].item() for own in generator.generate(models, sample)]

    before, search = scores(), generator.search._search
    assert scores() == before and generator.search._search is search
    with torch.no_grad():
        models[0].decoder.output_projection.weight.mul_(0.5)
    after = scores()
    assert generator.search._search is not search
    with torch.no_grad():
        models[0].decoder.output_projection.weight.mul_(2)
    assert not set(before) & set(after)
    assert scores() == before


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_longer_sources_and_outputs_than_before(name):
    task, sizes = task_of(name), dict(max_source_positions=400, max_target_positions=400)
    arch = ["double_token_transformer"] if "pair" in name else []
    models = [tiny.stir(tiny.build_model(task, *arch, **sizes), 0)]
    generator = generator_of(name, models, max_len_b=200)
    generator.generate(models, tiny.random_batch(task, [3]))
    sample = tiny.random_batch(task, [300, 3])
    expected = generator_of(name, models, method_to_read, max_len_b=200)
    found = (own.generate(models, sample) for own in (generator, expected))
    assert_alike_beams(*found, atol=1e-2)


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_search_that_an_error_ends_is_not_used_again(name, monkeypatch):
    """Sentences would be under way in it."""
    generator = generator_of(name)
    sample = tiny.random_batch(task_of(name), LENGTHS)
    expected = generator.generate([], sample)
    search = generator.search._search

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fairseq_fastdec.decoding.compiled.STEPS_AT_ONCE", 2)
        patch.setattr(loading, "n_threads", interrupted)
        generator.generate([], sample)
    assert_alike_beams(generator.generate([], sample), expected, atol=0)
    assert generator.search._search is not search


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_errors_name_what_is_wrong(name):
    search, bos = search_of(name)
    source = sources_of([3])

    def error(kind, what, sources=source, numbers=(0,), bos=bos, **given):
        with pytest.raises(kind, match=what):
            admit(search, sources, numbers, bos, **given)

    error(IndexError, "source token that is not in the dictionary", source + 1000)
    error(IndexError, "first token", bos=1000)
    error(IndexError, "prefix token", prefix=source + 1000)
    error(ValueError, "has no tokens", source * 0 + PAD)
    error(ValueError, "prefix: must be", prefix=source[0])
    error(ValueError, "max_lens: must not be negative", max_len=-1)
    error(ValueError, "sources: must be \\[B, S\\]", numbers=(0, 1))
    error(ValueError, "sources: need tokens or states", None)
    error(ValueError, "random_states: must be", random_states=numpy.zeros(2, numpy.uint64))
    # A refused batch leaves no sentence behind.
    error(ValueError, "has no tokens", numpy.concatenate([source, source * 0 + PAD]), (0, 1))
    assert search.advance(1, 1) == 0


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_types_that_do_not_fit(name):
    generator = generator_of(name)
    search, bos = search_of(name)
    end, source = generator.rules.eos, sources_of([3])

    def error(kind, what, types, **given):
        with pytest.raises(kind, match=what):
            given["types"] = [numpy.array(own, int) for own in types]
            admit(search, source, [0], bos, **given)

    error(ValueError, "must be ascending", [[end, end]])
    error(ValueError, "must be ascending", [[end + 1, end]])
    error(ValueError, "must include the end of sentence", [[3, 4]])
    error(ValueError, "must include the end of sentence", [[]])
    error(ValueError, "types: must be \\[B\\]", [])
    error(ValueError, "the tokens of the prefix", [[end]], prefix=source)
    for outside in ([-1, end], [end, 1000]):
        error(IndexError, "target types .*; the model has", [outside])


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_states_that_do_not_fit(name):
    models = [stock_model(0, trained=False, encoder_layers=0)]
    search, bos = search_of(name, models=models)
    source, n_source = sources_of([3]), numpy.array([4])
    states = numpy.zeros((1, 4, models[0].encoder.embed_tokens.embedding_dim), numpy.float32)
    for wrong in (
        [],
        [(states, n_source)] * 2,
        [(states[:, :, 1:].copy(), n_source)],
        [(states[0], n_source)],
        [(states, n_source - 4)],
        [(states, n_source + 1)],
        [(states, numpy.array([4, 4]))],
    ):
        with pytest.raises(ValueError, match="states"):
            admit(search, source, [0], bos, states=wrong)
    with pytest.raises(ValueError, match="sources"):
        admit(search, source, [0], bos)
    with pytest.raises(ValueError, match="n_source: needed"):
        admit(search, None, [0], bos, states=[(states, n_source)])
    admit(search, None, [0], bos, states=[(states, n_source)], n_source=n_source)
    assert search.advance(1000, 1) == 0
    search, bos = search_of(name)
    with pytest.raises(ValueError, match="need states if, and only if"):
        admit(search, source, [0], bos, states=[(states, n_source)])


@pytest.mark.parametrize("name", ["beam", "gs_jacobi", "pairs", "top 2"])
def test_drafts_are_refused_where_outputs_would_depend_on_them_or_none_are_verified(name):
    search, bos = search_of(name)
    assert not search.verifies_drafts
    with pytest.raises(ValueError, match="drafts: this search does not verify them"):
        admit(search, sources_of([3]), [0], bos, drafts=[numpy.array([5, EOS])])
    assert search_of("greedy")[0].verifies_drafts


def test_models_of_another_number_of_tokens_a_step_are_refused():
    own, other = (generator_of(name).search for name in ("pairs", "beam"))
    own._models, other._models = other._models, own._models
    for search in (own, other):
        wrong = pytest.raises(ValueError, match="another number of tokens per step")
        with wrong, search._search_for(3, 3):
            pass


@pytest.mark.parametrize(
    "kind, options, what",
    [
        ("blocks", dict(window=3), "unknown option window"),
        ("blocks", dict(lookahead_window=0), "lookahead_window: must be at least 1"),
        ("blocks", dict(guess="ngram"), "ngram_order: must be at least 2"),
        ("blocks", dict(guess="copy"), "target_types: needed"),
        ("blocks", dict(by_time=True, min_block_size=2), "by_time: needs exact acceptance"),
        ("blocks", dict(acceptance="distance"), "values: must match the vocabulary"),
        ("blocks", dict(acceptance="none"), "acceptance: none"),
        ("blocks", dict(decoding_block_size=3), "proposals: no model has heads"),
        ("jacobi", dict(jacobi_block_size=0), "jacobi_block_size: must be at least 1"),
        ("beam", dict(beam=0), "beam, max_candidates: must be at least 1"),
        ("beam", dict(prune_threshold=-1), "prune_threshold: must not be negative"),
        ("beam", dict(finalize="never"), "finalize: unknown"),
        ("beam", dict(beam="many"), "int"),
        ("sorting", {}, "search: unknown kind sorting"),
    ],
)
def test_options_that_a_search_does_not_have(kind, options, what):
    generator = generator_of("greedy")
    models = generator._engine.reaching(3, 3)
    rules = generator.rules.compiled(1.0)
    with pytest.raises((TypeError, ValueError), match=what):
        loading.library().Search(kind, models, rules, **options)


def test_language_models_that_do_not_fit():
    with_lm, without = generator_of("language model"), generator_of("beam")
    *translating, lm = with_lm._engine.reaching(3, 3)
    rules, no_weight = (own.rules.compiled(1.0) for own in (with_lm, without))

    def error(what, models, rules=rules):
        with pytest.raises(ValueError, match=what):
            loading.library().Search("beam", models, rules)

    error("lm_weight: needs a language model, the last model", translating)
    error("lm_weight: needs a language model, the last model", [lm, *translating])
    error("models: need at least one that translates", [lm])
    error("models: have more than one language model", [*translating, lm, lm])
    error("models: need at least one that translates", [lm], no_weight)
    # A bundle has both searches.
    assert loading.library().Search("beam", [*translating, lm], no_weight)


def test_none_and_huge_numbers_are_no_limit():
    generator = generator_of("beam")
    models, rules = generator._engine.reaching(3, 3), generator.rules.compiled(1.0)
    for number in (None, 2**200, 2**63 - 1):
        search = loading.library().Search("beam", models, rules, beam=3, max_candidates=number)
        admit(search, sources_of([3]), [0], EOS)
        assert search.advance(1000, 1) == 0
