"""What is drawn has the model's probabilities, and depends on the seed and the sentence alone."""

import math

import numpy as np
import pytest
import torch
from fairseq.search import Sampling as FairseqsSampling

from fairseq_fastdec.decoding.hypothesis import NotFinite
from fairseq_fastdec.decoding.methods.sampling import mixed, uniform
from fairseq_fastdec.decoding.methods.streaming import Capacity
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.trained_models import TASK, stock_model
from tests.support.ways import WAYS, decoded_by

WORDS = TASK.target_dictionary
EOS, PAD, V = WORDS.eos(), WORDS.pad(), len(WORDS)
N_COPIES, N_SAMPLES = 150, 20


def sampler(models, decoding="beam", beam=N_SAMPLES, seed=7, method=None, **options):
    torch.manual_seed(seed)
    given = dict(max_len_b=5, sampling=True, temperature=2.0)
    return our_generator(models, decoding, method, **{**given, **options, "beam": beam})


def tokens_of(hypotheses):
    return [[one["tokens"].tolist() for one in own] for own in hypotheses]


def copies(n, length=4):
    """A batch of one sentence again and again."""
    sample = tiny.random_batch(TASK, [length])
    net_input = {
        name: value.expand(n, *value.shape[1:]) for name, value in sample["net_input"].items()
    }
    return {"net_input": net_input, "id": torch.arange(n)}


def log_probs_after(model, sample, tokens, temperature=2.0):
    """The model's own log-probabilities of the next token, float64 ``[V]``."""
    sources = {name: value[:1] for name, value in sample["net_input"].items()}
    sources["prev_output_tokens"] = torch.tensor([[EOS, *tokens]])
    logits = model(**sources)[0][0, -1].double() / temperature
    return logits.log_softmax(-1)


def possible(log_probs, topk, topp, step):
    """The probabilities that fairseq draws with: float64 ``[V]``."""
    log_probs = log_probs.clone()
    log_probs[PAD] = -math.inf
    if step == 0:
        log_probs[EOS] = -math.inf
    probs = log_probs.exp()
    kept = torch.zeros_like(probs)
    if topp > 0:
        own, index = FairseqsSampling(WORDS, -1, topp)._sample_topp(log_probs[None, None])
        kept[index[0, 0]] = own[0, 0]
    elif topk > 0:
        index = probs.topk(topk).indices
        kept[index] = probs[index]
    else:
        kept = probs
    return kept / kept.sum()


def assert_drawn_from(expected, counts):
    """Pearson's chi-square test; draws are seeded, so it passes always or never."""
    assert not any(n for n, chance in zip(counts, expected) if chance == 0)
    n, often = counts.sum(), expected * counts.sum() >= 5
    # Seldom ones together.
    observed = np.array([*counts[often], counts[~often].sum()], dtype=float)
    wanted = np.array([*(expected[often] * n), expected[~often].sum() * n])
    observed, wanted = observed[wanted > 0], wanted[wanted > 0]
    assert wanted.size > 1
    chi_square = ((observed - wanted) ** 2 / wanted).sum()
    halves = torch.tensor([(wanted.size - 1) / 2, chi_square / 2], dtype=torch.float64)
    assert torch.special.gammaincc(*halves) > 1e-3


@WAYS
@pytest.mark.parametrize("limits", [{}, dict(topk=4), dict(topp=0.6), dict(topp=1.0)], ids=str)
@torch.no_grad()
def test_draws_have_the_models_probabilities(way, limits):
    model = stock_model(trained=False)
    sample = copies(N_COPIES)
    topk, topp = limits.get("topk", -1), limits.get("topp", -1.0)
    with decoded_by(way):
        generator = sampler([model], sampling_topk=topk, sampling_topp=topp)
        drawn = [own for row in tokens_of(generator.generate([], sample)) for own in row]
    assert len(drawn) == N_COPIES * N_SAMPLES
    firsts = np.bincount([own[0] for own in drawn], minlength=V)
    expected = possible(log_probs_after(model, sample, []), topk, topp, 0).numpy()
    assert_drawn_from(expected, firsts)
    # The second token, behind the first token that came most often.
    often = int(firsts.argmax())
    seconds = np.bincount([own[1] for own in drawn if own[0] == often], minlength=V)
    assert seconds.sum() > 200
    assert_drawn_from(
        possible(log_probs_after(model, sample, [often]), topk, topp, 1).numpy(), seconds
    )


@torch.no_grad()
def test_scores_are_the_models_log_probabilities():
    """Not those among the tokens that can be drawn, as in fairseq."""
    model, sample = stock_model(trained=False), copies(1)
    for own in sampler([model], sampling_topk=3).generate([], sample)[0]:
        tokens = own["tokens"].tolist()
        for step, (token, score) in enumerate(zip(tokens, own["positional_scores"].tolist())):
            log_probs = log_probs_after(model, sample, tokens[:step])
            assert score == pytest.approx(log_probs[token].item(), abs=1e-4)
        assert own["score"].item() == pytest.approx(
            own["positional_scores"].mean().item(), abs=1e-4
        )


