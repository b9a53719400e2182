"""Double-token decoding against lists and loops, and its limits, prefixes and refusals."""

import argparse
import itertools
import json
import math
import os
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.orders.special_tokens import EOD
from tests.support import tiny
from tests.support.against_fairseq import lengths_strategy
from tests.support.trained_models import DOUBLE_TASKS as TASKS
from tests.support.trained_models import ORDERS, double_model

ARCH = "double_token_transformer"
DICTIONARY = TASKS["bidirectional"].target_dictionary
# The number of sentences of the comparison with the paper's search, which is slow.
N_OF_PAPERS_SEARCH = int(os.environ.get("FASTDEC_N_SENTENCES", 20))
BOS, PAD, EOS, UNK = (getattr(DICTIONARY, name)() for name in ("bos", "pad", "eos", "unk"))
END = DICTIONARY.index(EOD)


def build(models, beam=5, prune_threshold=None, max_candidates=None, **options):
    args = argparse.Namespace(beam=beam, **options)
    method = DecodingOptions(
        decoding="double_token", prune_threshold=prune_threshold, max_candidates=max_candidates
    )
    return build_generator(list(models), DICTIONARY, args, method)


def decode(models, sample, beam=5, prefix=None, bos_token=None, **options):
    generator = build(models, beam, **options)
    return generator.generate(models, sample, prefix_tokens=prefix, bos_token=bos_token)


# --- a slow reference ----------------------------------------------------------------------------


def pair_scores(models, sources, pairs, temperature=1.0):
    """Each side's log-probabilities ``[2, V]`` after some pairs, by the models' full forward."""
    fed = [BOS, EOS, *(token for pair in pairs for token in pair)]
    probabilities = []
    for model, encoded in zip(models, sources):
        with torch.no_grad():
            logits = model.decoder(torch.tensor([fed]), encoder_out=encoded)[0][0, -2:]
        probabilities.append((logits / temperature).float().softmax(-1))
    return torch.stack(probabilities).mean(0).log()


def allowed(slot, token, min_len, max_len):
    """Whether a token can stand in a slot, if a sentence has no other tokens than slots before."""
    if token in (PAD, BOS, EOS):
        return False
    if token == END:
        return slot >= min_len
    return slot < max_len


def natural(pairs, order):
    left = [pair[0] for pair in pairs if pair[0] != END]
    right = [pair[1] for pair in pairs if pair[1] != END]
    if order == "bidirectional":
        return left + right[::-1]
    flat = [token for pair in pairs for token in pair if token != END]
    return flat if order == "l2r" else flat[::-1]


