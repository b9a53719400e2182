"""PJ, PGJ and HGJ: greedy's output in as many iterations as the paper's algorithms take."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.network import Ensemble
from fairseq_fastdec.tools.visualize.trace import Recorder
from tests.support import tiny
from tests.support.against_fairseq import (
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
)
from tests.support.oracle import WORDS, Oracle
from tests.support.to_read import JACOBI, decoded, jacobi_strategy, method_to_read
from tests.support.trained_models import TASK, stock_model

PAD, EOS = TASK.target_dictionary.pad(), TASK.target_dictionary.eos()
MAX_LEN = 9


@pytest.mark.parametrize("decoding", [*JACOBI, "lookahead"])
@settings(max_examples=8)
@given(data=st.data(), options=options_strategy, lengths=lengths_strategy)
def test_the_output_of_fairseqs_beam_1(decoding, data, options, lengths):
    models, sample = [stock_model()], tiny.random_batch(TASK, lengths)
    method = data.draw(jacobi_strategy(decoding))
    expected = fairseq_hypotheses(models, sample, **options)
    assert_same(decoded(models, sample, decoding, method, **options), expected)


def answers_of(oracle, monkeypatch):
    """Let every model answer as an oracle does, from the tokens alone."""

    def step(network, tokens, rows=None):
        answers = [
            [oracle.answer(0, own + fed[: n + 1], MAX_LEN) for n in range(len(fed))]
            for own, fed in zip(network.kept, tokens.tolist())
        ]
        network.fed = tokens.tolist()
        return torch.tensor(answers)[..., None]

    def encode(network, net_input, types=None):
        network.kept = [[] for _ in net_input["src_tokens"]]

    def keep(network, n):
        network.kept = [own + fed[:k] for own, fed, k in zip(network.kept, network.fed, n.tolist())]

    def log_probs(network, features):
        scores = torch.full((*features.shape[:-1], len(TASK.target_dictionary)), -20.0)
        return scores.scatter(-1, features, -0.1)

    def select(network, rows):
        network.kept = [network.kept[row] for row in rows]

    for function in (step, encode, keep, log_probs, select):
        monkeypatch.setattr(Ensemble, function.__name__, function)


def jacobi_by_the_paper(oracle, b, m):
    """Algorithm 2 with a list: the output, and the iterations that it takes.

    The stop compares the tokens that were fed, which are all of a block but its last.
    """
    y, iterations = [], 0
    while len(y) < m:
        size = min(b, m - len(y))
        block = [PAD] * size
        while True:
            iterations += 1
            old = list(block)
            block = [oracle.answer(0, [EOS, *y, *old[:n]], MAX_LEN) for n in range(size)]
            if old[:-1] == block[:-1]:
                break
        y += block
    return y, iterations


@pytest.mark.parametrize("decoding", ["jacobi", "gs_jacobi"])
@pytest.mark.parametrize("memory", [1, 3, 100])
@pytest.mark.parametrize("b", [1, 3])
def test_the_papers_iterations_with_the_length_known(decoding, memory, b, monkeypatch):
    for seed in range(6):
        oracle = Oracle(seed, share_of_eos=0.2, memory=memory)
        answers_of(oracle, monkeypatch)
        greedy = oracle.greedy(0, MAX_LEN)
        method = dict(oracle_length=True)
        if decoding == "gs_jacobi":
            method["jacobi_block_size"] = b
        generator = method_to_read([stock_model()], decoding, method, max_len_b=MAX_LEN)
        ((own,),) = generator.generate([], tiny.random_batch(TASK, [3]))
        size = len(greedy) if decoding == "jacobi" else b
        expected, iterations = jacobi_by_the_paper(oracle, size, len(greedy))
        assert own["tokens"].tolist() == greedy == expected
        assert generator.results[0].steps == iterations
        assert iterations <= len(greedy)


def test_hybrid_jacobi_goes_on_token_by_token():
    models, sample = [stock_model(trained=False)], tiny.random_batch(TASK, [3, 5])
    method = dict(parallel_len_b=0)
    generator = method_to_read(models, "hybrid_jacobi", method, max_len_b=8)
    hypotheses = generator.generate(models, sample)
    for own, result in zip(hypotheses, generator.results):
        assert result.steps == own[0]["tokens"].numel()
        assert set(result.blocks) == {1}


@pytest.mark.parametrize("decoding", ["greedy", *JACOBI, "lookahead"])
def test_an_observer_sees_every_invocation(decoding):
    models, sample = [stock_model()], tiny.random_batch(TASK, [6])
    generator = method_to_read(models, decoding, max_len_b=12)
    generator.observer = recorder = Recorder()
    ((own,),) = generator.generate(models, sample)
    steps = recorder.take(0)
    assert len(steps) == generator.results[0].steps
    output, known = own["tokens"].tolist(), 0
    for step in steps:
        # A block can be settled beyond the end of the output.
        settled, rest = step.answers[: step.settled], output[step.first :]
        assert settled[: len(rest)] == rest[: len(settled)]
        known = max(known, step.first + step.settled)
    assert known >= len(output)
    assert all(token in (*WORDS, EOS) for token in output)
