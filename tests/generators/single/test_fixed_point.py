"""Jacobi-like iterations on a model that answers anything: greedy's tokens, and no idle work."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine import Features
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.trained_models import TASK, stock_model

EOS, PAD = TASK.target_dictionary.eos(), TASK.target_dictionary.pad()
WORDS = range(TASK.target_dictionary.nspecial, len(TASK.target_dictionary))
BLOCKS = ["jacobi", "gs_jacobi", "hybrid_jacobi"]


class Oracle:
    """A function of everything before a token: its answers are as arbitrary as its seed.

    ``memory`` is how many of the last tokens an answer depends on: where it is small, drafts are
    often right, and where it is large, every changed token changes all answers after it.
    """

    def __init__(self, seed, share_of_eos, memory):
        self._seed, self._share_of_eos, self._memory = seed, share_of_eos, memory

    def answer(self, sentence, before, max_len):
        """The token after ``before``, which begins with BOS."""
        if len(before) > max_len:
            return EOS
        context = before[len(before) - self._memory :] if self._memory < len(before) else before
        chance = random.Random(f"{self._seed} {sentence} {len(before)} {context}")
        if len(before) > 1 and chance.random() < self._share_of_eos:
            return EOS
        return chance.choice(WORDS)

    def greedy(self, sentence, max_len):
        """The output, EOS included."""
        tokens = [EOS]
        while len(tokens) == 1 or tokens[-1] != EOS:
            tokens.append(self.answer(sentence, tokens, max_len))
        return tokens[1:]


class OracleSession:
    """As much of an ``EnsembleSession`` as a batch of single hypotheses asks for."""

    temperature = 1.0

    def __init__(self, oracle):
        self._oracle = oracle

    def reset(self, max_len):
        self._max_len = max_len - 1

    def add(self, net_input, forced=None):
        self._sentences = list(range(net_input["src_tokens"].size(0)))
        self._tokens = [[] for _ in self._sentences]

    def step(self, tokens, tree=None):
        self._fed = tokens.tolist()
        answers = [
            [self._answer(sentence, own + fed[: n + 1]) for n in range(len(fed))]
            for sentence, own, fed in zip(self._sentences, self._tokens, self._fed)
        ]
        return Features([torch.tensor(answers)[..., None]])

    def _answer(self, sentence, before):
        return self._oracle.answer(sentence, before, self._max_len)

    def commit(self, n, path=None):
        counts = [n] * len(self._fed) if isinstance(n, int) else n.tolist()
        for own, fed, count in zip(self._tokens, self._fed, counts):
            own += fed[:count]

    def select(self, rows):
        self._sentences = [self._sentences[row] for row in rows.tolist()]
        self._tokens = [list(self._tokens[row]) for row in rows.tolist()]

    def pending(self, *_):
        """There is no product whose logits compiled code could look at."""

    direct = pending

    def log_probs(self, features):
        (answers,) = features.of_members
        log_probs = torch.full((*answers.shape, len(TASK.target_dictionary)), -math.inf)
        return log_probs.scatter_(-1, answers[..., None], -1.0)


class Watcher:
    """An observer that keeps, for each sentence, the drafts and the positions of each iteration."""

    def __init__(self):
        self.iterations = {}

    def __call__(self, sentences, first, drafts, answers, scores, settled, widths):
        rows = zip(*(t.tolist() for t in (sentences, first, drafts, answers, widths)))
        for sentence, start, draft, answer, width in rows:
            seen = self.iterations.setdefault(sentence, [])
            seen.append((start, draft[: width - 1], answer[:width]))


def decode(oracle, decoding, n_sentences, max_len, **method):
    generator = our_generator([stock_model(trained=False)], decoding, method, max_len_b=max_len)
    generator.session = OracleSession(oracle)
    generator.observer = watcher = Watcher()
    sample = tiny.random_batch(TASK, [3] * n_sentences)
    hypotheses = generator.generate([], sample)
    return [own[0]["tokens"].tolist() for own in hypotheses], generator.statistics, watcher


oracles = st.builds(
    Oracle,
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.05, 0.3, 0.7]),
    st.integers(1, 3) | st.just(100),
)


@settings(max_examples=150, deadline=None)
@given(
    oracle=oracles,
    decoding=st.sampled_from([*BLOCKS, "lookahead"]),
    draft=st.sampled_from(["pad", "copy", "previous", "ngram", "source"]),
    n_sentences=st.integers(1, 5),
    max_len=st.integers(1, 25),
)
def test_any_answers_give_greedys_output(oracle, decoding, draft, n_sentences, max_len):
    tokens, statistics, _ = decode(oracle, decoding, n_sentences, max_len, draft=draft)
    assert tokens == [oracle.greedy(sentence, max_len) for sentence in range(n_sentences)]
    if decoding != "hybrid_jacobi":
        assert statistics.row_invocations <= statistics.tokens


@settings(max_examples=150, deadline=None)
@given(
    oracle=oracles,
    decoding=st.sampled_from(["jacobi", "gs_jacobi"]),
    block_size=st.integers(1, 9),
    n_sentences=st.integers(1, 5),
    max_len=st.integers(1, 25),
)
def test_positions_behind_an_answered_eos_wait(oracle, decoding, block_size, n_sentences, max_len):
    method = {} if decoding == "jacobi" else dict(jacobi_block_size=block_size)
    width = max_len + 1 if decoding == "jacobi" else block_size
    _, _, watcher = decode(oracle, decoding, n_sentences, max_len, **method)
    for iterations in watcher.iterations.values():
        newest, block = [], None
        for first, drafts, answers in iterations:
            if first != block:
                newest, block = [PAD] * min(width, max_len + 1 - first), first
            reach = newest.index(EOS) + 1 if EOS in newest else len(newest)
            assert drafts == newest[: reach - 1]
            assert len(answers) == reach
            newest[:reach] = answers


@settings(max_examples=100, deadline=None)
@given(
    oracle=oracles,
    decoding=st.sampled_from(BLOCKS),
    block_size=st.integers(1, 9),
    max_len=st.integers(1, 25),
)
def test_the_papers_measurements_answer_every_position(oracle, decoding, block_size, max_len):
    """PJ and PGJ of known length, and HGJ: as many iterations as Algorithms 1 to 3."""
    method = {} if decoding == "jacobi" else dict(jacobi_block_size=block_size)
    if decoding != "hybrid_jacobi":
        method["oracle_length"] = True
    expected = oracle.greedy(0, max_len)
    length = len(expected) if decoding != "hybrid_jacobi" else max_len + 1
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GSJacobiGenerator", "HybridJacobiGenerator"):
            patch.setattr(
                f"fairseq_fastdec.generators.single.jacobi.{name}.horizon",
                lambda self, batch: torch.full_like(batch.source_lengths, length),
            )
        (tokens,), statistics, watcher = decode(oracle, decoding, 1, max_len, **method)
    assert tokens == expected
    width = length if decoding == "jacobi" else block_size
    ends_early = decoding != "hybrid_jacobi"
    n_iterations = papers_iterations(oracle, expected, width, length, max_len, ends_early)
    assert statistics.row_invocations == n_iterations
    for first, _, answers in watcher.iterations[0]:
        assert len(answers) == min(width, length - first)


def papers_iterations(oracle, output, block_size, length, max_len, ends_early):
    """How many iterations Algorithms 1 to 3 take for ``length`` tokens of one sentence."""
    y, begin, iterations = [PAD] * length, 0, 0
    while begin < length and EOS not in y[:begin]:
        end = min(begin + block_size, length)
        done = False
        while not done:
            read = y[begin : end - 1]
            fed = [EOS, *y[: end - 1]]
            y[begin:end] = [oracle.answer(0, fed[: n + 1], max_len) for n in range(begin, end)]
            iterations += 1
            n_right = next((n for n, token in enumerate(read) if token != y[begin + n]), len(read))
            ended = ends_early and EOS in y[begin : begin + n_right + 1]
            done = n_right == len(read) or ended
        begin = end
    assert y[: len(output)] == output
    return iterations
