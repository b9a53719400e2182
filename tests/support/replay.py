"""A session that is fed given sentences in any steps, and compared with the full forward pass."""

import torch
from hypothesis import strategies as st

from fairseq_fastdec.engine import DecoderSession
from tests.support import tiny
from tests.support.full_forward import full_logits, random_targets


class Replay:
    """Feeds given sentences to a session in arbitrary steps and compares what comes out.

    ``sentence`` and ``lengths`` are those of the rows that are not paused.
    """

    def __init__(self, model, task, tolerance):
        self.session, self.model, self.task = DecoderSession(model), model, task
        self.tolerance = tolerance
        self.session.reset(64)
        self.tokens = torch.empty(0, 20, dtype=torch.long)
        self.expected = torch.empty(0)
        self.sentence = torch.empty(0, dtype=torch.long)
        self.lengths = torch.empty(0, dtype=torch.long)
        self.paused = (self.sentence, self.lengths)

    def add(self, lengths, left_pad, seed):
        batch = tiny.random_batch(self.task, lengths, left_pad, seed)
        tokens = random_targets(self.task, len(lengths), 20, seed)
        expected = full_logits(self.model, batch, tokens)
        first = self.tokens.size(0)
        self.tokens = torch.cat([self.tokens, tokens])
        self.expected = expected if first == 0 else torch.cat([self.expected, expected])
        self.session.add(batch["net_input"])
        new = torch.arange(first, first + len(lengths))
        self.sentence = torch.cat([self.sentence, new])
        self.lengths = torch.cat([self.lengths, torch.zeros_like(new)])

    def step(self, n_new, kept):
        """Feed ``n_new`` tokens and keep ``kept[r]`` of them, as far as the sentences go."""
        positions = self.lengths[:, None] + torch.arange(n_new)
        real = positions < self.tokens.size(1)
        positions = positions.clamp(max=self.tokens.size(1) - 1)
        fed = self.tokens[self.sentence].gather(1, positions)
        logits = self.session.project(self.session.step(fed))[..., 0, :]
        error = (logits - self.expected[self.sentence[:, None], positions]).abs().amax(-1)
        assert error[real].max().item() < self.tolerance if real.any() else True
        kept = torch.minimum(kept, real.sum(1))
        self.session.commit(kept)
        self.lengths = self.lengths + kept

    def select(self, rows):
        self.session.select(rows)
        self.sentence, self.lengths = self.sentence[rows], self.lengths[rows]

    def pause(self, n):
        sentence = torch.cat([self.paused[0], self.sentence])
        lengths = torch.cat([self.paused[1], self.lengths])
        n = min(n, sentence.numel())
        self.session.pause(n)
        self.paused = (sentence[:n], lengths[:n])
        self.sentence, self.lengths = sentence[n:], lengths[n:]
        assert self.session.n_rows == self.sentence.numel()


def fuzz(model, task, draw, tolerance, n_operations=12, unit=1):
    """Random sentences, steps, partly kept tokens, row selections, pauses and refills.

    Tokens are fed and kept in multiples of ``unit``.
    """
    replay = Replay(model, task, tolerance)
    for seed in range(n_operations):
        n_rows = replay.sentence.numel()
        actions = ["step"] * 4 + ["select", "add", "pause"]
        action = "add" if n_rows == 0 else draw(st.sampled_from(actions))
        if action == "add" and n_rows < 8:
            lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
            replay.add(lengths, draw(st.booleans()), seed)
        elif action == "pause":
            replay.pause(draw(st.integers(0, 6)))
        elif action == "select":
            rows = draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=8))
            replay.select(torch.tensor(rows))
        else:
            n_new = draw(st.integers(1, 4))
            uniform = draw(st.booleans())
            counts = st.integers(0, n_new)
            kept = [draw(counts)] * n_rows if uniform else [draw(counts) for _ in range(n_rows)]
            replay.step(unit * n_new, unit * torch.tensor(kept))
