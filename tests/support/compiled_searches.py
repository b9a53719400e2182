"""Checks of compiled searches: sentences that join, cancellation, and several threads."""

import pytest
import torch

from fairseq_fastdec.engine import searches
from tests.support import tiny
from tests.support.at_once import at_once
from tests.support.trained_models import TASK


def prefixes(n_sentences, longest, n_types=24):
    """Some forced tokens for each sentence, none for some."""
    words, draw = TASK.target_dictionary, torch.Generator().manual_seed(longest)
    tokens = torch.randint(4, n_types, (n_sentences, longest), generator=draw)
    tokens[:, -1:] = words.eos()  # some translations are complete
    n_forced = torch.randint(0, longest + 1, (n_sentences, 1), generator=draw)
    is_beyond = torch.arange(longest) >= n_forced
    return tokens.masked_fill(is_beyond, words.pad())


def outputs_of(finished):
    """The tokens and scores of each output."""
    found = searches.outputs_of(finished.outputs)
    return [(tokens.tolist(), scores.tolist()) for tokens, scores in found]


def assert_alike_beams(ours, expected, atol=1e-4):
    """Check for the same hypotheses in the same order, except for those with equal scores."""
    assert len(ours) == len(expected)
    for own, other in zip(ours, expected):
        own_scores, scores = ([one["score"].item() for one in some] for some in (own, other))
        assert own_scores == pytest.approx(scores, abs=atol)
        by_tokens = {tuple(one["tokens"].tolist()): one for one in own}
        assert set(by_tokens) == {tuple(one["tokens"].tolist()) for one in other}
        for one in other:
            same = by_tokens[tuple(one["tokens"].tolist())]
            for name in ("score", "positional_scores"):
                torch.testing.assert_close(same[name], one[name], atol=atol, rtol=atol)


def numbers_of_beams(finished):
    """For each sentence, the tokens, scores and totals of its hypotheses, and its counts."""
    found = searches.hypotheses_of(finished)
    return {
        number: ([(*map(list, own[:2]), own[2]) for own in hypotheses], steps, expansions)
        for number, hypotheses, steps, expansions in zip(
            finished.ids, found, finished.steps, finished.expansions
        )
    }


def found_alone(search, admit, numbers_of, lengths):
    """The results for sentences of these lengths, decoded one after another."""
    found = {}
    for number, source in enumerate(_sources(lengths)):
        admit(search, source, number)
        assert search.advance(1000, 1) == 0
        found.update(numbers_of(search.finished()))
    return found


def found_joining(search, admit, numbers_of, lengths, n_threads=1):
    """The results for sentences that join while others are in progress."""
    found = {}
    for number, source in enumerate(_sources(lengths)):
        admit(search, source, number)
        search.advance(1 + number % 3, n_threads)
        found.update(numbers_of(search.finished()))
    assert search.advance(1000, n_threads) == 0
    found.update(numbers_of(search.finished()))
    return found


def assert_cancelled_ones_leave(search, admit, numbers_of, sources, n_steps):
    """Cancel three of four sentences, int64 ``[4, S]``; the other one is not affected.

    Two of them have been in progress for ``n_steps``.
    """
    for number in (10, 11, 12, 13):
        admit(search, sources[number - 10 :][:1].numpy(), number)
    assert search.cancel(13)  # not started yet
    search.advance(n_steps, 1)
    assert search.cancel(10) and search.cancel(12)  # in progress
    assert not search.cancel(99)
    search.advance(1000, 1)
    found = numbers_of(search.finished())
    assert sorted(found) == [11]
    admit(search, sources[1:2].numpy(), 11)
    search.advance(1000, 1)
    assert numbers_of(search.finished()) == found


def _sources(lengths):
    batches = (tiny.random_batch(TASK, [n], seed=n) for n in lengths)
    return [batch["net_input"]["src_tokens"].numpy() for batch in batches]


def assert_same_at_once(generators, models, sample):
    """Check that generators of one model give equal results in parallel threads."""

    def tokens_of(generator):
        found = generator.generate(models, sample)
        return [[one["tokens"].tolist() for one in own] for own in found]

    expected, wrong = tokens_of(generators[0]), []

    def decode(generator):
        found = [tokens_of(generator) for _ in range(20)]
        wrong.extend(one for one in found if one != expected)

    at_once(*(lambda own=one: decode(own) for one in generators))
    assert not wrong
