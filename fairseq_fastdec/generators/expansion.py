"""Rows are fed tokens, which stay, and get the scores of what comes next."""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor

from ..engine import EnsembleSession, Scores
from ..engine.kernels.kept_product import KeptProduct
from ..engine.kernels.packed import Packed
from ..engine.session.direct_steps import DirectSteps


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

    def step(self, tokens: Tensor) -> Scores:
        """Feed the rows their tokens, int64 ``[R, T]`` on the host.

        Returns:
            the scores after each token, ``[R * T, V]``; see :class:`Scores` for how long
        """
        n_new = tokens.size(1)
        if self._direct is None:
            features = self._session.step(tokens.to(self._device))
            self._session.commit(n_new)
            return self._session.scores_of_members(features.flattened())
        steps, product = self._direct
        n = tokens.numel()
        if n > self._most:
            self._reserve(n, steps.dim)
        features = self._features.data_ptr()
        steps.step(tokens.data_ptr(), n_new, features)
        self._session.commit(n_new)
        product.compute_at(features, n, self._logits.data_ptr())
        if n not in self._scores:
            self._scores[n] = Scores([self._logits[:n]], normalized=False)
        return self._scores[n]

    def _reserve(self, n: int, dim: int) -> None:
        assert self._layer is not None
        self._most = max(n, 2 * self._most)
        self._features = torch.empty(self._most, dim)
        self._logits = torch.empty(self._most, self._layer.structure.outputs)
        self._scores: Dict[int, Scores] = {}
