"""The paper's three algorithms and lookahead: greedy's output, in as few iterations as they say."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods import gs_jacobi
from fairseq_fastdec.decoding.methods.guesses import Guesses
from fairseq_fastdec.network import Ensemble
from fairseq_fastdec.packing.models import EngineModels
from tests.support import tiny
from tests.support.against_fairseq import (
    assert_as_fairseq,
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
    our_generator,
    our_hypotheses,
)
from tests.support.to_read import jacobi_strategy
from tests.support.trained_models import TASK, blockwise_model, stock_model

PAD, EOS = TASK.target_dictionary.pad(), TASK.target_dictionary.eos()
UNUSED = TASK.target_dictionary.unk()  # no training data here holds it
METHODS = ["jacobi", "gs_jacobi", "hybrid_jacobi", "lookahead"]


@st.composite
def methods(draw):
    """Any of the methods with any of its options."""
    decoding = draw(st.sampled_from(METHODS))
    return decoding, draw(jacobi_strategy(decoding, ("sentence", "run")))


@pytest.mark.parametrize("trained", [True, False], ids=["trained", "random"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@settings(max_examples=40)
@given(
    method=methods(),
    options=options_strategy,
    lengths=lengths_strategy,
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_method_gives_fairseqs_beam_1(
    trained, dtype, method, options, lengths, left_pad, seed
):
    models = [stock_model(0, dtype, trained)]
    sample = tiny.random_batch(TASK, lengths, left_pad, seed)
    assert_as_fairseq(models, sample, *method, **options)


@settings(max_examples=20)
@given(method=methods(), lengths=lengths_strategy, seed=st.integers(0, 99))
def test_ensembles_of_different_models(method, lengths, seed):
    models = [
        stock_model(0),
        stock_model(1, decoder_layers=1, decoder_normalize_before=True),
        blockwise_model(),
    ]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    assert_as_fairseq(models, sample, *method)


@settings(max_examples=40)
@given(
    method=methods(),
    lengths=lengths_strategy,
    seed=st.integers(0, 99),
    width=st.integers(0, 6),
    max_len_b=st.integers(2, 12),
)
def test_prefixes(method, lengths, seed, width, max_len_b):
    models = [stock_model()]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    prefix = sample["target"][:, :width]
    assert_as_fairseq(models, sample, *method, prefix_tokens=prefix, max_len_b=max_len_b)


class RandomDraft(Guesses):
    """Any first guess: what Proposition 1 allows."""

    def __init__(self, seed):
        self._generator = torch.Generator().manual_seed(seed)

    def fill(self, batch, kept, n_kept, certain=None):
        guess = torch.randint(len(TASK.target_dictionary), kept.shape, generator=self._generator)
        is_new = torch.arange(kept.size(1)) >= n_kept[:, None]
        return torch.where(is_new, guess, kept)


@settings(max_examples=40)
@given(
    decoding=st.sampled_from(METHODS),
    seed=st.integers(0, 99),
    lengths=lengths_strategy,
    options=options_strategy,
)
def test_any_initialisation(decoding, seed, lengths, options):
    """Proposition 1: greedy's output, and at most as many iterations as tokens."""
    models = [stock_model()]
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    generator = our_generator(models, decoding, **options)
    generator._guesses = RandomDraft(seed)
    hypotheses = generator.generate(models, sample)
    assert_same(hypotheses, fairseq_hypotheses(models, sample, **options))
    n_rows_longer = generator.statistics.row_invocations - generator.statistics.tokens
    assert n_rows_longer <= (2 * len(lengths) if decoding == "hybrid_jacobi" else 0)


