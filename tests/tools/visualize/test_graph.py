"""Order of decoding and dependencies: hand-computed cases, then any decoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.tools.visualize import SentenceTrace, TraceStep, decoded, edges, frontiers
from fairseq_fastdec.tools.visualize.graph import SOURCE, cells
from tests.support import simulation
from tests.support.simulation import EOS

PAD = simulation.PAD


def trace(tokens, *steps, method="jacobi"):
    """A step is (first, drafts, answers, settled), tokens written as letters, $ for EOS."""
    made = [
        TraceStep(first, list(drafts), list(answers), [0.5] * len(answers), settled)
        for first, drafts, answers, settled in steps
    ]
    return SentenceTrace(0, ["x", EOS], list(tokens), made, method)


def summary(sentence):
    """For each token its step, its context, and P if it was decoded in parallel."""
    return [
        token and (token.step, token.context, "P" if token.parallel else "")
        for token in decoded(sentence)
    ]


def kinds(sentence):
    """The matrix, a letter a cell: found, guessed, kept, wrong, unused."""
    return ["".join(cell.kind[0] if cell else "." for cell in row) for row in cells(sentence)]


# The end of the paper's example (section 4.3): after y_4 both y_5 and y_6 are decoded at once.
PAPER = trace(
    "abcdef$",
    (0, "......", "axxxxxx", 0),
    (0, "axxxxx", "abxxxxx", 0),
    (0, "abxxxx", "abcxxxx", 0),
    (0, "abcxxx", "abcdxxx", 0),
    (0, "abcdxx", "abcdefx", 0),
    (0, "abcdef", "abcdef$", 0),
    (0, "abcdef", "abcdef$", 7),
)


def test_the_papers_example():
    assert summary(PAPER) == [
        *((0, 0, ""), (1, 1, ""), (2, 2, ""), (3, 3, "")),
        *((4, 4, ""), (4, 4, "P"), (5, 6, "")),
    ]
    assert edges(decoded(PAPER)) == [(SOURCE, 0), (0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (5, 6)]
    # The sixth token is right already, but only the next step knows all before it.
    assert frontiers(PAPER) == [1, 2, 3, 4, 5, 7, 7]
    assert kinds(PAPER)[4:] == ["kkkkffw", "kkkkkkf", "kkkkkkk"]


def test_greedy_decoding_is_a_chain():
    sentence = trace("ab$", (0, "", "a", 1), (1, "", "b", 1), (2, "", "$", 1), method="greedy")
    assert summary(sentence) == [(0, 0, ""), (1, 1, ""), (2, 2, "")]
    assert edges(decoded(sentence)) == [(SOURCE, 0), (0, 1), (1, 2)]
    assert kinds(sentence) == ["f..", ".f.", "..f"]


def test_a_sliding_window_leaves_settled_tokens_behind():
    sentence = trace("abc$", (0, "...", "axcx", 1), (1, "xc", "bc$", 1), (2, "c", "c$", 2))
    assert summary(sentence) == [(0, 0, ""), (1, 1, ""), (0, 0, "P"), (1, 1, "P")]
    assert frontiers(sentence) == [1, 2, 4]
    assert kinds(sentence) == ["fwfw", ".fkf", "..kk"]


def test_a_token_that_is_right_and_then_wrong_is_decoded_later():
    sentence = trace("abc", (0, "..", "axc", 1), (1, "x", "bx", 1), (2, "", "c", 1))
    assert summary(sentence) == [(0, 0, ""), (1, 1, ""), (2, 2, "")]
    assert kinds(sentence) == ["fww", ".fw", "..f"]


def test_right_drafts_that_no_answer_gave_are_settled_at_once_but_not_in_parallel():
    sentence = trace("abcd", (0, "abc", "abcd", 4))
    assert summary(sentence) == [(0, 0, ""), (0, 1, ""), (0, 2, ""), (0, 3, "")]
    assert [token.guessed for token in decoded(sentence)] == [True, True, True, False]
    assert kinds(sentence) == ["gggf"]


def test_forced_tokens_have_no_step():
    sentence = trace("abc", (1, ".", "bx", 1), (2, "", "c", 1))
    assert summary(sentence) == [None, (0, 1, ""), (1, 2, "")]
    assert edges(decoded(sentence)) == [(SOURCE, 0), (0, 1), (1, 2)]
    assert frontiers(sentence) == [2, 3]


def test_answers_behind_the_end_do_not_count():
    sentence = trace("a$", (0, "...", "a$$$", 1), (1, "$$", "$bb", 3))
    assert summary(sentence) == [(0, 0, ""), (0, 0, "P")]
    assert frontiers(sentence) == [1, 2]
    assert kinds(sentence) == ["ff", ".k"]


def test_blockwise_proposals_were_made_a_step_before():
    sentence = trace(
        "abcdef$",
        (0, "", "a", 1),
        # Proposed when nothing was known; b and c hold, x does not.
        (1, "bcx", "bcde", 3),
        # Proposed when a, b, c were known.
        (4, "xf", "efx", 1),
        (5, "f", "f$", 2),
        method="blockwise",
    )
    assert summary(sentence) == [
        *((0, 0, ""), (1, 0, "P"), (1, 0, "P"), (1, 3, "")),
        *((2, 4, ""), (3, 4, "P"), (3, 6, "")),
    ]
    assert frontiers(sentence) == [1, 4, 5, 7]
    assert kinds(sentence) == ["f......", ".fffu..", "....fuu", ".....ff"]
    failed = {
        (n, position): cell.failed
        for n, row in enumerate(cells(sentence))
        for position, cell in enumerate(row)
        if cell and cell.failed
    }
    assert failed == {(1, 3): "x", (2, 4): "x"}


def test_blockwise_accepts_what_is_not_the_best_answer():
    """--acceptance topk: the output has the proposal, whatever p_1 thought best."""
    sentence = trace("abc", (0, "", "a", 1), (1, "b", "xc", 2), method="blockwise")
    assert summary(sentence) == [(0, 0, ""), (1, 0, "P"), (1, 2, "")]
    assert kinds(sentence) == ["f..", ".ff"]


def test_blockwise_after_a_forced_prefix():
    sentence = trace("abcd", (1, "", "b", 1), (2, "c", "cd", 2), method="blockwise")
    assert summary(sentence) == [None, (0, 1, ""), (1, 1, "P"), (1, 3, "")]


ORDERS = st.lists(st.integers(0, 4), min_size=1, max_size=12)


@pytest.mark.parametrize("sliding", [True, False])
@given(order=ORDERS)
def test_any_jacobi_decoding(sliding, order):
    sentence = simulation.jacobi(simulation.memory(order), sliding=sliding)
    settled = frontiers(sentence)
    assert settled == sorted(settled) and settled[-1] == len(sentence.tokens)
    for position, token in enumerate(decoded(sentence)):
        needs_nothing = position == len(order) or order[position] == 0
        if needs_nothing:
            assert (token.step, token.context) == (0, 0)
        assert token.parallel == (token.context < position)
        assert token.parallel or settled[token.step] > position
        assert token.step == 0 or settled[token.step - 1] <= position


@given(order=ORDERS)
def test_the_same_dependencies_whether_settled_tokens_leave_at_once_or_not(order):
    once = simulation.jacobi(simulation.memory(order), sliding=True)
    late = simulation.jacobi(simulation.memory(order), sliding=False)
    assert decoded(once) == decoded(late)
    assert frontiers(once) == frontiers(late)[: len(once.steps)]


@given(order=ORDERS, block_size=st.integers(1, 5), right=st.lists(st.booleans(), min_size=1))
def test_any_blockwise_decoding(order, block_size, right):
    next_token = simulation.memory(order)
    truth = simulation.greedy(next_token)

    def propose(prefix, n):
        position = len(prefix) + n
        known = position < len(truth) and right[position % len(right)]
        return truth[position] if known else "wrong"

    sentence = simulation.blockwise(next_token, propose, block_size)
    found, settled = decoded(sentence), frontiers(sentence)
    assert settled[-1] == len(sentence.tokens)
    for position, token in enumerate(found):
        before = settled[token.step - 1] if token.step else 0
        assert before <= position < settled[token.step]
        if token.parallel:
            # The heads saw all but the last token of what was settled before.
            assert token.context == before - 1
