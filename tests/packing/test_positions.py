"""The embeddings of positions."""

import pytest
import torch

from fairseq_fastdec.packing.positions import positions_of
from tests.support import tiny
from tests.support.trained_models import TASK


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sinusoids_are_those_of_the_model(dtype):
    decoder = tiny.build_model(TASK, dtype=dtype).decoder
    embedding, first = decoder.embed_positions, decoder.padding_idx + 1
    known = len(embedding.weights)
    like = decoder.embed_tokens.weight
    # The first are not computed again, and those after the model's last position are.
    embedding.weights[first + 1] = 7
    kept = positions_of(decoder, known - first, like)
    assert kept.dtype == dtype and torch.equal(kept, embedding.weights[first:].to(dtype))
    more = positions_of(decoder, known, like)
    computed = embedding.get_embedding(known + first, embedding.embedding_dim, first - 1)
    assert torch.equal(more, computed[first:].to(dtype))
