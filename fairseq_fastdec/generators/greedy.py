"""Greedy decoding: the reference rule on the engine, and the tokens of fairseq's ``--beam 1``."""

from typing import Optional

from torch import Tensor

from .base import Generator
from .batch import Batch


class GreedyGenerator(Generator):
    """One token a step (Stern et al. 2018, section 2)."""

    name = "greedy"

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        features = batch.start(bos, prefix)
        while batch.n_rows:
            scores, tokens = batch.log_probs(features).max(dim=-1)
            batch.append(tokens[:, None], scores[:, None], 1)
            order = batch.leave()
            if order is not None:
                tokens = tokens[order]
            if batch.n_rows:
                features = [member[:, 0] for member in batch.feed(tokens[:, None])]
                batch.session.commit(1)
