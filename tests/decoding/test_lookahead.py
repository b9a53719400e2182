"""Lookahead on a model that answers anything: greedy's tokens, in no more invocations."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.oracle import Oracle, decode, generator_on, oracles


@settings(max_examples=150)
@given(
    oracle=oracles,
    guess=st.sampled_from(["pad", "copy", "previous", "ngram", "source"]),
    window=st.integers(1, 9),
    n_sentences=st.integers(1, 5),
    max_len=st.integers(1, 25),
)
def test_any_answers_give_greedys_output(oracle, guess, window, n_sentences, max_len):
    generator = generator_on(oracle, "lookahead", max_len, guess=guess, lookahead_window=window)
    expected = [oracle.greedy(sentence, max_len) for sentence in range(n_sentences)]
    assert decode(generator, n_sentences) == expected
    assert generator.statistics.row_invocations <= generator.statistics.tokens


@pytest.mark.parametrize("pool, least", [("run", 4.0), ("sentence", 1.0)])
def test_what_was_said_before_is_drafted(pool, least):
    """The same sentence once more: all of its tokens are known, five of a window of six at once."""
    oracle = Oracle(seed=3, share_of_eos=0.0, memory=100)
    generator = generator_on(oracle, "lookahead", 24, ngram_pool=pool)
    decode(generator, 1)
    before = generator.statistics.row_invocations
    decode(generator, 1)
    assert 25 / (generator.statistics.row_invocations - before) >= least


class Watcher:
    """An observer that keeps the first sentence's drafts, answers and settled answers."""

    def __init__(self):
        self.seen = []

    def __call__(self, sentences, first, drafts, answers, scores, settled, widths):
        for row in zip(*(t.tolist() for t in (sentences, first, drafts, answers, settled))):
            if row[0] == 0:
                self.seen.append(row[1:])


@settings(max_examples=60)
@given(oracle=oracles, window=st.integers(2, 6))
def test_answers_that_were_not_taken_are_the_next_drafts(oracle, window):
    """Without other drafts the iteration is Jacobi's, in a window that slides on."""
    generator = generator_on(oracle, "lookahead", 25, guess="pad", lookahead_window=window)
    generator.observer = watcher = Watcher()
    decode(generator, 1)
    for before, after in zip(watcher.seen, watcher.seen[1:]):
        first, _, answers, settled = before
        assert after[0] == first + settled
        kept = answers[settled:]
        assert after[1][: len(kept)] == kept[: len(after[1])]
        assert after[1][len(kept) :] == [generator.rules.pad] * (len(after[1]) - len(kept))
