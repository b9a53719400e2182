"""Jacobi-like iterations on a model that answers anything: greedy's tokens, and no idle work."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.oracle import EOS, generator_on, oracles
from tests.support.oracle import decode as oracle_outputs
from tests.support.trained_models import TASK

PAD = TASK.target_dictionary.pad()
BLOCKS = ["jacobi", "gs_jacobi", "hybrid_jacobi"]


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
    generator = generator_on(oracle, decoding, max_len, **method)
    generator.observer = watcher = Watcher()
    return oracle_outputs(generator, n_sentences), generator.statistics, watcher


@settings(max_examples=150, deadline=None)
@given(
    oracle=oracles,
    decoding=st.sampled_from(BLOCKS),
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
