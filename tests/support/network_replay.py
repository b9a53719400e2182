"""Feeds sentences to a network in arbitrary steps, and compares with the full forward pass."""

import torch
from hypothesis import strategies as st

from tests.support import tiny

LENGTH = 16


class NetworkReplay:
    """Feeds sentences of :data:`LENGTH` tokens to a network, and checks its scores.

    Attributes:
        sentence, lengths: of each row, int64 ``[R]``.
    """

    def __init__(self, network, task, expected, tolerance):
        """
        Args:
            expected: computes scores ``[B, T, V]`` of a batch and its tokens ``[B, T]`` by a
                forward pass without incremental state.
        """
        self.network, self.task = network, task
        self.expected_of, self.tolerance = expected, tolerance
        self.tokens = torch.empty(0, LENGTH, dtype=torch.long)
        self.sentence = self.lengths = torch.empty(0, dtype=torch.long)
        self.expected = None
        network.reset()

    def encode(self, lengths, left_pad, seed):
        batch = tiny.random_batch(self.task, lengths, left_pad, seed)
        words = self.task.target_dictionary
        generator = torch.Generator().manual_seed(seed)
        shape = (len(lengths), LENGTH)
        tokens = torch.randint(words.nspecial, len(words), shape, generator=generator)
        expected = self.expected_of(batch, tokens)
        self.expected = expected if self.expected is None else torch.cat([self.expected, expected])
        new = self.tokens.size(0) + torch.arange(len(lengths))
        self.tokens = torch.cat([self.tokens, tokens])
        self.sentence = torch.cat([self.sentence, new])
        self.lengths = torch.cat([self.lengths, torch.zeros_like(new)])
        self.network.encode(batch["net_input"])
        assert self.network.n_rows == self.sentence.numel()

    def step(self, rows, n_new, kept):
        """Feed ``n_new`` tokens to some rows, and keep ``kept[r]``, up to the end of sentences."""
        places = self.lengths[rows][:, None] + torch.arange(n_new)
        is_real = places < LENGTH
        places = places.clamp(max=LENGTH - 1)
        tokens = self.tokens[self.sentence[rows]].gather(1, places)
        features = self.network.step(tokens, rows=rows)
        scores = self.network.scores(features)
        expected = self.expected[self.sentence[rows][:, None], places]
        error = (scores.clamp(min=-1e4) - expected.clamp(min=-1e4)).abs().amax(-1)
        assert not is_real.any() or error[is_real].max().item() < self.tolerance
        kept = torch.minimum(kept, is_real.sum(1))
        self.network.keep(kept)
        self.lengths[rows] += kept

    def tighten(self):
        self.network.tighten(int(self.lengths.max()))

    def select(self, rows):
        numbers = rows.tolist()
        # Both ways for rows that are not repeated.
        is_tensor = len(set(numbers)) == len(numbers) and len(numbers) % 2 == 0
        self.network.select(rows if is_tensor else numbers)
        self.sentence, self.lengths = self.sentence[rows], self.lengths[rows]
        assert self.network.n_rows == rows.numel()


def fuzz_network(replay, draw, unit=1, n_actions=10):
    """Add and remove sentences at random, feed tokens to some of them, and keep some tokens.

    Tokens are fed and kept in multiples of ``unit``.
    """
    for seed in range(n_actions):
        n_rows = replay.sentence.numel()
        action = draw(st.sampled_from(["step"] * 4 + ["select", "encode"])) if n_rows else "encode"
        if action == "encode" and n_rows < 8:
            lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
            replay.encode(lengths, draw(st.booleans()), seed)
        elif action == "select":
            rows = draw(st.lists(st.integers(0, n_rows - 1), max_size=8))
            replay.select(torch.tensor(rows, dtype=torch.long))
        else:
            first = draw(st.just(0) | st.integers(0, n_rows - 1))
            last = draw(st.just(n_rows) | st.integers(first + 1, n_rows))
            n_new = draw(st.integers(1, 3))
            kept = [draw(st.integers(0, n_new)) for _ in range(first, last)]
            replay.step(slice(first, last), unit * n_new, unit * torch.tensor(kept))
            if draw(st.booleans()):
                replay.tighten()
