"""The search that verifies what is worth its time, with costs that are known."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.generators.single import adaptive
from tests.support.oracle import Oracle, decode, generator_on, oracles


class Clock:
    """Time that passes only while a session feeds tokens: so much for each, and for a step."""

    def __init__(self, of_step, of_token):
        self.now, self._of_step, self._of_token = 0.0, of_step, of_token

    def __call__(self):
        return self.now

    def watch(self, session):
        step = session.step

        def timed_step(tokens, tree=None):
            self.now += self._of_step + self._of_token * tokens.numel()
            return step(tokens, tree)

        session.step = timed_step


def timed_generator(monkeypatch, oracle, of_step, of_token, max_len=24):
    # Costs are kept with the model, which other tests use, too.
    monkeypatch.setattr(adaptive, "experience_of", lambda models, kind: adaptive.Experience())
    generator = generator_on(oracle, "lookahead", max_len, lookahead_window="auto")
    clock = Clock(of_step, of_token)
    clock.watch(generator.session)
    monkeypatch.setattr(adaptive, "perf_counter", clock)
    return generator, clock


# What was said once is known: nearly all drafts are right.
REPEATS = Oracle(seed=3, share_of_eos=0.0, memory=100)
# An answer depends on all tokens and the place, so drafts from other sentences are wrong.
NEVER_TWICE = Oracle(seed=5, share_of_eos=0.0, memory=100)


def seconds_a_token(generator, clock, n_batches, n_sentences=1):
    before, tokens = clock.now, generator.statistics.tokens
    for _ in range(n_batches):
        decode(generator, n_sentences)
    return (clock.now - before) / (generator.statistics.tokens - tokens)


@pytest.mark.parametrize("n_sentences", [1, 4])
def test_drafts_that_are_right_are_verified_where_tokens_cost_little(monkeypatch, n_sentences):
    generator, clock = timed_generator(monkeypatch, REPEATS, of_step=1.0, of_token=0.01)
    seconds_a_token(generator, clock, 8, n_sentences)
    assert seconds_a_token(generator, clock, 4, n_sentences) < 0.35 / n_sentences
    assert "drafts verified in" in generator._search.summary()


def test_nothing_is_verified_where_tokens_cost_as_much_as_steps(monkeypatch):
    generator, clock = timed_generator(monkeypatch, NEVER_TWICE, of_step=0.0, of_token=1.0)
    seconds_a_token(generator, clock, 10)
    assert seconds_a_token(generator, clock, 40) < 1.03


class Fresh(Oracle):
    """Never says the same twice, even where it is asked the same."""

    def begin(self, number):
        self._seed = number


def test_drafts_that_are_wrong_soon_cost_nothing(monkeypatch):
    oracle = Fresh(seed=0, share_of_eos=0.0, memory=100)
    generator, clock = timed_generator(monkeypatch, oracle, of_step=1.0, of_token=0.3)
    for number in range(60):
        oracle.begin(number)
        if number == 20:
            clock.now, generator.statistics.tokens = 0.0, 0
        decode(generator, 1)
    assert clock.now / generator.statistics.tokens < 1.3 * 1.03


@settings(max_examples=40, deadline=None)
@given(
    oracle=oracles,
    of_token=st.sampled_from([0.0, 0.1, 1.0]),
    n_sentences=st.integers(1, 5),
    max_len=st.integers(1, 25),
)
def test_the_output_is_greedys_whatever_time_passes(oracle, of_token, n_sentences, max_len):
    with pytest.MonkeyPatch.context() as patch:
        generator, _ = timed_generator(patch, oracle, 1.0, of_token, max_len)
        for _ in range(3):
            expected = [oracle.greedy(sentence, max_len) for sentence in range(n_sentences)]
            assert decode(generator, n_sentences) == expected