def reference_search(
    models, source, width, order, max_len, min_len=1, lenpen=1.0, unkpen=0.0,
    unnormalized=False, temperature=1.0, forced=(), prune_threshold=math.inf, max_candidates=None,
):  # fmt: skip
    """Algorithm 1, one hypothesis at a time; returns ``(score, natural tokens)``, best first.

    ``forced`` slots hold these tokens. Pruning is that of Yang et al., section 4.
    """
    lengths = torch.tensor([source.numel()])
    sources = [model.encoder(source[None], lengths) for model in models]
    beam, ended, n_finalized = [((), 0.0)], [], 0
    for step in range(max_len // 2 + 1):
        lefts, rights = [], {}
        for pairs, total in beam:
            sides = pair_scores(models, sources, pairs, temperature)
            sides[:, UNK] -= unkpen
            scored = [
                [
                    (sides[side, token].item(), token)
                    for token in forced[2 * step + side :][:1] or range(len(DICTIONARY))
                    if allowed(2 * step + side, token, min_len, max_len)
                ]
                for side in (0, 1)
            ]
            lefts += [(total + score, pairs, token) for score, token in scored[0]]
            rights[pairs] = scored[1]
        lefts = sorted(lefts, key=lambda left: -left[0])[: 2 * width]
        pool = [
            (total + score, (*pairs, (left, right)))
            for total, pairs, left in lefts
            for score, right in rights[pairs]
        ]
        pool.sort(key=lambda candidate: -candidate[0])
        best = max([total for total, _ in pool[:1] + ended], default=0)
        pool = [
            own
            for before, _ in beam
            for own in [each for each in pool if each[1][:-1] == before][:max_candidates]
            if own[0] >= best - prune_threshold
        ]
        pool.sort(key=lambda candidate: -candidate[0])
        for total, pairs in pool[:width]:
            n_finalized += END in pairs[-1]
            found = [natural(known, order) for _, known in ended]
            if END in pairs[-1] and natural(pairs, order) not in found:
                ended.append((total, pairs))
        beam = [(pairs, total) for total, pairs in pool if END not in pairs[-1]][:width]
        if n_finalized >= width or not beam:
            break
    results = []
    for total, pairs in ended:
        tokens = natural(pairs, order)
        norm = 1 if unnormalized else (len(tokens) + 1) ** lenpen
        results.append((total / norm, tokens))
    return sorted(results, key=lambda result: -result[0])[:width]


def assert_is_reference(ours, models, sample, width, order, max_len_a=0, max_len_b=200, **options):
    source_width = sample["net_input"]["src_tokens"].size(1)
    max_len = int(max_len_a * source_width + max_len_b)
    for own, source in zip(ours, sample["net_input"]["src_tokens"]):
        source = source[source.ne(PAD)]
        expected = reference_search(models, source, width, order, max_len, **options)
        assert [h["score"].item() for h in own] == pytest.approx(
            [score for score, _ in expected], abs=1e-4
        )
        by_score = lambda scored: (-round(scored[0], 3), scored[1])  # noqa: E731
        found = [(h["score"].item(), h["tokens"].tolist()[:-1]) for h in own]
        assert [t for _, t in sorted(found, key=by_score)] == [
            t for _, t in sorted(expected, key=by_score)
        ]
        for hypothesis in own:
            assert hypothesis["tokens"][-1] == EOS
            assert hypothesis["tokens"].shape == hypothesis["positional_scores"].shape
            assert END not in hypothesis["tokens"].tolist()


search_strategy = st.fixed_dictionaries(
    dict(
        max_len_a=st.sampled_from([0, 0.5]),
        max_len_b=st.integers(3, 9),
        min_len=st.integers(0, 3),
        lenpen=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
        unkpen=st.sampled_from([0.0, -3.0]),
        unnormalized=st.booleans(),
        temperature=st.sampled_from([0.5, 1.0, 2.0]),
        prune_threshold=st.sampled_from([math.inf, math.inf, 0.5, 1.5, 4.0]),
        max_candidates=st.sampled_from([None, None, 1, 2, 5]),
    )
)


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=15)
@given(
    width=st.integers(1, 5),
    options=search_strategy,
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
)
def test_against_lists(trained, order, width, options, lengths, left_pad, seed):
    models = [double_model(order, trained=trained)]
    sample = tiny.random_batch(TASKS[order], lengths, left_pad, seed)
    ours = decode(models, sample, width, **options)
    assert_is_reference(ours, models, sample, width, order, **options)


@pytest.mark.parametrize("order", ORDERS)
def test_no_sentence_is_found_twice(order):
    """Both sides expect the end alike, so that (token, end) is as good as (end, token)."""
    model = tiny.build_model(TASKS[order], ARCH)
    with torch.no_grad():
        norm = model.decoder.layers[-1].final_layer_norm
        norm.weight.mul_(0.1)
        norm.bias.fill_(1)
        model.decoder.output_projection.weight[END] = 0.1
    sample = tiny.random_batch(TASKS[order], [3, 5, 7])
    for own in decode([model], sample, 5, min_len=0, max_len_b=6):
        sentences = [tuple(h["tokens"].tolist()) for h in own]
        assert 1 < len(set(sentences)) == len(sentences) <= 5


def papers_search(model, source, width, order, max_len):
    """Algorithm 1 to the letter: 3W pairs, and H has both (token, end) and (end, token).

    The paper does not say what happens when no pair is unfinished; the search ends there.

    Returns:
        the natural tokens of the best hypothesis, and the number of steps
    """
    sources = [model.encoder(source[None], torch.tensor([source.numel()]))]
    beam, ended = [((), 0.0)], []
    for step in itertools.count(1):
        lefts, rights = [], {}
        for pairs, total in beam:
            sides = pair_scores([model], sources, pairs)
            for slot, side in enumerate(sides, start=2 * step - 2):
                possible = [allowed(slot, token, 1, max_len) for token in range(len(side))]
                side[~torch.tensor(possible)] = -math.inf
            lefts += [
                (total + score, pairs, token) for token, score in enumerate(sides[0].tolist())
            ]
            rights[pairs] = sides[1].tolist()
        lefts = sorted(lefts, key=lambda left: -left[0])[: 2 * width]
        pairs_of_lefts = [
            (total + score, (*pairs, (left, right)))
            for total, pairs, left in lefts
            for right, score in enumerate(rights[pairs])
        ]
        best = sorted(pairs_of_lefts, key=lambda own: -own[0])[: 3 * width]
        best = [own for own in best if own[0] > -math.inf]
        ended += [own for own in best[:width] if END in own[1][-1]]
        beam = [(pairs, total) for total, pairs in best if END not in pairs[-1]][:width]
        if len(ended) >= width or not beam:
            break
    scored = [(total, natural(pairs, order)) for total, pairs in ended]
    return max(scored, key=lambda own: own[0] / (len(own[1]) + 1))[1], step


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [1, 2, 5, 10])
def test_the_best_hypothesis_and_the_steps_are_those_of_the_paper(order, width, tmp_path):
    model, n = double_model(order, torch.float32), N_OF_PAPERS_SEARCH
    draw, stats = random.Random(width), tmp_path / "stats"
    lengths = [draw.randint(1, 12) for _ in range(n)]
    sample = tiny.random_batch(TASKS[order], lengths, seed=width)
    args = argparse.Namespace(beam=width, max_len_b=60)
    options = DecodingOptions(decoding="double_token", decoding_stats=str(stats))
    generator = build_generator([model], TASKS[order].target_dictionary, args, options)
    found = generator.generate([model], sample)
    records = [json.loads(line) for line in stats.read_text().splitlines()]
    steps = {record["id"]: record["invocations"] for record in records}
    for number, source in zip(sample["id"].tolist(), sample["net_input"]["src_tokens"]):
        best, n_steps = papers_search(model, source[source.ne(PAD)], width, order, 60)
        assert found[number][0]["tokens"].tolist()[:-1] == best
        assert steps[number] <= n_steps + 1


