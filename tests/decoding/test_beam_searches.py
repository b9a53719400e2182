"""Beam search against fairseq's, against a slow reference, and in any order of work."""

import argparse
import json
import math

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.constraints import GenerationRules
from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.methods.streaming import Capacity
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.against_fairseq import (
    NAMES,
    fairseq_generator,
    lengths_strategy,
    options_strategy,
)
from tests.support.compiled import compiled
from tests.support.trained_models import TASK, blockwise_model, stock_model
from tests.support.ways import WAYS, decoded_by

EOS, PAD = TASK.target_dictionary.eos(), TASK.target_dictionary.pad()


def generation_args(beam, options):
    args = {NAMES.get(name, name): value for name, value in options.items()}
    if "normalize_scores" in args:
        args["unnormalized"] = not args.pop("normalize_scores")
    return argparse.Namespace(beam=beam, **args)


def build(models, decoding, beam, method=None, capacity=None, **options):
    args = generation_args(beam, options)
    method = DecodingOptions(decoding=decoding, **(method or {}))
    method.check()
    generator = build_generator(list(models), TASK.target_dictionary, args, method)
    if capacity is not None:
        generator.capacity = capacity
    return generator


def decode(models, sample, decoding, beam, method=None, capacity=None, prefix=None, **options):
    generator = build(models, decoding, beam, method, capacity, **options)
    return generator.generate(models, sample, prefix_tokens=prefix)


def fairseq(models, sample, beam, prefix=None, bos_token=None, **options):
    generator = fairseq_generator(models, beam, **options)
    return generator.generate(models, sample, prefix_tokens=prefix, bos_token=bos_token)


def assert_same(ours, theirs, atol=1e-4):
    """The same hypotheses of every sentence, in the same order, but for orders of equal scores."""
    assert len(ours) == len(theirs)
    for own, reference in zip(ours, theirs):
        assert len(own) == len(reference)
        assert [h["score"].item() for h in own] == pytest.approx(
            [h["score"].item() for h in reference], abs=atol
        )
        for hypothesis, expected in zip(in_order(own), in_order(reference)):
            assert hypothesis["tokens"].tolist() == expected["tokens"].tolist()
            for name in ("score", "positional_scores"):
                torch.testing.assert_close(hypothesis[name], expected[name], atol=atol, rtol=0)


def in_order(hypotheses):
    return sorted(hypotheses, key=lambda h: (-round(h["score"].item(), 3), h["tokens"].tolist()))


# --- beam is fairseq's ---------------------------------------------------------------------------


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@pytest.mark.parametrize(
    "dtype,way",
    [(torch.float32, "compiled"), (torch.float32, "columns"), (torch.float64, "top-k")],
    ids=["fp32-compiled", "fp32-columns", "fp64-top-k"],
)
@settings(max_examples=20)
@given(
    beam=st.integers(1, 9),
    options=options_strategy,
    lengths=lengths_strategy,
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
)
def test_beam_is_fairseqs(trained, dtype, way, beam, options, lengths, left_pad, seed):
    models = [stock_model(0, dtype, trained)]
    sample = tiny.random_batch(TASK, lengths, left_pad, seed)
    with decoded_by(way):
        ours = decode(models, sample, "beam", beam, **options)
    assert_same(ours, fairseq(models, sample, beam, **options))


@pytest.mark.parametrize(
    "way, beam",
    [
        pytest.param("compiled", 50, marks=compiled),
        pytest.param("compiled", 300, marks=compiled),
        ("torch", 50),
    ],
)
def test_wide_beams_are_fairseqs(way, beam):
    task = tiny.task(400)
    models = [tiny.stir(tiny.build_model(task, seed=1), scale=1.0)]
    dictionary = task.target_dictionary
    sample = tiny.random_batch(task, [3, 9, 5])
    with decoded_by(way):
        args = argparse.Namespace(beam=beam, max_len_a=0, max_len_b=7)
        generator = build_generator(models, dictionary, args, DecodingOptions(decoding="beam"))
        ours = generator.generate(models, sample)
    theirs = SequenceGenerator(models, dictionary, beam_size=beam, max_len_a=0, max_len_b=7)
    for own, reference in zip(ours, theirs.generate(models, sample)):
        assert len(own) == len(reference) == beam
        # Of so many some have scores that are equal but for rounding; their order is nobody's.
        expected = {tuple(one["tokens"].tolist()): one for one in reference}
        assert {tuple(one["tokens"].tolist()) for one in own} == set(expected)
        for one in own:
            for name in ("score", "positional_scores"):
                same = expected[tuple(one["tokens"].tolist())][name]
                torch.testing.assert_close(one[name], same, atol=1e-5, rtol=0)
        scores = [one["score"].item() for one in own]
        assert scores == sorted(scores, reverse=True)


