"""Rows are fed their last tokens, and get the scores of the next ones."""

from typing import Dict, Optional, Tuple

import torch

from ...engine import EnsembleSession, Scores, at
from ...engine.kernels.kept_product import KeptProduct
from ...engine.kernels.packed import Packed
from ...engine.session.direct_steps import DirectSteps
from .focus import Focus


class Expansion:
    """Takes the steps of one session.

    Where one compiled model computes all logits as they are, there is no tensor between the tokens
    and the logits: their memory is kept.
    """

    def __init__(self, session: EnsembleSession, device: torch.device) -> None:
        self._session = session
        self._device = device
        self._direct: Optional[Tuple[DirectSteps, KeptProduct]] = None
        self._layer: Optional[Packed] = None
        self._most = 0

    def renew(self) -> None:
        """Note that the session has other sources, or other weights."""
        direct = self._session.direct() if self._session.temperature == 1.0 else None
        output = None if direct is None else direct.output(0, 1)
        if direct is None or output is None or output.heads is not None or output.types is not None:
            self._direct = None
            return
        if output.layer is not self._layer or self._direct is None:
            self._layer, self._most = output.layer, 0
            self._direct = direct, KeptProduct(output.layer)
        else:
            self._direct = direct, self._direct[1]

    def step(self, focus: Focus) -> Scores:
        """Feed the rows in focus their tokens, which stay."""
        if self._direct is None:
            features = self._session.step(focus.tokens_on(self._device))
            self._session.commit(1)
            return self._session.scores_of_members(at(features, 0))
        steps, product = self._direct
        n_rows = focus.n_rows
        if n_rows > self._most:
            self._reserve(n_rows, steps.dim)
        features = self._features.data_ptr()
        steps.step(focus.address_of_tokens, 1, features)
        self._session.commit(1)
        product.compute_at(features, n_rows, self._logits.data_ptr())
        if n_rows not in self._scores:
            self._scores[n_rows] = Scores([self._logits[:n_rows]], normalized=False)
        return self._scores[n_rows]

    def _reserve(self, n_rows: int, dim: int) -> None:
        self._most = max(n_rows, 2 * self._most)
        self._features = torch.empty(self._most, dim)
        self._logits = torch.empty(self._most, self._layer.structure.outputs)
        self._scores: Dict[int, Scores] = {}
