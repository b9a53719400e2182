"""Sources of proposals, and what they expect of them."""

import numpy as np
import pytest
import torch

from fairseq_fastdec.generators.single.proposals import (
    N_PATH_KINDS,
    N_UNTIL_ALL,
    DraftProposals,
    HeadProposals,
)


class KnownDrafts:
    """Drafts of two kinds for two rows."""

    n_kinds = 2

    def graded(self, batch, kept, n_kept, certain):
        drafts = torch.tensor([[5, 6, 7], [8, 9, 4]])[:, : kept.size(1)]
        return drafts, torch.tensor([[1, 1, 0], [0, 1, 1]])[:, : kept.size(1)]

    def learn(self, batch, tokens, n_new):
        self.told = (tokens, n_new)


class Judged:
    """As much of blocks and of a batch as sources look at."""

    n_rows = 2
    next_tokens = torch.tensor([3, 3])

    def __init__(self, accepted=None, path_scores=None):
        self._accepted, self._path_scores = accepted, path_scores
        self.proposed = None

    def rest(self, n):
        return torch.ones(2, n).long(), torch.zeros(2).long()

    def propose(self, proposals):
        self.proposed = proposals.tolist()

    def propose_tree(self, n_heads, n_proposals, confidence):
        return self._path_scores[:, :n_proposals]

    def cut_tree(self, n):
        self.proposed = n

    def depths(self):
        return np.array([[1, 2, 2]] * 2)

    def accepted(self):
        return np.array(self._accepted)

    def certain(self):
        return "tokens", "how many"


def test_a_draft_is_as_good_as_all_before_it():
    source = DraftProposals(KnownDrafts(), 15)
    good, bad = source.rates.rates[1], source.rates.rates[0]
    blocks = Judged()
    gains = source.ask(blocks, blocks, 3)
    each = [good + bad, good**2 + bad * good, good**2 * bad + bad * good**2]
    assert gains == pytest.approx(np.cumsum(each).tolist())
    source.propose(blocks, 2)
    assert blocks.proposed == [[5, 6], [8, 9]]


def test_drafts_behind_a_wrong_one_are_not_judged():
    source = DraftProposals(KnownDrafts(), 15)
    before = source.rates._tried.copy(), source.rates._accepted.copy()
    blocks = Judged(accepted=[[True, False], [False, False]])
    source.ask(blocks, blocks, 3)
    source.learn(blocks, blocks, was_taken=True)
    # The first row's two, and the second row's first.
    assert (source.rates._tried - before[0]).tolist() == [1, 2]
    assert (source.rates._accepted - before[1]).tolist() == [0, 1]
    assert source._source.told == ("tokens", "how many")
    source.learn(blocks, blocks, was_taken=False)
    assert (source.rates._tried - before[0]).tolist() == [1, 2]


def test_heads_are_believed_until_they_are_known():
    source = HeadProposals(4, 15)
    scores = np.log([[0.5, 0.25, 0.001], [0.5, 0.25, 1e-300]])
    blocks = Judged(accepted=[[True, False, False], [True, True, False]], path_scores=scores)
    gains = source.ask(blocks, blocks, 3)
    assert gains[0] == pytest.approx(1.0, rel=0.3)
    assert gains[2] == pytest.approx(1.5, rel=0.3)
    for _ in range(1000):
        source.ask(blocks, blocks, 3)
        source.learn(blocks, blocks, was_taken=True)
    gains = source.ask(blocks, blocks, 3)
    assert gains == pytest.approx([2.0, 3.0, 3.0], abs=0.02)
    assert source.rates._tried[N_PATH_KINDS - 1] > 500
    source.propose(blocks, 2)
    assert blocks.proposed == 2


@pytest.mark.parametrize("price, n_heads", [(0.0, 3), (0.2, 3), (0.7, 2)])
def test_heads_that_are_not_worth_their_time_are_not_asked(price, n_heads):
    """p_2 is always right, p_3 for one of two rows, p_4 not even in the tree."""
    source = HeadProposals(4, 15)
    scores = np.log([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]])
    blocks = Judged(accepted=[[True, False, False], [True, True, False]], path_scores=scores)
    asked = []
    for _ in range(10 * N_UNTIL_ALL):
        source.choose_heads(lambda n: (price + 0.01) * n)
        source.ask(blocks, blocks, 3)
        asked.append(source.n_heads)
        source.learn(blocks, blocks, was_taken=True)
    assert asked[:N_UNTIL_ALL] == [4] * N_UNTIL_ALL
    assert asked[-N_UNTIL_ALL:] == [n_heads] * (N_UNTIL_ALL - 1) + [4]