@settings(max_examples=15)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_ensembles_of_different_sizes(options, lengths, seed):
    models = [
        stock_model(0),
        stock_model(1, decoder_layers=1, decoder_normalize_before=True),
        blockwise_model(),
    ]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_same(decode(models, sample, "beam", 4, **options), fairseq(models, sample, 4, **options))


@WAYS
@settings(max_examples=20)
@given(
    beam=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    seed=st.integers(0, 99),
    width=st.integers(0, 6),
    max_len_b=st.integers(2, 12),
    min_len=st.integers(1, 2),
)
def test_prefixes(way, beam, lengths, seed, width, max_len_b, min_len):
    """As --prefix-size takes them: the reference's first tokens, its EOS too, and padding.

    On a prefix that is nothing but EOS fairseq fails an assertion.
    """
    models = [stock_model()]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = sample["target"][:, :width]
    options = dict(max_len_b=max_len_b, min_len=min_len, prefix=prefix)
    with decoded_by(way):
        ours = decode(models, sample, "beam", beam, **options)
    assert_same(ours, fairseq(models, sample, beam, **options))


def test_a_prefix_that_is_nothing_but_eos():
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [0, 4])
    ours = decode(models, sample, "beam", 2, prefix=sample["target"][:, :1])
    assert [h["tokens"].tolist() for h in ours[0]] == [[EOS], [EOS]]
    assert ours[0][0]["positional_scores"] is not ours[0][1]["positional_scores"]


def test_another_first_token():
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [3, 5])
    bos = TASK.target_dictionary.bos()
    ours = build(models, "beam", 3).generate(models, sample, bos_token=bos)
    assert_same(ours, fairseq(models, sample, 3, bos_token=bos))


def test_a_beam_as_wide_as_the_vocabulary_allows():
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [3, 5])
    width = len(TASK.target_dictionary) - 1
    ours = decode(models, sample, "beam", 1000, max_len_b=4)
    assert [len(hypotheses) for hypotheses in ours] == [width, width]


# --- the rules against lists ---------------------------------------------------------------------


def reference_search(model, source, width, threshold, per_entry, finalize, rules):
    """One sentence, one hypothesis at a time, the whole prefix through the stock decoder.

    Returns:
        the results' ``(score, tokens)``, best first, and the numbers of growing and of ended
        candidates on the beam, summed over the steps
    """
    encoded = model.encoder(source[None], torch.tensor([source.numel()]))
    max_len = rules.max_len(source.numel())
    beam, final = [((), 0.0)], []
    n_growing = n_ended = 0
    for step in range(max_len + 1):
        pool = []
        ended = [tokens for tokens, _ in beam if tokens and tokens[-1] == EOS]
        n_growing, n_ended = n_growing + len(beam) - len(ended), n_ended + len(ended)
        for tokens, total in beam:
            if tokens and tokens[-1] == EOS:
                pool.append((total, tokens))
            else:
                pool += extensions(model, encoded, tokens, total, step, max_len, rules)[:per_entry]
        pool.sort(reverse=True, key=lambda candidate: candidate[0])
        beam = []
        if finalize == "paper":
            pool = pool[:width]
            while pool and pool[0][1][-1] == EOS and len(final) < width:
                final.append(pool.pop(0))
            room = width - len(final)
        else:
            pool = pool[: 2 * width]
            room = width
        best = max(total for total, _ in pool[:1] + final)
        for rank, (total, tokens) in enumerate(pool):
            if total < best - threshold:
                continue
            if finalize == "fairseq" and tokens[-1] == EOS:
                if rank < width and len(final) < width:
                    final.append((total, tokens))
            elif len(beam) < room:
                beam.append((tokens, total))
        if len(final) == width or not beam:
            break

    def score(candidate):
        return candidate[0] / (len(candidate[1]) ** rules.lenpen if rules.normalize else 1)

    results = sorted(((score(c), c[1]) for c in final), reverse=True, key=lambda s: s[0])
    return results, (n_growing, n_ended)


