"""Alignments need a model that attends; checkpoints/test_translator.py compares with fairseq's."""

import pytest
import torch

from fairseq_fastdec.decoding.alignments import hard_alignments
from tests.support import tiny
from tests.support.trained_models import TASK

PAD, EOS = 1, 2


def test_each_target_subword_has_a_source_subword():
    sources = torch.tensor([[4, 5, 6, EOS], [PAD, 7, 4, EOS]])
    hypotheses = [torch.tensor([9, 8, EOS]), torch.tensor([5, EOS])]
    model = tiny.build_model(TASK)
    model.eval()
    found = hard_alignments([model], sources, torch.tensor([4, 3]), hypotheses, PAD, EOS)
    assert [[target for _, target in pairs] for pairs in found] == [[0, 1], [0]]
    assert all(source < 3 for source, _ in found[0]) and found[1][0][0] < 2
    # Padding and the other sentence change nothing.
    (alone,) = hard_alignments(
        [model], sources[1:, 1:], torch.tensor([3]), hypotheses[1:], PAD, EOS
    )
    assert alone == found[1]


@pytest.mark.parametrize("extra", [{}, {"attn": [None]}, {"attn": []}, None])
def test_a_model_without_attention(extra):
    model = torch.nn.Identity()
    model.forward = lambda *inputs: (None, extra)
    tokens = torch.tensor([[4, EOS]])
    with pytest.raises(ValueError, match="^alignment True: the model does not return attention"):
        hard_alignments([model], tokens, torch.tensor([2]), [tokens[0]], PAD, EOS)
