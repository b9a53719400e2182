"""Greedy decoding: the most probable token, one at a time (Stern et al. 2018, section 2)."""

import torch
from torch import Tensor

from .generator import SingleHypothesisMethod
from .outputs import OutputBatch


class Greedy(SingleHypothesisMethod):
    """The output of fairseq's ``--beam 1``, and of every lossless method."""

    accepts_blocks = False

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        while batch.n_rows:
            # p(y_{j+1} | y_1 ... y_j, x): [R, 1, V]
            log_probs = batch.log_probs(batch.step(last[:, None]), first=0)
            # y_{j+1} is its maximum: [R, 1]
            scores, tokens = log_probs.max(dim=-1)
            one = torch.ones_like(last)
            batch.observe(0, tokens[:, :0], tokens, scores, settled=one)
            batch.keep(tokens, scores, one)
            # Outputs end with EOS.
            (last,) = batch.without_finished(tokens.squeeze(1))
