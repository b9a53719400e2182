"""Where an output goes on in its draft, and how many tokens of it are proposed."""

import types

import pytest
import torch

from fairseq_fastdec.decoding.methods.given_drafts import (
    MOST_PROPOSALS,
    GivenDrafts,
    n_matching,
)
from fairseq_fastdec.decoding.statistics import Statistics

PAD, EOS = 1, 2
DRAFT = [10, 11, 12, 13, 14, 15]


class Batch:
    """What is read of a batch: one row, with an output that grows."""

    def __init__(self, draft, max_len=50):
        self.request = types.SimpleNamespace(drafts=[torch.tensor(draft)])
        self.statistics, self.max_len, self.n_rows = Statistics(), max_len, 1
        self.sentence, self.output = torch.tensor([0]), []

    @property
    def lengths(self):
        return torch.tensor([len(self.output)] * self.n_rows)

    def tail(self, n, filler):
        return torch.tensor([([filler] * n + self.output)[-n:]] * self.n_rows)


def follow(draft, answers, max_len=50, own=None):
    """The proposals of each step for an output that is ``answers``, and the steps."""
    own = own or GivenDrafts(PAD, EOS)
    batch = Batch(draft, max_len)
    own.begin(batch)
    proposed, certain, place = [], None, 0
    while place < len(answers):
        tokens = own.put_first(batch, torch.empty((1, 0), dtype=torch.int64), certain)
        chain = tokens[0].tolist()
        n = 0
        while n < len(chain) and place + n < len(answers) and chain[n] == answers[place + n]:
            n += 1
        own.learn(batch, torch.tensor([n]))
        proposed.append(chain)
        batch.output = answers[: place + n]
        place += n + 1
        certain = torch.tensor(answers[place - 1 : place])
    return proposed


def test_a_draft_that_is_right_takes_one_step():
    assert follow(DRAFT, [*DRAFT, EOS]) == [[*DRAFT, EOS]]
    # With or without its end.
    assert follow([*DRAFT, EOS], [*DRAFT, EOS]) == [[*DRAFT, EOS]]


@pytest.mark.parametrize(
    ("output", "later"),
    [
        # 12 is replaced: the draft goes on behind the next token that agrees.
        ([10, 11, 99, 13, 14, 15, EOS], [[], [14, 15, EOS]]),
        # 99 is put in: the draft goes on behind 12.
        ([10, 11, 99, 12, 13, 14, 15, EOS], [[], [13, 14, 15, EOS]]),
        # 12 is missing: the draft goes on behind 13.
        ([10, 11, 13, 14, 15, EOS], [[14, 15, EOS]]),
        # The parts have changed places.
        ([13, 14, 15, 10, 11, 12, EOS], [[14, 15, EOS], [11, 12, 13, 14, 15, EOS]]),
    ],
)
def test_it_goes_on_where_the_output_matches_again(output, later):
    first, *others = follow(DRAFT, output)
    assert first == [*DRAFT, EOS] and others == later


def test_the_longest_match_counts_and_then_the_nearest():
    draft = [10, 11, 20, 30, 11, 21, 10, 11, 22]
    # 10 11 is twice in the draft, 11 three times; the output stands at the beginning.
    _, nothing, then, *_ = follow(draft, [99, 10, 11, 20, EOS])
    assert nothing == [] and then[:3] == [11, 20, 30]
    draft = [5, 6, 5, 7, 5, 8]
    # The expected place is that of the second 5.
    assert follow(draft, [5, 6, 99, 5, 7, EOS])[2][0] == 7


def test_several_drafts_follow_each_other():
    draft = [10, 11, EOS, 20, 21, 22]
    first, then, *_ = follow(draft, [20, 21, 22, EOS])
    assert first == [10, 11, EOS, 20, 21, 22, EOS] and then == [21, 22, EOS]


def test_no_more_than_there_is_room_for():
    """The answer to the last proposal can be the output's last token."""
    assert follow(DRAFT, DRAFT[:3] + [EOS], max_len=3) == [DRAFT[:3]]


def test_the_number_of_proposals_follows_how_often_they_were_right():
    own = GivenDrafts(PAD, EOS)
    long = list(range(10, 110))
    wrong = list(range(110, 210))
    n_first = len(follow(long, wrong, 200, own)[0])
    for _ in range(20):
        follow(long, wrong, 200, own)
    assert len(follow(long, wrong, 200, own)[0]) <= 2 < n_first
    for _ in range(40):
        follow(long, long, 200, own)
    assert len(follow(long, long, 200, own)[0]) == MOST_PROPOSALS


def rows(n, draft=DRAFT):
    """The number of proposals for n rows that begin."""
    return GivenDrafts(PAD, EOS)._best_number([draft] * n)


def test_larger_batches_have_fewer_proposals():
    """Tokens take more of the time of their steps, if they are there."""
    numbers = [rows(n, list(range(50))) for n in (1, 2, 4, 8, 16, 64)]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > 10 > numbers[-1]
    own = GivenDrafts(PAD, EOS)
    assert own._best_number([DRAFT, *[[]] * 7]) >= own._best_number([DRAFT] * 8)


def test_wrong_drafts_are_tried_again():
    """Also in batches so large that they are no longer proposed."""
    own = GivenDrafts(PAD, EOS)
    own._right, own._wrong = 100.0, 200.0
    batch = Batch(DRAFT)
    batch.request.drafts *= 8
    batch.n_rows, batch.sentence, batch.output = 8, torch.arange(8), []
    own.begin(batch)
    steps = [own._chains(batch, None)[0] for _ in range(3000)]
    assert steps[0] == [] and steps[-1] != []


def test_what_matches():
    assert n_matching([1, 2, 3], [9, 2, 3, 4], 3) == 2
    assert n_matching([3], [3], 1) == 1
    assert n_matching([3], [4], 1) == n_matching([3], [3], 0) == 0