def extensions(model, encoded, tokens, total, step, max_len, rules):
    with torch.no_grad():
        logits = model.decoder(torch.tensor([[EOS, *tokens]]), encoder_out=encoded)[0][0, -1]
    scores = logits.float().log_softmax(-1)
    scores[rules.pad] = -math.inf
    scores[rules.unk] -= rules.unkpen
    if step < rules.min_len:
        scores[EOS] = -math.inf
    if step >= max_len:
        scores[[token for token in range(len(scores)) if token != EOS]] = -math.inf
    scores, best = scores.sort(descending=True)
    pairs = zip(scores.tolist(), best.tolist())
    return [(total + s, (*tokens, t)) for s, t in pairs if s > -math.inf]


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@pytest.mark.parametrize("finalize", ["paper", "fairseq"])
@settings(max_examples=25)
@given(
    width=st.integers(1, 6),
    threshold=st.sampled_from([0.0, 0.7, 1.5, 4.0, math.inf]),
    per_entry=st.integers(1, 7),
    lengths=lengths_strategy,
    seed=st.integers(0, 99),
    max_len_b=st.integers(2, 9),
    min_len=st.integers(1, 2),
    lenpen=st.sampled_from([0.0, 1.0, 2.0]),
    unkpen=st.sampled_from([0.0, -3.0]),
    unnormalized=st.booleans(),
)
def test_variable_beams_against_lists(
    trained, finalize, width, threshold, per_entry, lengths, seed, **options
):
    model = stock_model(0, torch.float64, trained)
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    method = dict(prune_threshold=threshold, max_candidates=per_entry, finalize=finalize)
    generator = build([model], "variable_beam", width, method, **options)
    ours = generator.generate([model], sample)
    rules = GenerationRules.from_args(argparse.Namespace(**options), TASK.target_dictionary, 64)
    counted = [0, 0]
    for hypotheses, source in zip(ours, sample["net_input"]["src_tokens"]):
        source = source[source.ne(rules.pad)]
        expected, counts = reference_search(
            model, source, width, threshold, per_entry, finalize, rules
        )
        counted = [total + own for total, own in zip(counted, counts)]
        assert [h["score"].item() for h in hypotheses] == pytest.approx(
            [score for score, _ in expected], abs=1e-4
        )
        assert {tuple(h["tokens"].tolist()) for h in hypotheses} == {t for _, t in expected}
    costs = generator.statistics
    assert [costs.row_invocations, costs.waiting] == counted


def test_variable_beams_with_nothing_pruned_are_fairseqs():
    models = [stock_model(trained=False)]
    sample = tiny.random_batch(TASK, [5, 2, 8])
    method = dict(prune_threshold=math.inf, max_candidates=6, finalize="fairseq")
    ours = decode(models, sample, "variable_beam", 6, method, max_len_b=12)
    assert_same(ours, fairseq(models, sample, 6, max_len_b=12))


def test_the_papers_heuristics_are_the_defaults():
    models = [stock_model(trained=False)]
    sample = tiny.random_batch(TASK, [5, 2, 8])
    method = dict(prune_threshold=1.5, max_candidates=5, finalize="paper")
    for decoding in ("variable_beam", "streaming"):
        assert_same(
            decode(models, sample, decoding, 8, max_len_b=12),
            decode(models, sample, "variable_beam", 8, method, max_len_b=12),
        )


# --- streaming is another order of work ----------------------------------------------------------


