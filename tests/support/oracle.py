"""A model whose answers are as arbitrary as a seed, and a session that it answers in."""

import math
import random

import torch
from hypothesis import strategies as st

from fairseq_fastdec.engine import Features
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.trained_models import TASK, stock_model

EOS = TASK.target_dictionary.eos()
WORDS = range(TASK.target_dictionary.nspecial, len(TASK.target_dictionary))


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


oracles = st.builds(
    Oracle,
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.05, 0.3, 0.7]),
    st.integers(1, 3) | st.just(100),
)


def generator_on(oracle, decoding, max_len, **method):
    """A generator that the oracle answers, for no sentence longer than ``max_len``."""
    generator = our_generator([stock_model(trained=False)], decoding, method, max_len_b=max_len)
    generator.session = OracleSession(oracle)
    # The compiled search decodes with models alone.
    generator.__dict__["_compiled_search"] = None
    return generator


def decode(generator, n_sentences):
    """The outputs of so many sentences."""
    sample = tiny.random_batch(TASK, [3] * n_sentences)
    hypotheses = generator.generate([], sample)
    return [own[0]["tokens"].tolist() for own in hypotheses]
