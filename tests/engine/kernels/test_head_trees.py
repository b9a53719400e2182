"""Trees of heads in one call: what ranking in torch and growing in Python give."""

import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from fairseq_fastdec.engine.kernels import problems, structures
from fairseq_fastdec.engine.kernels.blocks import RowBlocks
from fairseq_fastdec.engine.kernels.head_trees import HeadTrees
from fairseq_fastdec.engine.kernels.heads import CompiledHeads
from fairseq_fastdec.engine.kernels.loading import library
from fairseq_fastdec.engine.kernels.top_k import TopK
from fairseq_fastdec.engine.products.precision import PRECISIONS
from fairseq_fastdec.generators.single.trees import best_tree
from tests.support.compiled import PRECISIONS as NAMES
from tests.support.compiled import compiled, threads

PAD, EOS, UNK, DIM = 1, 2, 3, 16


class Parts:
    """Heads, an output layer, and rows with states."""

    def __init__(self, precision, n_rows, n_heads, n_types, most_new):
        generator = torch.Generator().manual_seed(n_types + n_heads)
        linear = PRECISIONS[precision].linear

        def random(*shape):
            return torch.randn(*shape, generator=generator)

        packed = [
            linear(random(24, DIM), random(24)).packed,
            linear(random(n_heads * DIM, 24), random(n_heads * DIM)).packed,
        ]
        self.heads = CompiledHeads.of(packed[0], packed[1:], n_heads, gelu=False)
        self.layer = linear(random(n_types, DIM), random(n_types)).packed
        self.top_k = TopK.of((PAD,), EOS, UNK, 0.5)
        self.blocks = blocks_of(n_rows, most_new)
        self.blocks.states[:] = random(n_rows, DIM)

    def trees(self, temperature=1.0):
        return HeadTrees.of(self.heads, self.layer, self.top_k, temperature)


def blocks_of(n_rows, most_new):
    blocks = RowBlocks.of(n_rows, most_new, DIM)
    blocks.write_to(torch.ones(n_rows, 9).long(), torch.zeros(n_rows, 9), EOS, PAD)
    rows = torch.arange(n_rows), torch.zeros(n_rows).long(), torch.zeros(n_rows).bool()
    blocks.bind(*rows)
    blocks.next_tokens[:] = torch.arange(5, 5 + n_rows)
    return blocks


def expected_trees(parts, n_heads, n, temperature, no_end, has_to_end):
    """As torch ranks tokens, and Python grows trees."""
    logits = parts.layer(parts.heads(parts.blocks.states)) / temperature
    log_probs = F.log_softmax(logits, dim=-1)
    log_probs[..., PAD] = -torch.inf
    log_probs[..., UNK] -= 0.5
    log_probs[..., EOS].masked_fill_(no_end, -torch.inf)
    ends = log_probs[..., EOS].clone()
    log_probs[has_to_end] = -torch.inf
    log_probs[..., EOS] = ends
    scores, tokens = log_probs.topk(min(n, logits.size(-1)), dim=-1)
    rows = zip(parts.blocks.next_tokens.tolist(), scores.tolist(), tokens.tolist())
    trees = [best_tree(root, own, ranked, n, EOS) for root, own, ranked in rows]
    longest = max(len(tree.tokens) for tree in trees)
    return [tree.padded(longest, PAD) for tree in trees]


@compiled
@pytest.mark.parametrize("precision", NAMES)
@settings(max_examples=25, deadline=None)
@given(
    n_rows=st.integers(1, 4), n_heads=st.integers(1, 4), n_types=st.sampled_from([5, 40, 300]),
    sizes=st.lists(st.integers(1, 15), min_size=1, max_size=3),
    temperature=st.sampled_from([1.0, 1.7]), n_threads=st.integers(1, 2), draw=st.randoms(),
)  # fmt: skip
def test_trees_are_those_of_torch_and_python(
    precision, n_rows, n_heads, n_types, sizes, temperature, n_threads, draw
):
    parts = Parts(precision, n_rows, n_heads, n_types, most_new=16)
    trees = parts.trees(temperature)
    for n in sizes:
        no_end, has_to_end = torch.tensor(
            [[[draw.random() < 0.2 for _ in range(n_heads)] for _ in range(n_rows)] for _ in "12"]
        ).unbind()
        no_end &= ~has_to_end
        with threads(n_threads):
            parts.blocks.grow_by(trees, n, no_end.contiguous(), has_to_end.contiguous())
        expected = expected_trees(parts, n_heads, n, temperature, no_end, has_to_end)
        blocks, size = parts.blocks, parts.blocks.n_new
        tokens, parents, depths, scores = (
            part[: n_rows * size].view(n_rows, size)
            for part in (blocks.tokens, blocks.parents, blocks.depths, blocks.path_scores)
        )
        assert tokens.tolist() == [tree.tokens for tree in expected]
        assert parents.tolist() == [tree.parents for tree in expected]
        assert depths.tolist() == [tree.depths for tree in expected]
        theirs = torch.tensor([tree.path_scores for tree in expected])
        torch.testing.assert_close(scores, theirs, atol=1e-4, rtol=1e-4)


@compiled
def test_numbers_that_do_not_fit_are_refused():
    parts = Parts("model", 2, 3, 40, most_new=4)
    trees = parts.trees()
    with pytest.raises(ValueError, match="4 proposals in blocks of 4"):
        parts.blocks.grow_by(trees, 4)
    with pytest.raises(ValueError, match="no_end"):
        parts.blocks.grow_by(trees, 3, torch.zeros(5, dtype=torch.bool))
    parts.blocks.grow_by(trees, 3)
    for part, name in ((0, "n"), (1, "n"), (1, "x"), (1, "y"), (2, "n_types")):
        before = getattr(trees._parts[part], name)
        setattr(trees._parts[part], name, before + 1)
        with pytest.raises(ValueError, match="sizes that do not fit"):
            parts.blocks.grow_by(trees, 3)
        setattr(trees._parts[part], name, before)
    parts.blocks.grow_by(trees, 3)


@compiled
def test_parts_that_nobody_filled_in_are_refused():
    with pytest.raises(ValueError, match="sizes"):
        problems.check(-library().grow_head_trees(ctypes.byref(structures.HeadTrees())))
    kinds = (structures.Heads, structures.Product, structures.TopK, structures.Trees)
    parts = [kind() for kind in kinds]
    task = structures.HeadTrees(*map(ctypes.addressof, parts), temperature=1.0)
    with pytest.raises(ValueError, match="sizes"):
        problems.check(-library().grow_head_trees(ctypes.byref(task)))


def test_without_compiled_code_there_are_none(nothing_compiled):
    assert HeadTrees.of(None, None, None, 1.0) is None