capacities = st.builds(
    Capacity,
    st.one_of(st.none(), st.integers(1, 9)),
    st.one_of(st.none(), st.integers(1, 40)),
)


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=14),
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
    width=st.integers(1, 6),
    capacity=capacities,
    rows=st.one_of(st.none(), st.integers(6, 20)),
    threshold=st.floats(0, 0.99),
    policy=st.sampled_from(["min-length", "fifo"]),
    pruning=st.sampled_from([0.5, 1.5, math.inf]),
    finalize=st.sampled_from(["paper", "fairseq"]),
    max_len_a=st.sampled_from([0, 1.2]),
    max_len_b=st.integers(2, 9),
    prefix_width=st.integers(0, 3),
)
def test_streaming_is_variable_beam(
    trained, lengths, left_pad, seed, width, capacity, rows, threshold, policy, pruning, finalize,
    max_len_a, max_len_b, prefix_width,
):  # fmt: skip
    models = [stock_model(trained=trained)]
    sample = tiny.random_batch(TASK, lengths, left_pad, seed)
    heuristics = dict(prune_threshold=pruning, max_candidates=3, finalize=finalize)
    limits = dict(max_len_a=max_len_a, max_len_b=max_len_b, min_len=2)
    prefix = sample["target"][:, :prefix_width] if prefix_width else None
    expected = decode(models, sample, "variable_beam", width, heuristics, prefix=prefix, **limits)
    method = dict(
        refill_threshold=threshold, stream_policy=policy, max_beam_rows=rows, **heuristics
    )
    streamed = decode(models, sample, "streaming", width, method, capacity, prefix, **limits)
    assert_same(streamed, expected)


@pytest.mark.parametrize("policy", ["min-length", "fifo"])
@pytest.mark.parametrize("width", [3, 6])
@pytest.mark.parametrize("capacity", [Capacity(2), Capacity(7), Capacity(None, 40)], ids=str)
def test_sentences_that_begin_beside_others_with_waiting_candidates(policy, width, capacity):
    """Ended candidates wait in many sentences at once, while slots change hands all the time."""
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [index * 7 % 10 for index in range(60)], seed=5)
    heuristics = dict(prune_threshold=6.0, max_candidates=width)
    expected = decode(models, sample, "variable_beam", width, heuristics, temperature=3.0)
    method = dict(refill_threshold=0.9, stream_policy=policy, **heuristics)
    streamed = decode(models, sample, "streaming", width, method, capacity, temperature=3.0)
    assert_same(streamed, expected)


@pytest.mark.parametrize("decoding", ["variable_beam", "streaming"])
def test_the_order_of_the_sentences_means_nothing(decoding):
    models = [stock_model(trained=False)]
    lengths = [9, 1, 4, 0, 7, 2, 8, 3, 5]
    sample = tiny.random_batch(TASK, lengths)
    options = dict(capacity=Capacity(3), max_len_a=1, max_len_b=3, unk_penalty=1.0)
    together = decode(models, sample, decoding, 4, **options)
    for order in (torch.randperm(9), torch.arange(9).flip(0)):
        net_input = {name: value[order] for name, value in sample["net_input"].items()}
        shuffled = decode(models, {"net_input": net_input}, decoding, 4, **options)
        assert_same(shuffled, [together[index] for index in order.tolist()])
    for index in range(9):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        alone = decode(models, {"net_input": net_input}, decoding, 4, **options)
        assert_same(alone, [together[index]])


def test_the_papers_schedule_is_the_default():
    """Algorithm 1 with epsilon = 1/6: of 6 sentences one is left when the others come."""
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [index * 7 % 10 for index in range(40)])

    def costs(**method):
        generator = build(models, "streaming", 3, method, Capacity(6))
        generator.generate(models, sample)
        return generator.statistics.decoder_invocations, generator.statistics.refills

    assert costs() == costs(refill_threshold=1 / 6, stream_policy="min-length")
    others = dict(refill_threshold=0.0), dict(refill_threshold=2 / 6), dict(stream_policy="fifo")
    assert costs() not in [costs(**method) for method in others]


def test_as_many_rows_as_one_beam_has_are_enough():
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [3, 5, 8])
    streamed = decode(models, sample, "streaming", 5, dict(max_beam_rows=5))
    assert_same(streamed, decode(models, sample, "variable_beam", 5))