@torch.no_grad()
def slow_jacobi(model, sample, block_size, horizon, max_len, eos_ends_block):
    """Algorithms 1 to 3 for one sentence, as the paper writes them, on the full forward pass.

    Returns:
        the tokens and the number of iterations.
    """
    encoder_out = model.encoder(
        **{k: sample["net_input"][k] for k in ("src_tokens", "src_lengths")}
    )

    def argmax(y, i, n):
        """The answers for y_i ... y_i+n-1, given y_1 ... y_i+n-2."""
        # The model is fed PAD drafts at their positions: after fairseq's numbering they have none.
        previous = torch.tensor([[EOS, *y[: i + n - 1]]])
        logits = logits_without_padding(model, previous, encoder_out)[0, i:]
        logits[:, PAD] = -float("inf")
        for step in range(i, i + n):
            if step < 1:
                logits[step - i, EOS] = -float("inf")  # fairseq's --min-len 1
            if step >= max_len:
                logits[step - i, :EOS] = logits[step - i, EOS + 1 :] = -float("inf")
        return logits.argmax(-1).tolist()

    y, i, iterations = [PAD] * (horizon + 1), 0, 0
    while i < horizon:
        n = min(block_size, horizon - i)
        while True:
            read = y[i : i + n - 1]
            y[i : i + n] = argmax(y, i, n)
            iterations += 1
            n_right = next((j for j, token in enumerate(read) if token != y[i + j]), n - 1)
            if n_right == n - 1 or (eos_ends_block and EOS in y[i : i + n_right + 1]):
                break
        if EOS in y[i : i + n]:
            return y[: y.index(EOS, i) + 1], iterations
        i += n
    del y[horizon:]
    while not y or y[-1] != EOS:
        y.append(PAD)
        y[-1:] = argmax(y, len(y) - 1, 1)
        iterations += 1
    return y, iterations


def logits_without_padding(model, previous, encoder_out):
    """The decoder's full forward pass, where PAD is a token like any other."""
    embedding = model.decoder.embed_tokens
    as_other = torch.where(previous.eq(PAD), UNUSED, previous)
    saved = embedding.weight[UNUSED].clone()
    embedding.weight[UNUSED] = embedding.weight[PAD]
    logits = model.decoder(as_other, encoder_out=encoder_out)[0]
    embedding.weight[UNUSED] = saved
    return logits


@pytest.mark.parametrize(
    "decoding, a, b",
    [
        ("jacobi", 0.0, None),
        ("gs_jacobi", 0.0, None),
        ("hybrid_jacobi", 0.0, None),
        ("hybrid_jacobi", 0.5, 1),
        ("hybrid_jacobi", 1.0, None),
        ("hybrid_jacobi", 0.0, 3),
        ("hybrid_jacobi", 2.0, 9),
    ],
)
@pytest.mark.parametrize("block_size", [1, 2, 3, 5])
def test_as_many_iterations_as_the_papers_algorithms(decoding, a, b, block_size):
    """With a horizon of a source tokens and b, or of all; never beyond the longest output."""
    model = stock_model(share_all_embeddings=False)
    lengths = [0, 1, 2, 3, 5, 8, 9, 4]
    sample = tiny.random_batch(TASK, lengths, left_pad=False, seed=3)
    method = {} if decoding == "jacobi" else dict(jacobi_block_size=block_size)
    if decoding == "hybrid_jacobi":
        method.update(parallel_len_a=a, parallel_len_b=b)
    max_len = 12
    generator = our_generator([model], decoding, method, max_len_b=max_len)
    together = generator.generate([model], sample)
    in_all = 0
    for index, length in enumerate(lengths):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        net_input["src_tokens"] = net_input["src_tokens"][:, : length + 1]
        one = {"net_input": net_input}
        horizon = min(int(a * (length + 1) + (b or 0)), max_len + 1)
        tokens, iterations = slow_jacobi(
            model,
            one,
            max_len + 1 if decoding == "jacobi" else block_size,
            max_len + 1 if (a, b) == (0, None) else horizon,
            max_len,
            eos_ends_block=decoding != "hybrid_jacobi",
        )
        alone = our_generator([model], decoding, method, max_len_b=max_len)
        assert alone.generate([model], one)[0][0]["tokens"].tolist() == tokens
        assert together[index][0]["tokens"].tolist() == tokens
        assert alone.statistics.row_invocations == iterations
        in_all += iterations
    # A row's blocks and iterations do not depend on the rows beside it.
    assert generator.statistics.row_invocations == in_all


