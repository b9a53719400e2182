"""Back-pointers of beams, followed by compiled code and by numpy."""

import numpy as np
import pytest
import torch

from fairseq_fastdec.generators.beams.history import FEWEST_LENGTHS, Ends, History
from tests.support.compiled import compiled

BOS, EOS = 9, 2


class Unchanged:
    """Rules by which a hypothesis' score is its cumulative one."""

    eos = EOS

    def normalized(self, scores, lengths):
        return scores


def test_a_sentence_begins_with_its_first_token():
    history = History(2)
    history.reserve(3, 1)
    history.begin(np.array([0, 2]), BOS)
    nothing = np.zeros(2, dtype=np.int64)
    assert history.tokens(np.array([0, 2]), nothing, nothing).tolist() == [BOS, BOS]
    assert history.scores(np.array([0, 2]), nothing, nothing).tolist() == [0, 0]
    history.extend(*(np.array([n]) for n in (2, 0, 0, 5, 0)), np.float32([-3]))
    history.begin(np.array([2]), BOS)
    assert history.scores(np.array([2]), nothing[:1], nothing[:1]).tolist() == [0]


def test_room_grows_by_doubling_and_keeps_what_is_there():
    history = History(2)
    history.reserve(1, 1)
    assert history.n_lengths == FEWEST_LENGTHS
    entry = [np.array([n]) for n in (0, FEWEST_LENGTHS - 1, 1)]
    history.extend(*entry, np.array([7]), np.array([1]), np.float32([-2]))
    version = history.version
    history.reserve(1, FEWEST_LENGTHS - 1)
    assert history.version == version
    history.reserve(1, FEWEST_LENGTHS)
    assert history.n_lengths == 2 * FEWEST_LENGTHS and history.version != version
    history.reserve(2, 1)
    history.reserve(3, 1)
    shapes = {array.shape for array in history.arrays.values()}
    assert shapes == {(4, 2 * FEWEST_LENGTHS, 2)}
    assert history.tokens(*entry).tolist() == [7] and history.scores(*entry).tolist() == [-2]
    assert history.arrays["parents"][0, FEWEST_LENGTHS - 1, 1] == 1


@pytest.mark.parametrize("way", [pytest.param("compiled", marks=compiled), "numpy"])
def test_hypotheses_follow_their_parents(way, request):
    if way == "numpy":
        request.getfixturevalue("nothing_compiled")
    history = History(2)
    history.reserve(2, 4)
    history.begin(np.array([1]), BOS)
    for length, column, token, parent, score in [
        (1, 0, 4, 0, -1.0), (1, 1, 5, 0, -2.0), (2, 0, 6, 1, -2.5), (2, 1, 7, 0, -3.0),
        (3, 0, 8, 1, -4.0),
    ]:  # fmt: skip
        numbers = (np.array([n]) for n in (1, length, column, token, parent))
        history.extend(*numbers, np.float32([score]))
    ends = Ends(
        np.array([1, 1, 1, 1]), np.array([3, 2, 0, 1]), np.array([0, 0, 0, 1]),
        np.float32([-4.5, -5, -6, -7]),
    )  # fmt: skip
    found = history.hypotheses(ends, Unchanged(), torch.device("cpu"))
    assert [one["tokens"].tolist() for one in found] == [
        [4, 7, 8, EOS], [5, 6, EOS], [EOS], [5, EOS],
    ]  # fmt: skip
    assert [one["positional_scores"].tolist() for one in found] == [
        [-1, -2, -1, -0.5], [-2, -0.5, -2.5], [-6], [-2, -5],
    ]  # fmt: skip
    assert [one["score"].item() for one in found] == [-4.5, -5, -6, -7]
