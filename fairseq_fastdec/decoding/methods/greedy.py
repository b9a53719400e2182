"""Greedy decoding: the most probable token in each step (Stern et al. 2018, section 2)."""

import torch
from torch import Tensor

from ...engine.searches import SearchOptions
from ...translating.generation_options import LM_FLAGS
from .generator import SingleHypothesisMethod
from .guesses import Guesses
from .lookahead import decode_in_windows
from .outputs import OutputBatch


class Greedy(SingleHypothesisMethod):
    """The same output as fairseq's ``--beam 1`` and all lossless methods."""

    accepts_blocks = False
    verifies_drafts = True
    honours = SingleHypothesisMethod.honours | LM_FLAGS

    def search_options(self) -> SearchOptions:
        return SearchOptions("blocks", {})

    def decode(self, batch: OutputBatch, last: Tensor) -> None:
        if batch.request.drafts is None:
            decode_greedily(batch, last)
        else:
            decode_in_windows(batch, last, 1, Guesses(), self.given_drafts)


def decode_greedily(batch: OutputBatch, last: Tensor) -> None:
    """Extend each row by its most probable token until it ends.

    Args:
        last: int64 ``[R]``, the first token to feed to each row.
    """
    while batch.n_rows:
        # p(y_{j+1} | y_1 ... y_j, x): [R, 1, V]
        log_probs = batch.log_probs(batch.step(last[:, None]), first=0)
        # y_{j+1} = argmax p: [R, 1]
        scores, tokens = log_probs.max(dim=-1)
        one = torch.ones_like(last)
        batch.observe(0, tokens[:, :0], tokens, scores, settled=one)
        batch.keep(tokens, scores, one)
        # Remove rows that have ended with EOS.
        (last,) = batch.without_finished(tokens.squeeze(1))