@pytest.mark.parametrize("decoding", ["variable_beam", "streaming"])
def test_min_len_is_waived_over_a_sentences_own_prefix(decoding):
    """Whatever the prefixes beside it, which fairseq's rule counts."""
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [1, 6])
    prefix = sample["target"][:, :4].clone()
    prefix[0, 1:] = PAD
    together = decode(models, sample, decoding, 3, prefix=prefix, min_len=3)
    one = {name: value[:1, -2:] for name, value in sample["net_input"].items() if value.dim() > 1}
    one = {"net_input": {**one, "src_lengths": sample["net_input"]["src_lengths"][:1]}}
    alone = decode(models, one, decoding, 3, prefix=prefix[:1, :1], min_len=3)
    assert_same(together[:1], alone)
    assert min(h["tokens"].numel() for h in together[0]) == 4
    fixed = decode(models, sample, "beam", 3, prefix=prefix, min_len=3)
    assert_same(fixed, fairseq(models, sample, 3, prefix=prefix, min_len=3))
    assert fixed[0][0]["tokens"].numel() == 2


def test_one_generator_serves_batches_of_any_shape():
    models = [stock_model()]
    beam = build(models, "beam", 3)
    stream = build(models, "streaming", 3, capacity=Capacity(2))
    for seed, lengths in enumerate([[9] * 6, [1], [3, 8], [0, 0, 0], [9] * 9]):
        sample = tiny.random_batch(TASK, lengths, seed=seed)
        assert_same(beam.generate(models, sample), fairseq(models, sample, 3))
        assert_same(stream.generate(models, sample), decode(models, sample, "variable_beam", 3))


# --- what it costs -------------------------------------------------------------------------------


def test_the_counters_of_the_papers_tables():
    models = [stock_model()]
    sample = tiny.random_batch(TASK, [3, 5, 8, 2, 6, 4])
    batch = build(models, "variable_beam", 4)
    batch.generate(models, sample)
    stream = build(models, "streaming", 4, capacity=Capacity(2))
    stream.generate(models, sample)
    ours, theirs = stream.statistics, batch.statistics
    assert ours.row_invocations == theirs.row_invocations
    assert ours.beam_steps == theirs.beam_steps
    assert ours.decoder_invocations > theirs.decoder_invocations
    assert (ours.refills, theirs.refills) == (ours.encoder_invocations - 1, 0)
    assert ours.sentences == theirs.sentences == 6
    line = theirs.summary()
    assert f"{theirs.row_invocations / theirs.decoder_invocations:.1f} candidate expan" in line
    assert f"mean beam width {theirs.row_invocations / theirs.beam_steps:.2f}, 0 refills" in line


@pytest.mark.parametrize("decoding", ["beam", "variable_beam", "streaming"])
def test_a_sentences_costs_are_those_that_it_has_alone(decoding, tmp_path):
    """Steps and candidate expansions, counted by the sentence, and by the run."""
    models = [stock_model(0, torch.float64)]
    lengths = [3, 5, 8, 2, 6, 4, 0, 7]
    sample = tiny.random_batch(TASK, lengths)
    path = tmp_path / "stats.jsonl"
    capacity = Capacity(2) if decoding == "streaming" else None
    together = build(models, decoding, 4, dict(decoding_stats=str(path)), capacity)
    together.generate(models, sample)
    records = sorted(map(json.loads, path.read_text().splitlines()), key=lambda r: r["id"])
    assert [record["source_tokens"] for record in records] == [n + 1 for n in lengths]
    for index, record in enumerate(records):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        alone = build(models, decoding, 4)
        (own,) = alone.generate(models, {"net_input": net_input})
        costs = alone.statistics
        assert record["invocations"] == costs.decoder_invocations == costs.beam_steps
        assert record["expansions"] == costs.row_invocations
        assert record["tokens"] == costs.tokens == own[0]["tokens"].numel()
        assert (costs.encoder_invocations, costs.sentences, record["blocks"]) == (1, 1, [])
    whole = together.statistics
    assert whole.row_invocations == sum(record["expansions"] for record in records)
    assert whole.beam_steps == sum(record["invocations"] for record in records)
    assert whole.encoder_invocations == whole.refills + 1


def test_a_beam_of_one_expands_one_candidate_for_each_token():
    models = [stock_model()]
    generator = build(models, "beam", 1)
    (own,) = generator.generate(models, tiny.random_batch(TASK, [6]))
    costs = generator.statistics
    assert costs.row_invocations == costs.beam_steps == own[0]["tokens"].numel() == costs.tokens


