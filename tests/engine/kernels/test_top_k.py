"""The best tokens by compiled code; tests/generators/test_top_tokens.py compares the results."""

import numpy as np
import torch

from fairseq_fastdec.engine.kernels.top_k import Beams, Limits, TopK
from tests.support.at_once import at_once
from tests.support.compiled import compiled


def test_without_compiled_code_there_is_none(nothing_compiled):
    assert TopK.of((1,), eos=2, unk=3, penalty=0.0) is None


@compiled
def test_several_threads_share_the_options():
    """While one is in compiled code, the others run Python."""
    top_k = TopK.of((1,), eos=2, unk=3, penalty=0.5)
    rows, beam_rows = (
        torch.randn(shape, generator=torch.Generator().manual_seed(0))
        for shape in ((5, 4000), (8, 3000))
    )
    beams = Beams(np.arange(8), np.array([0, 3, 8]), np.zeros(8, dtype=np.float32))

    def of_rows():
        return top_k(rows, 4, normalize=True, limits=Limits(no_end=np.array([True] * 5)))

    def of_beams():
        found = top_k.for_beams()([beam_rows], 7, 7, normalize=True, beams=beams)
        return map(torch.from_numpy, found)

    alone = [tuple(of_rows()), tuple(of_beams())]
    found = at_once(
        lambda: [of_rows() for _ in range(300)], lambda: [of_beams() for _ in range(300)]
    )
    for results, expected in zip(found, alone):
        for result in results:
            assert all(map(torch.equal, result, expected))