def one_sentence(length=8, seed=5):
    return tiny.random_batch(TASK, [length], seed=seed)


@pytest.fixture
def widths(nothing_compiled, monkeypatch):
    """How many tokens a row each decoder invocation was fed, in order."""
    fed = []
    step = Ensemble.step
    monkeypatch.setattr(
        Ensemble,
        "step",
        lambda self, tokens, *rest: fed.append(tokens.size(1)) or step(self, tokens, *rest),
    )
    return fed


@pytest.mark.parametrize("reference_length", [None, 1, 4, 30])
def test_the_oracle_length_is_greedys_whatever_the_reference(widths, reference_length):
    models, sample = [stock_model()], one_sentence()
    expected = fairseq_hypotheses(models, sample)
    n_tokens = expected[0][0]["tokens"].numel()
    if reference_length is None:
        del sample["target"]
    else:
        sample["target"] = torch.full((1, reference_length), EOS)
    assert_same(our_hypotheses(models, sample, "jacobi", dict(oracle_length=True)), expected)
    # Greedy decoding comes first, one token at a time, and then the whole of what it said at once.
    assert set(widths) - {1} == {n_tokens} and n_tokens == 9
    widths.clear()
    our_hypotheses(models, sample, "jacobi", max_len_b=15)
    assert widths[0] == 16 and widths[-1] == 9, "until EOS is answered"


@pytest.mark.parametrize("decoding", ["jacobi", "gs_jacobi"])
def test_the_pass_that_finds_the_length_is_not_counted(decoding):
    models, sample = [stock_model()], tiny.random_batch(TASK, [3, 9, 0, 5], seed=2)
    generator = our_generator(models, decoding, dict(oracle_length=True, guess="ngram"))
    generator.observer = watcher = Watcher()
    hypotheses = generator.generate(models, sample)
    counted = generator.statistics
    assert counted.tokens == sum(best["tokens"].numel() for (best,) in hypotheses)
    assert counted.encoder_invocations == 1 and counted.sentences == 4
    # Each invocation is counted that an observer sees, and no other.
    assert counted.decoder_invocations == watcher.n_calls
    assert counted.oracle_seconds > 0
    told = f"{counted.oracle_seconds:.3f} seconds before it for --oracle-length"
    assert told in counted.summary()
    without = our_generator(models, decoding, {})
    without.generate(models, sample)
    assert "oracle" not in without.statistics.summary()


def test_weights_are_packed_before_the_length_is_found(monkeypatch):
    """Every method packs them, so the time for it belongs to the method."""
    models, sample = [stock_model()], tiny.random_batch(TASK, [3, 9, 0, 5], seed=2)
    generator = our_generator(models, "gs_jacobi", dict(oracle_length=True))
    real, clock = EngineModels.parts, [0.0]

    def parts(*given):
        clock[0] += 1000
        return real(*given)

    monkeypatch.setattr(EngineModels, "parts", parts)
    monkeypatch.setattr(gs_jacobi.time, "perf_counter", lambda: clock[0])
    generator.generate(models, sample)
    assert clock[0] >= 1000 and generator.statistics.oracle_seconds == 0


@pytest.mark.parametrize(
    "decoding, is_of_stern",
    [("jacobi", False), ("gs_jacobi", False), ("hybrid_jacobi", False), ("lookahead", True)],
)
def test_the_log_tells_settled_tokens_from_accepted_blocks(decoding, is_of_stern):
    generator = our_generator([stock_model()], decoding, {})
    generator.generate([stock_model()], tiny.random_batch(TASK, [3, 9]))
    line = generator.statistics.summary()
    assert ("mean accepted block size" in line) == is_of_stern
    assert ("mean number of tokens settled at once" in line) != is_of_stern


