"""The sources of fairseq's batches: tokens, and frames of speech."""

import pytest
import torch

from fairseq_fastdec.decoding.request import Sources, without_padding

PAD, EOS = 1, 2
FRAMES = torch.randn(2, 5, 3)
MASK = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])


@pytest.mark.parametrize(
    "net_input, lengths",
    [
        (dict(src_tokens=torch.tensor([[PAD, 7, EOS], [6, 7, EOS]])), [2, 3]),
        (dict(src_tokens=FRAMES, src_lengths=torch.tensor([5, 3])), [5, 3]),
        (dict(source=FRAMES[..., 0], padding_mask=MASK), [5, 3]),
        (dict(source=FRAMES[..., 0], padding_mask=None), [5, 5]),
        (dict(features=FRAMES), [5, 5]),
    ],
    ids=["text", "speech", "audio", "audio of one length", "features"],
)
def test_all_that_fairseq_batches_hold(net_input, lengths):
    sources = Sources.of({"net_input": net_input}, PAD)
    assert sources.lengths.tolist() == lengths
    assert (sources.n, sources.width) == tuple(next(iter(net_input.values())).shape[:2])


def test_a_batch_without_sources():
    with pytest.raises(ValueError, match="^net_input: has target; give src_tokens or source or"):
        Sources.of({"net_input": {"target": FRAMES}}, PAD)


def test_padding_that_only_others_need():
    tokens = torch.tensor([[PAD, 7, EOS, PAD], [PAD, 6, EOS, PAD]])
    lengths = torch.tensor([2, 2])
    kept = without_padding(dict(src_tokens=tokens, src_lengths=lengths), PAD)
    assert kept["src_tokens"].tolist() == [[7, EOS], [6, EOS]]
    kept = without_padding(dict(source=FRAMES[1:], padding_mask=MASK[1:]), PAD)
    assert torch.equal(kept["source"], FRAMES[1:, :3]) and kept["padding_mask"].shape == (1, 3)