@settings(max_examples=10)
@given(
    width=st.integers(1, 4), options=search_strategy, lengths=lengths_strategy,
    seed=st.integers(0, 99),
)  # fmt: skip
def test_ensembles_of_different_sizes(width, options, lengths, seed):
    models = [
        double_model(),
        double_model(seed=1, decoder_layers=1, decoder_normalize_before=True),
    ]
    sample = tiny.random_batch(TASKS["bidirectional"], lengths[:3], seed=seed)
    ours = decode(models, sample, width, **options)
    assert_is_reference(ours, models, sample, width, "bidirectional", **options)


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=20)
@given(lengths=lengths_strategy, seed=st.integers(0, 99))
def test_a_beam_of_one_is_plain_argmax(order, lengths, seed):
    """Each side's best token, until one of them is the end."""
    model = double_model(order)
    sample = tiny.random_batch(TASKS[order], lengths, seed=seed)
    for own, source in zip(
        decode([model], sample, 1, min_len=0, max_len_b=12), sample["net_input"]["src_tokens"]
    ):
        source = source[source.ne(PAD)]
        sources = [model.encoder(source[None], torch.tensor([source.numel()]))]
        pairs = []
        while (not pairs or END not in pairs[-1]) and len(pairs) < 6:
            sides = pair_scores([model], sources, pairs)
            sides[:, [PAD, EOS]] = -math.inf
            pairs.append(tuple(sides.argmax(dim=-1).tolist()))
        (hypothesis,) = own
        assert hypothesis["tokens"].tolist() == [*natural(pairs, order), EOS]