@pytest.mark.parametrize("decoding", ["beam", "variable_beam", "streaming"])
def test_a_model_gone_bad_ends_its_sentences(decoding):
    """NaN everywhere: fairseq fails an assertion, we end the sentence where it stands."""
    model = tiny.build_model(TASK)
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    with pytest.raises(NotFinite) as caught:
        decode([model], tiny.random_batch(TASK, [3, 5]), decoding, 3, max_len_b=6)
    hypotheses = caught.value.hypotheses
    assert [[h["tokens"].tolist() for h in own] for own in hypotheses] == [[[EOS]], [[EOS]]]
    assert all(own[0]["score"] == -math.inf for own in hypotheses)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "decoding, method, flag",
    [
        ("greedy", dict(prune_threshold=1.0), "--prune-threshold 1.0"),
        ("blockwise", dict(max_candidates=3), "--max-candidates 3"),
        ("fairseq", dict(finalize="paper"), "--finalize paper"),
        ("beam", dict(refill_threshold=0.2), "--refill-threshold 0.2"),
        ("variable_beam", dict(stream_policy="fifo"), "--stream-policy fifo"),
        ("variable_beam", dict(stream_buffer=10), "--stream-buffer 10"),
        ("beam", dict(max_beam_rows=10), "--max-beam-rows 10"),
        ("beam", dict(prune_threshold=-1.0), "--prune-threshold -1"),
        ("beam", dict(prune_threshold=math.nan), "--prune-threshold nan"),
        ("streaming", dict(max_candidates=0), "--max-candidates 0"),
        ("streaming", dict(refill_threshold=1.0), "--refill-threshold 1.0"),
        ("streaming", dict(finalize="never"), "--finalize never"),
        ("streaming", dict(stream_policy="lifo"), "--stream-policy lifo"),
        ("streaming", dict(max_beam_rows=4), "--max-beam-rows 4: less than the .* rows"),
    ],
)
def test_options_without_a_meaning(decoding, method, flag):
    with pytest.raises(ValueError, match=f"^{flag}"):
        build([tiny.build_model(TASK)], decoding, 5, method)


@pytest.mark.parametrize(
    "options, flag",
    [
        (dict(nbest=6), "--nbest 6"),
        (dict(no_repeat_ngram_size=1), "--no-repeat-ngram-size 1"),
        (dict(sampling_topk=3), "--sampling-topk 3: .*without --sampling"),
        (dict(sampling=True, sampling_topp=1.5), "--sampling-topp 1.5"),
        (dict(sampling=True, sampling_topk=3, sampling_topp=0.5), "--sampling-topk 3: .*beside"),
        (dict(min_len=9, max_len_b=4), "--min-len 9"),
    ],
)
@pytest.mark.parametrize("decoding", ["beam", "streaming"])
def test_generation_options_that_cannot_be_honoured(decoding, options, flag):
    models = [tiny.build_model(TASK)]
    with pytest.raises(ValueError, match=f"^{flag}"):
        decode(models, tiny.random_batch(TASK, [3]), decoding, 5, **options)


# --- no n-gram twice -----------------------------------------------------------------------------


@WAYS
@settings(max_examples=8)
@given(
    beam=st.integers(1, 5),
    options=options_strategy,
    lengths=lengths_strategy,
    seed=st.integers(0, 99),
    size=st.integers(2, 4),
    n_models=st.integers(1, 2),
)
def test_beams_repeat_no_ngrams(way, beam, options, lengths, seed, size, n_models):
    models = [stock_model(number, trained=False) for number in range(n_models)]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    options["no_repeat_ngram_size"] = size
    with decoded_by(way):
        ours = decode(models, sample, "beam", beam, **options)
    assert_same(ours, fairseq(models, sample, beam, **options))


@pytest.mark.parametrize("policy", ["min-length", "fifo"])
def test_streams_repeat_no_ngrams(policy):
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [3, 9, 1, 5, 7, 2])
    options = dict(max_len_b=20, no_repeat_ngram_size=2)
    capacity, method = Capacity(sentences=2), dict(stream_policy=policy)
    streamed = decode(models, sample, "streaming", 4, method, capacity, **options)
    assert_same(streamed, decode(models, sample, "variable_beam", 4, **options))
    for own in streamed:
        tokens = own[0]["tokens"].tolist()
        assert len({*zip(tokens, tokens[1:])}) == len(tokens) - 1