@pytest.mark.parametrize("guess", ["pad", "ngram"])
def test_drafts_do_not_know_what_the_pass_before_found(guess):
    """With a block for all tokens, n-grams of the run so far are those of other sentences."""
    models, sample = [stock_model()], one_sentence()
    generator = our_generator(models, "jacobi", dict(oracle_length=True, guess=guess))
    generator.generate(models, sample)
    alone = our_generator(models, "jacobi", dict(oracle_length=True))
    alone.generate(models, sample)
    assert generator.statistics.row_invocations == alone.statistics.row_invocations


@pytest.mark.parametrize("window", [1, 2, 4, 7])
def test_lookahead_translates_what_it_has_seen_a_window_at_a_time(window):
    models, sample = [stock_model()], one_sentence()
    generator = our_generator(
        models, "lookahead", dict(lookahead_window=window, ngram_order=4), max_len_b=30
    )
    (first,) = generator.generate(models, sample)[0]
    n_first = generator.statistics.row_invocations
    (again,) = generator.generate(models, sample)[0]
    assert again["tokens"].tolist() == first["tokens"].tolist()
    tokens = first["tokens"].tolist()
    contexts = [tuple(tokens[max(0, end - 3) : end]) for end in range(9)]
    assert len(tokens) == len(set(contexts)) == 9, "each context has one successor"
    assert generator.statistics.row_invocations - n_first == -(-9 // window)


def test_a_pool_of_the_sentence_forgets_between_sentences():
    models, sample = [stock_model()], one_sentence()
    method = dict(ngram_pool="sentence")
    generator = our_generator(models, "lookahead", method)
    for _ in range(2):
        generator.generate(models, sample)
    records = our_generator(models, "lookahead", method)
    records.generate(models, sample)
    assert generator.statistics.row_invocations == 2 * records.statistics.row_invocations


@pytest.mark.parametrize("decoding", METHODS)
def test_invocations_without_a_shared_pool_do_not_depend_on_the_batch(decoding):
    models = [stock_model()]
    lengths = [9, 1, 4, 0, 7, 2, 8, 3]
    sample = tiny.random_batch(TASK, lengths, left_pad=False)
    together = our_generator(models, decoding, dict(guess="pad"), max_len_b=14)
    together.generate(models, sample)
    alone = our_generator(models, decoding, dict(guess="pad"), max_len_b=14)
    for index, length in enumerate(lengths):
        net_input = {key: value[index : index + 1] for key, value in sample["net_input"].items()}
        net_input["src_tokens"] = net_input["src_tokens"][:, : length + 1]
        alone.generate(models, {"net_input": net_input})
    assert alone.statistics.row_invocations == together.statistics.row_invocations
    assert alone.statistics.tokens == together.statistics.tokens


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self):
        self.settled = {}
        self.n_calls = 0

    def __call__(self, sentences, first, drafts, answers, scores, settled, widths):
        self.n_calls += 1
        assert drafts.shape == answers[:, 1:].shape
        for row, sentence in enumerate(sentences.tolist()):
            known = self.settled.setdefault(sentence, {})
            assert int(first[row]) <= len(known)
            for offset in range(int(settled[row])):
                answer = (int(answers[row, offset]), float(scores[row, offset]))
                known[int(first[row]) + offset] = answer


@pytest.mark.parametrize("decoding", ["greedy", "blockwise", *METHODS])
def test_what_an_observer_sees_settled_is_the_output(decoding):
    models = [blockwise_model()]
    sample = tiny.random_batch(TASK, [3, 9, 0, 5])
    generator = our_generator(models, decoding, max_len_b=12)
    generator.observer = watcher = Watcher()
    for sentence, (hypothesis,) in enumerate(generator.generate(models, sample)):
        seen = watcher.settled[sentence]
        for position, token in enumerate(hypothesis["tokens"].tolist()):
            assert seen[position][0] == token
            assert seen[position][1] == pytest.approx(
                float(hypothesis["positional_scores"][position]), abs=1e-4
            )
