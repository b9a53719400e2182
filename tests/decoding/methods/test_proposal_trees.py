"""Trees hold the most probable paths, of all that there are."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods import proposal_trees
from fairseq_fastdec.decoding.methods.proposal_trees import tree_of

EOS, PAD, V = 2, 9, 7


class HeadsOfTables:
    """Heads whose distributions are drawn: for each place alone, or for each path."""

    def __init__(self, seed, has_sequential_heads):
        self.has_sequential_heads = has_sequential_heads
        self._seed = seed

    def distribution(self, *path):
        """Log-probabilities ``[V]`` behind a path; of a parallel head, of its number."""
        generator = torch.Generator().manual_seed(hash((self._seed, *path)) % 2**31)
        return torch.randn(V, generator=generator).log_softmax(-1)

    def head_log_probs(self, features, n_heads):
        own = torch.stack([self.distribution(head) for head in range(1, n_heads)])
        return own.expand(features.size(0), -1, -1).clone()

    # A state is the path so far, as a row of numbers; -1 where it has not come so far.
    def begin_drafts(self, features):
        return torch.full((features.size(0), 1, 6), -1)

    def extend_drafts(self, states, tokens):
        n = states[0, 0].ge(0).sum()
        return states.clone().index_fill(2, n, 0).index_add(2, n[None], tokens[..., None])

    def draft_log_probs(self, states):
        rows = [
            torch.stack([self.distribution(*(t for t in path if t >= 0)) for path in row])
            for row in states.tolist()
        ]
        return torch.stack(rows)


class BatchOfRows:
    """The part of a batch that trees need; no rule restricts anything."""

    class rules:
        eos, pad = EOS, PAD

    def __init__(self, network, n_rows):
        self.network, self.n_rows = network, n_rows

    def limited(self, log_probs, offsets):
        return log_probs


def all_paths(network, root, n_heads):
    """Every path and its log-probability, best first."""
    found = []
    for length in range(1, n_heads):
        for path in itertools.product(range(V), repeat=length):
            if EOS in path[:-1]:
                continue
            score = 0.0
            for n, token in enumerate(path):
                known = [root, *path[:n]] if network.has_sequential_heads else [n + 1]
                score += network.distribution(*known)[token].item()
            found.append((score, path))
    return [path for _, path in sorted(found, reverse=True)]


def paths_in(tokens, parents):
    """The paths of a tree, without its root and without padding."""
    paths = {0: ()}
    for index in range(1, len(tokens)):
        if tokens[index] != PAD:
            paths[index] = (*paths[parents[index]], tokens[index])
    return set(paths.values()) - {()}


@settings(max_examples=25)
@given(
    seed=st.integers(0, 999), sequential=st.booleans(), n=st.integers(1, 6),
    n_heads=st.integers(2, 4),
)  # fmt: skip
def test_the_most_probable_paths(seed, sequential, n, n_heads):
    network, roots = HeadsOfTables(seed, sequential), torch.tensor([4, 5])
    # Sequential heads that prolong all paths find all of the best ones.
    proposal_trees.MOST_PROLONGED, most = 100, proposal_trees.MOST_PROLONGED
    try:
        block = tree_of(BatchOfRows(network, 2), torch.zeros(2, 1), roots, n_heads, n, 0.0)
    finally:
        proposal_trees.MOST_PROLONGED = most
    rows = zip(roots.tolist(), *(part.tolist() for part in block))
    for root, tokens, parents, depths in rows:
        assert tokens[0] == root and parents[0] == -1 and depths[0] == 0
        assert all(parent < place for place, parent in enumerate(parents))
        assert all(depths[p] == depths[q] + 1 for p, q in enumerate(parents) if q >= 0)
        expected = set(all_paths(network, root, n_heads)[:n])
        assert paths_in(tokens, parents) == expected


def test_improbable_paths_are_not_prolonged():
    network, roots = HeadsOfTables(3, True), torch.tensor([4])
    least = 0.9
    block = tree_of(BatchOfRows(network, 1), torch.zeros(1, 1), roots, 4, 6, least)
    assert network.distribution(4).max().exp() < least
    assert block.depths.max() == 1


def test_one_head_proposes_nothing():
    block = tree_of(BatchOfRows(HeadsOfTables(0, False), 2), None, torch.tensor([4, 5]), 1, 6, 0.0)
    assert block.tokens.tolist() == [[4], [5]] and block.parents.tolist() == [[-1], [-1]]
