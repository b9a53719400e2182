"""The sentences that a beam search is given, and the results that it gives back."""

from typing import Any, Dict, List, NamedTuple

import numpy as np
import torch
from torch import Tensor


class Sentences(NamedTuple):
    """Sentences to decode, ``[B]``.

    ``numbers`` name them in the results; ``max_len``, ``n_forced`` and ``n_waived`` are int64
    ``[B]``, on the host: how long each may become (without EOS), how many tokens of its ``prefix``
    ``[B, P]`` are forced, and for how many steps --min-len is waived.
    """

    numbers: List[int]
    net_input: Dict[str, Tensor]
    max_len: np.ndarray
    n_forced: np.ndarray
    n_waived: np.ndarray
    prefix: Tensor

    def take(self, wanted: List[int], pad: int) -> "Sentences":
        """Some of them, in the order of ``wanted``, without padding that only others need."""
        if wanted == self.numbers:
            return self
        index = torch.tensor(wanted, device=self.prefix.device)
        net_input = {name: value[index] for name, value in self.net_input.items()}
        source = net_input["src_tokens"]
        net_input["src_tokens"] = source[:, source.ne(pad).any(dim=0)]
        limits = (limit[wanted] for limit in (self.max_len, self.n_forced, self.n_waived))
        return Sentences(wanted, net_input, *limits, self.prefix[index])


class Result(NamedTuple):
    """A sentence that is done: its hypotheses, best first, and what they cost."""

    number: int
    hypotheses: List[Dict[str, Any]]
    steps: int
    expansions: int
