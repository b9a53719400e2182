"""Checks of compiled searches: sentences that join, cancellation, and several threads."""

import numpy
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


def admit(search, sources, numbers, bos, prefix=None, max_len=12, **given):
    """Add sentences to a search.

    Args:
        sources: int64 ``[B, S]``, or ``None``; numbers: their ids.
    """
    n = len(numbers)
    limits = numpy.full(n, max_len), numpy.zeros(n, int)
    search.admit(numpy.array(numbers), bos, *limits, sources, prefix=prefix, **given)


def finished(search):
    """The results of a search by id: tokens, scores and totals of hypotheses; and the costs."""
    return {
        result.id: (
            [(list(own.tokens), list(own.positional_scores), own.score) for own in outputs],
            result.steps,
            result.expansions,
            result.blocks,
        )
        for result in searches.results_of(search.finished())
        for outputs in [result.hypotheses]
    }


def outputs_of(search):
    """The tokens and scores of the first output of each sentence, by id."""
    return {number: outputs[0][:2] for number, (outputs, *_) in finished(search).items()}


def found_alone(search, bos, lengths):
    """The results for sentences of these lengths, decoded one after another."""
    found = {}
    for number, source in enumerate(_sources(lengths)):
        admit(search, source, [number], bos)
        assert search.advance(1000, 1) == 0
        found.update(finished(search))
    return found


def found_joining(search, bos, lengths, n_threads=1):
    """The results for sentences that join while others are in progress."""
    found = {}
    for number, source in enumerate(_sources(lengths)):
        admit(search, source, [number], bos)
        search.advance(1 + number % 3, n_threads)
        found.update(finished(search))
    assert search.advance(1000, n_threads) == 0
    found.update(finished(search))
    return found


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
