"""A model with arbitrary but reproducible answers, and a network that uses it."""

import math
import random

import torch
from hypothesis import strategies as st

from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.trained_models import TASK, stock_model

EOS = TASK.target_dictionary.eos()
WORDS = range(TASK.target_dictionary.nspecial, len(TASK.target_dictionary))


class Oracle:
    """A pseudo-random function from the previous tokens to the next one.

    ``memory`` is the number of previous tokens that an answer depends on: if it is small, drafts
    are often right; if it is large, every changed token changes all answers after it.
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
        """The greedy output, EOS included."""
        tokens = [EOS]
        while len(tokens) == 1 or tokens[-1] != EOS:
            tokens.append(self.answer(sentence, tokens, max_len))
        return tokens[1:]


class OracleNetwork:
    """The part of ``Ensemble`` that methods with one hypothesis need."""

    def __init__(self, oracle, max_len):
        self._oracle, self._max_len = oracle, max_len

    accepts_ended_rows = False

    def tighten(self, longest):
        pass

    def reset(self):
        self._sentences, self._tokens = [], []

    def encode(self, net_input, types=None):
        self._sentences = list(range(net_input["src_tokens"].size(0)))
        self._tokens = [[] for _ in self._sentences]

    def step(self, tokens):
        self._fed = tokens.tolist()
        answers = [
            [self._answer(sentence, own + fed[: n + 1]) for n in range(len(fed))]
            for sentence, own, fed in zip(self._sentences, self._tokens, self._fed)
        ]
        return torch.tensor(answers)[..., None]

    def _answer(self, sentence, before):
        return self._oracle.answer(sentence, before, self._max_len)

    def keep(self, n):
        for own, fed, count in zip(self._tokens, self._fed, n.tolist()):
            own += fed[:count]

    def select(self, rows):
        self._sentences = [self._sentences[row] for row in rows.tolist()]
        self._tokens = [list(self._tokens[row]) for row in rows.tolist()]

    def log_probs(self, answers):
        n_types = len(TASK.target_dictionary)
        log_probs = torch.full((*answers.shape[:-1], n_types), -math.inf)
        return log_probs.scatter_(-1, answers, -1.0)


oracles = st.builds(
    Oracle,
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.05, 0.3, 0.7]),
    st.integers(1, 3) | st.just(100),
)


def generator_on(oracle, decoding, max_len, **method):
    """A generator that uses the oracle, for outputs of at most ``max_len`` tokens."""
    generator = our_generator([stock_model(trained=False)], decoding, method, max_len_b=max_len)
    generator.search, generator.network = None, OracleNetwork(oracle, max_len)
    return generator


def decode(generator, n_sentences):
    """The outputs of ``n_sentences`` sentences."""
    sample = tiny.random_batch(TASK, [3] * n_sentences)
    hypotheses = generator.generate([], sample)
    return [own[0]["tokens"].tolist() for own in hypotheses]
