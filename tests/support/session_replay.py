"""Sessions that run fairseq's decoders: any split gives what the plain full forward gives."""

import pytest
import torch
from fairseq.models.transformer import TransformerDecoderBase
from hypothesis import strategies as st

from fairseq_fastdec.engine import TokenTree
from tests.support import tiny

TASK = tiny.task(20)
LENGTH = 12


def sorted_by_length(batch):
    order = batch["net_input"]["src_lengths"].argsort(descending=True, stable=True)
    return {name: value[order] for name, value in batch["net_input"].items()}, order.argsort()


def full_log_probs(model, batch, tokens, temperature=1.0):
    """The reference ``[B, T, V]``, by the model's own decoder without any incremental state."""
    net_input, back = sorted_by_length(batch)
    with torch.no_grad():
        encoded = model.encoder.forward_torchscript(net_input)
        scores, *extra = model.decoder(tokens[back.argsort()], encoder_out=encoded)
        net_output = (scores / temperature, *extra)
        return model.get_normalized_probs(net_output, log_probs=True)[back]


class Replay:
    """Feeds given sentences in arbitrary steps, and compares what comes out."""

    def __init__(self, session_class, model, temperature=1.0):
        self.model, self.temperature = model, temperature
        self.session = session_class(model, temperature)
        self.session.reset(LENGTH)
        # fairseq's attention computes its softmax in fp32 even in fp64 models.
        self.tolerance = 1e-5 if isinstance(model.decoder, TransformerDecoderBase) else 1e-9
        self.tokens = torch.empty(0, LENGTH, dtype=torch.long)
        self.expected = None
        self.sentence = torch.empty(0, dtype=torch.long)
        self.lengths = torch.empty(0, dtype=torch.long)
        self.resting = self.sentence, self.lengths

    def add(self, lengths, left_pad, seed):
        batch = tiny.random_batch(TASK, lengths, left_pad, seed)
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(4, 24, (len(lengths), LENGTH), generator=generator)
        expected = full_log_probs(self.model, batch, tokens, self.temperature)
        self.expected = expected if self.expected is None else torch.cat([self.expected, expected])
        new = torch.arange(self.tokens.size(0), self.tokens.size(0) + len(lengths))
        self.tokens = torch.cat([self.tokens, tokens])
        self.session.add(batch["net_input"])
        self.sentence = torch.cat([self.sentence, new])
        self.lengths = torch.cat([self.lengths, torch.zeros_like(new)])
        assert self.session.n_rows == self.sentence.numel()

    def step(self, n_new, kept, rejected=0):
        """Feed ``n_new`` tokens and keep ``kept[r]``, as far as the sentences go.

        Some others may be fed before, without a commit: they must leave no trace.
        """
        if rejected:
            self.session.step(torch.full((self.session.n_rows, rejected), 7))
        positions = self.lengths[:, None] + torch.arange(n_new)
        real = positions < LENGTH
        positions = positions.clamp(max=LENGTH - 1)
        fed = self.tokens[self.sentence].gather(1, positions)
        log_probs = self.session.project(self.session.step(fed))[..., 0, :]
        expected = self.expected[self.sentence[:, None], positions]
        error = (log_probs.clamp(min=-1e4) - expected.clamp(min=-1e4)).abs().amax(-1)
        assert not real.any() or error[real].max().item() < self.tolerance
        kept = torch.minimum(kept, real.sum(1))
        self.session.commit(kept)
        self.lengths = self.lengths + kept

    def pause(self, n_rows):
        """The first rows rest: nothing else knows of them until the next pause."""
        sentence = torch.cat([self.resting[0], self.sentence])
        lengths = torch.cat([self.resting[1], self.lengths])
        self.session.pause(n_rows)
        self.resting = sentence[:n_rows], lengths[:n_rows]
        self.sentence, self.lengths = sentence[n_rows:], lengths[n_rows:]
        assert self.session.n_rows == self.sentence.numel()

    def select(self, rows):
        rows = torch.as_tensor(rows)
        self.session.select(rows)
        self.sentence, self.lengths = self.sentence[rows], self.lengths[rows]
        assert self.session.n_rows == rows.numel()


def fuzz(session_class, model, draw):
    """Any steps, in any order, of a session that runs fairseq's decoder."""
    replay = Replay(session_class, model, draw(st.sampled_from([1.0, 0.5, 2.0])))
    for seed in range(10):
        n_rows = replay.sentence.numel()
        actions = ["step"] * 4 + ["select", "add", "pause"]
        action = "add" if n_rows == 0 else draw(st.sampled_from(actions))
        if action == "add" and n_rows < 8:
            lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
            replay.add(lengths, draw(st.booleans()), seed)
        elif action == "pause":
            replay.pause(draw(st.integers(0, n_rows + replay.resting[0].numel())))
        elif action == "select":
            replay.select(draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=8)))
        else:
            n_new = draw(st.integers(1, 3))
            kept = [draw(st.integers(0, n_new)) for _ in range(n_rows)]
            replay.step(n_new, torch.tensor(kept), draw(st.integers(0, 2)))


def check_no_rows(session):
    """A session without rows, before it had any and after all are paused."""
    for _ in range(2):
        assert session.n_rows == 0
        with pytest.raises(RuntimeError, match="no rows for a step; call reset and add first"):
            session.step(torch.zeros(0, 1, dtype=torch.long))
        session.commit(1)
        session.select(torch.zeros(0, dtype=torch.long))
        session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [3, 5])["net_input"])
    with pytest.raises(ValueError, match=r"pause\(3\): the session has 2 rows"):
        session.pause(3)
    session.pause(2)
    with pytest.raises(RuntimeError, match="no rows for a step"):
        session.step(torch.zeros(0, 1, dtype=torch.long))


def check_trees_are_refused(session):
    """Neither fed nor committed."""
    session.reset(LENGTH)
    session.add(tiny.random_batch(TASK, [4])["net_input"])
    with pytest.raises(ValueError, match="trees of tokens: .* cannot feed them"):
        session.step(torch.tensor([[5, 6]]), TokenTree(torch.tensor([[-1, -1]])))
    session.step(torch.tensor([[5, 6]]))
    with pytest.raises(ValueError, match="trees of tokens: .* cannot feed them"):
        session.commit(1, torch.tensor([[1]]))