def test_samples_are_sorted_and_know_nothing_of_each_other():
    for own in sampler([stock_model(trained=False)]).generate([], copies(3)):
        scores = [one["score"].item() for one in own]
        assert len(own) == N_SAMPLES and scores == sorted(scores, reverse=True)
        assert len({tuple(one["tokens"].tolist()) for one in own}) > N_SAMPLES // 2


@WAYS
def test_one_token_to_draw_from_is_greedy_decoding(way):
    models, sample = [stock_model()], tiny.random_batch(TASK, [3, 9, 1, 5])
    greedy = our_generator(models, "greedy", max_len_b=12).generate([], sample)
    with decoded_by(way):
        drawn = sampler(models, beam=2, sampling_topk=1, temperature=1.0, max_len_b=12)
        for own, best in zip(drawn.generate([], sample), greedy):
            for one in own:
                assert one["tokens"].tolist() == best[0]["tokens"].tolist()


def test_seeds():
    models, sample = [stock_model(trained=False)], copies(2)
    first = tokens_of(sampler(models).generate([], sample))
    assert tokens_of(sampler(models).generate([], sample)) == first
    assert tokens_of(sampler(models, seed=8).generate([], sample)) != first
    # The same sentence under another number draws otherwise.
    assert first[0] != first[1]
    # Tools seed every part of a text anew.
    generator = sampler(models)
    torch.manual_seed(8)
    assert tokens_of(generator.generate([], sample)) != first
    torch.manual_seed(7)
    assert tokens_of(generator.generate([], sample)) == first


def test_another_generator_draws_otherwise():
    """Every call of the hub's interface builds one."""
    models, sample = [stock_model(trained=False)], copies(1)
    torch.manual_seed(7)
    args = dict(beam=5, max_len_b=5, sampling=True, temperature=2.0)
    first, second = (our_generator(models, "beam", **args).generate([], sample) for _ in range(2))
    assert tokens_of(first) != tokens_of(second)


def test_a_sentence_draws_the_same_beside_any_others():
    models = [stock_model(trained=False)]
    sample = tiny.random_batch(TASK, [3, 9, 1, 5, 7])
    sample["id"] = torch.tensor([30, 4, 11, 2, 9])
    options = dict(max_len_a=0.5, max_len_b=4, beam=4)
    together = tokens_of(sampler(models, "variable_beam", **options).generate([], sample))
    streaming = sampler(models, "streaming", **options)
    streaming.capacity = Capacity(sentences=2)
    assert tokens_of(streaming.generate([], sample)) == together
    alone = sampler(models, "variable_beam", **options)
    for number, own in enumerate(together):
        one = {
            "net_input": {
                name: value[number : number + 1] for name, value in sample["net_input"].items()
            },
            "id": sample["id"][number : number + 1],
        }
        assert tokens_of(alone.generate([], one)) == [own]


def test_prefixes_and_repeated_ngrams():
    sample, prefix = copies(3), torch.tensor([[5, 6]]).expand(3, 2)
    generator = sampler([stock_model(trained=False)], max_len_b=15, no_repeat_ngram_size=2)
    for own in generator.generate([], sample, prefix_tokens=prefix):
        for one in own:
            tokens = one["tokens"].tolist()
            assert tokens[:2] == [5, 6] and len({*zip(tokens, tokens[1:])}) == len(tokens) - 1


def test_an_end_that_is_as_good_as_impossible():
    model = tiny.stir(tiny.build_model(TASK, seed=3))
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] = math.nan
    with pytest.raises(NotFinite) as caught:
        sampler([model], beam=2, max_len_b=3).generate([], copies(2))
    for own in caught.value.hypotheses:
        for one in own:
            assert one["tokens"].tolist()[-1] == EOS


@pytest.mark.parametrize(
    "method",
    [dict(prune_threshold=1.0), dict(max_candidates=3), dict(finalize="paper")],
    ids=str,
)
def test_options_about_candidates_mean_nothing(method):
    with pytest.raises(ValueError, match="^--sampling: cannot be combined with --"):
        sampler([stock_model()], "streaming", method=method)


@pytest.mark.parametrize("decoding", ["greedy", "lookahead"])
def test_methods_that_draw_nothing_name_one_that_does(decoding):
    with pytest.raises(ValueError, match="^--sampling: .*use --decoding beam"):
        sampler([stock_model()], decoding)


def test_random_numbers():
    numbers = np.arange(40_000)

    def chances_of(seed):
        states = np.full(numbers.size, seed, dtype=np.uint64)
        drawn = (mixed(int(s), int(n), int(n) % 7, int(n) % 3) for s, n in zip(states, numbers))
        return np.array([uniform(state) for state in drawn])

    chances = chances_of(5)
    assert ((chances >= 0) & (chances < 1)).all() and len(set(chances.tolist())) == numbers.size
    assert_drawn_from(np.full(50, 1 / 50), np.bincount((chances * 50).astype(int), minlength=50))
    assert (chances_of(6) != chances).all()
    # Neighbours have nothing to do with each other.
    assert abs(np.corrcoef(chances[:-1], chances[1:])[0, 1]) < 0.02
