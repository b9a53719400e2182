"""A step of the network is one graph, which is captured once: the condition for CUDA graphs."""

import pytest
import torch

from fairseq_fastdec.network.caches import RowCache
from tests.support import tiny
from tests.support.to_read import method_to_read
from tests.support.trained_models import TASK

METHODS = {"greedy": 1, "blockwise": 1, "jacobi": 1, "beam": 3, "streaming": 3}


@pytest.mark.parametrize("decoding, beam", METHODS.items())
def test_a_step_is_captured_whole_and_once(decoding, beam, monkeypatch):
    torch._dynamo.reset()
    arch, heads = "transformer", {}
    if decoding == "blockwise":
        arch, heads = "blockwise_transformer", dict(block_size=3)
    model = tiny.stir(tiny.build_model(TASK, arch, decoder_layers=1, **heads))
    generator = method_to_read([model], decoding, task=TASK, beam=beam, max_len_b=12)
    shapes = [[6, 3, 5, 4], [7, 2], [6, 3, 5, 4], [5, 4, 3]]
    samples = [tiny.random_batch(TASK, shape, seed=seed) for seed, shape in enumerate(shapes)]
    expected = [generator.generate([model], sample) for sample in samples]
    graphs = []

    def capture(graph, inputs):
        graphs.append(graph)
        return graph.forward

    (network,) = generator.network.members
    # fullgraph=True raises an error for a step that reads a tensor, or cannot be captured.
    network.forward = torch.compile(network.forward, fullgraph=True, backend=capture)
    as_on_a_gpu = property(lambda cache: True, lambda cache, _: None)
    monkeypatch.setattr(RowCache, "reads_all", as_on_a_gpu, raising=False)
    found, n_graphs = [], []
    for sample in samples:
        found.append(generator.generate([model], sample))
        n_graphs.append(len(graphs))
    assert tokens_of(found) == tokens_of(expected)
    # Sizes that change are captured as variables, so later batches need no more graphs.
    assert 0 < n_graphs[1] == n_graphs[3] < 9


def tokens_of(batches):
    return [[one["tokens"].tolist() for one in own] for batch in batches for own in batch]