def test_scores_are_those_of_the_sentence_in_its_pairs():
    """Each token's score is what the model gave it in its slot; EOS has those of the ends."""
    model = double_model()
    sample = tiny.random_batch(TASKS["bidirectional"], [3, 4, 6])
    for own, source in zip(decode([model], sample, 3), sample["net_input"]["src_tokens"]):
        source = source[source.ne(PAD)]
        sources = [model.encoder(source[None], torch.tensor([source.numel()]))]
        for hypothesis in own:
            tokens = hypothesis["tokens"].tolist()[:-1]
            half = (len(tokens) + 1) // 2
            left, right = tokens[:half], tokens[half:][::-1]
            slots = dict(zip(range(0, 2 * half, 2), left)) | dict(zip(range(1, 99, 2), right))
            folded = [slots.get(i, END) for i in range(len(tokens) // 2 * 2 + 2)]
            pairs = list(zip(folded[::2], folded[1::2]))
            scores = torch.cat(
                [
                    pair_scores([model], sources, pairs[:t])[[0, 1], list(pair)]
                    for t, pair in enumerate(pairs)
                ]
            )
            m = len(tokens)
            expected = [scores[2 * i].item() for i in range(half)]
            expected += [scores[2 * i + 1].item() for i in range(m - half)][::-1]
            expected += [scores[m:].sum().item()]
            own_scores = hypothesis["positional_scores"]
            if pytest.approx(sum(expected), abs=1e-3) == own_scores.sum().item():
                assert own_scores.tolist() == pytest.approx(expected, abs=1e-4)
            else:  # the other way to write an odd sentence: (EOD, token)
                assert m % 2 == 1
            torch.testing.assert_close(hypothesis["score"], own_scores.mean())


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_sentence_does_not_depend_on_its_batch(order, dtype):
    models = [double_model(order, dtype)]
    lengths = [9, 1, 4, 0, 7, 2, 8, 3]
    sample = tiny.random_batch(TASKS[order], lengths)
    together = decode(models, sample, 4)
    for index in range(len(lengths)):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        (alone,) = decode(models, {"net_input": net_input}, 4)
        assert [h["tokens"].tolist() for h in alone] == [
            h["tokens"].tolist() for h in together[index]
        ]
        assert [h["score"].item() for h in alone] == pytest.approx(
            [h["score"].item() for h in together[index]], abs=1e-4
        )


def test_one_generator_serves_batches_of_any_shape():
    models = [double_model()]
    generator = build(models, 3)
    for seed, lengths in enumerate([[9] * 6, [1], [3, 8], [0, 0, 0], [9] * 9]):
        sample = tiny.random_batch(TASKS["bidirectional"], lengths, seed=seed)
        expected = decode(models, sample, 3)
        for own, reference in zip(generator.generate(models, sample), expected):
            assert [h["tokens"].tolist() for h in own] == [h["tokens"].tolist() for h in reference]


def test_half_the_steps():
    """A sentence of m tokens takes m // 2 + 1 steps, where one token a step takes m + 1."""
    generator = build([double_model()], 1)
    sample = tiny.random_batch(TASKS["bidirectional"], [7])
    (hypothesis,) = generator.generate([], sample)[0]
    m = hypothesis["tokens"].numel() - 1
    assert generator.statistics.decoder_invocations == m // 2 + 1


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentences_costs_are_those_that_it_has_alone(beam, tmp_path):
    models = [double_model()]
    lengths = [3, 5, 8, 2, 6, 4, 0, 7]
    sample = tiny.random_batch(TASKS["bidirectional"], lengths)
    path = tmp_path / "stats.jsonl"
    options = DecodingOptions(decoding="double_token", decoding_stats=str(path))
    together = build_generator(models, DICTIONARY, argparse.Namespace(beam=beam), options)
    together.generate(models, sample)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["id"] for record in records] == list(range(len(lengths)))
    assert [record["source_tokens"] for record in records] == [n + 1 for n in lengths]
    for index, record in enumerate(records):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        alone = build(models, beam)
        (own,) = alone.generate(models, {"net_input": net_input})
        costs = alone.statistics
        assert record["invocations"] == costs.decoder_invocations == costs.beam_steps
        assert record["expansions"] == costs.row_invocations
        assert record["tokens"] == costs.tokens == own[0]["tokens"].numel()
        assert (costs.encoder_invocations, record["blocks"]) == (1, [])
    whole = together.statistics
    assert whole.row_invocations == sum(record["expansions"] for record in records)
    assert whole.beam_steps == sum(record["invocations"] for record in records)


# --- limits, prefixes, refusals ------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("positions", [7, 8, 9])
@pytest.mark.parametrize("beam", [1, 3])
def test_limits_are_in_tokens_of_the_sentence(order, positions, beam):
    """And the slots of the longest sentence fit the model's learned positions."""
    model = tiny.stir(tiny.build_model(TASKS[order], ARCH, max_target_positions=positions))
    with torch.no_grad():
        model.decoder.output_projection.weight[END] = 0
        model.decoder.output_projection.weight[EOS] = 9
    sample = tiny.random_batch(TASKS[order], [3, 5])
    for max_len in range(1, 9):
        for min_len in range(1, min(max_len, 5) + 1):
            for own in decode([model], sample, beam, max_len_b=max_len, min_len=min_len):
                for hypothesis in own:
                    m = hypothesis["tokens"].numel() - 1
                    assert min_len <= m <= max_len
                    assert order_length(m) <= positions
                    assert hypothesis["tokens"].tolist().count(EOS) == 1


def order_length(m):
    return m // 2 * 2 + 2


@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    seed=st.integers(0, 99), width=st.integers(1, 6), beam=st.integers(1, 4),
)  # fmt: skip
def test_prefixes_from_left_to_right(lengths, seed, width, beam):
    """As --prefix-size takes them: the reference's first tokens, its EOS too, and padding."""
    models = [double_model("l2r")]
    sample = tiny.random_batch(TASKS["l2r"], lengths, seed=seed)
    prefix = sample["target"][:, :width]
    for own, forced in zip(decode(models, sample, beam, prefix), prefix):
        forced = forced[forced.ne(PAD)].tolist()
        for hypothesis in own:
            assert hypothesis["tokens"].tolist()[: len(forced)] == forced
            assert hypothesis["score"].isfinite()


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(2, 9), min_size=1, max_size=4), seed=st.integers(0, 99),
    width=st.integers(1, 5), n_forced=st.lists(st.integers(0, 6), min_size=4, max_size=4),
    n_columns=st.integers(1, 6), max_len=st.integers(2, 9),
)  # fmt: skip
def test_prefixes_against_lists(lengths, seed, width, n_forced, n_columns, max_len):
    """Of different lengths, also beyond the longest output, and not those of a translation."""
    models = [double_model("l2r")]
    sample = tiny.random_batch(TASKS["l2r"], lengths, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(DICTIONARY.nspecial, END, (len(lengths), 6), generator=generator)
    beyond = torch.arange(6) >= torch.tensor(n_forced[: len(lengths)])[:, None]
    prefix = words.masked_fill(beyond, PAD)[:, :n_columns]
    ours = decode(models, sample, width, prefix, max_len_b=max_len, min_len=0)
    for own, source, row in zip(ours, sample["net_input"]["src_tokens"], prefix):
        expected = reference_search(
            models, source[source.ne(PAD)], width, "l2r", max_len, min_len=0,
            forced=row[row.ne(PAD)].tolist()[:max_len],
        )  # fmt: skip
        assert [h["score"].item() for h in own] == pytest.approx([s for s, _ in expected], abs=1e-4)
        by_tokens = [h["tokens"].tolist()[:-1] for h in own]
        assert sorted(by_tokens) == sorted(tokens for _, tokens in expected)


def test_an_empty_prefix_is_none():
    models = [double_model("l2r")]
    sample = tiny.random_batch(TASKS["l2r"], [4, 6])
    free = decode(models, sample, 3)
    for prefix in (sample["target"][:, :0], torch.full((2, 3), PAD)):
        for own, expected in zip(decode(models, sample, 3, prefix), free):
            assert own[0]["tokens"].tolist() == expected[0]["tokens"].tolist()


@pytest.mark.parametrize("order", ["bidirectional", "r2l"])
def test_prefixes_of_what_is_not_decoded_first(order):
    sample = tiny.random_batch(TASKS[order], [4])
    with pytest.raises(ValueError, match=f"--prefix-size: with --token-order {order}"):
        decode([double_model(order)], sample, prefix=sample["target"][:, :1])


def test_another_first_token():
    models = [double_model(trained=False)]
    sample = tiny.random_batch(TASKS["bidirectional"], [3, 5])
    usual, same, other = (
        [own[0]["tokens"].tolist() for own in decode(models, sample, bos_token=token, max_len_b=8)]
        for token in (None, BOS, 7)
    )
    assert usual == same != other


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_gone_bad_ends_its_sentences(beam):
    model = tiny.build_model(TASKS["bidirectional"], ARCH)
    with torch.no_grad():
        model.decoder.output_projection.weight.fill_(float("nan"))
    with pytest.raises(NotFinite) as caught:
        decode([model], tiny.random_batch(TASKS["bidirectional"], [3, 5]), beam)
    hypotheses = caught.value.hypotheses
    assert [[h["tokens"].tolist() for h in own] for own in hypotheses] == [[[EOS]], [[EOS]]]
    assert all(own[0]["score"] == -math.inf for own in hypotheses)


def test_a_beam_wider_than_the_vocabulary():
    width = len(DICTIONARY) - 1
    sample = tiny.random_batch(TASKS["bidirectional"], [3, 5])
    for own in decode([double_model()], sample, 1000, max_len_b=4):
        assert len(own) == width


@pytest.mark.parametrize("decoding", ["greedy", "beam", "streaming", "jacobi", "lookahead"])
def test_methods_of_one_token_a_step(decoding):
    options = DecodingOptions(decoding=decoding)
    with pytest.raises(ValueError, match=f"--decoding {decoding}: .*--decoding double_token"):
        build_generator([double_model()], DICTIONARY, argparse.Namespace(beam=1), options)


def test_models_of_one_token_a_step():
    task = tiny.double_token_task("r2l", 1)
    for model in (tiny.build_model(task), tiny.build_model(task, ARCH)):
        with pytest.raises(ValueError, match="--decoding double_token: .*--decoding beam"):
            build([model])


def test_ensembles_that_do_not_agree():
    with pytest.raises(ValueError, match="--path: models of .*bidirectional.* and of .*r2l"):
        build([double_model(), double_model("r2l")])
    single = tiny.build_model(tiny.double_token_task("r2l", 1), ARCH)
    with pytest.raises(ValueError, match="--path: models of 1 and of 2 tokens a step"):
        build([double_model(), single])
