"""Tiny speech models and batches."""

import torch

from tests.support import tiny
from tests.support.trained_models import TASK

ARCHITECTURES = {
    "s2t_transformer_xs": dict(conv_channels=16, conv_kernel_sizes="3,3"),
    "s2t_conformer": dict(conv_channels=16, conv_kernel_sizes="3", fp16=False),
    "convtransformer": dict(conv_out_channels=8),
}


def random_model(arch, seed=1):
    """A random model, whose outputs rarely end early."""
    options = dict(ARCHITECTURES[arch], input_feat_per_channel=8, input_channels=1)
    return tiny.stir(tiny.build_model(TASK, arch, **options), seed, scale=1.0)


def random_batch(lengths=(33, 30, 17, 9)):
    """A batch of noise frames with these lengths, longest first."""
    draw = torch.Generator().manual_seed(0)
    frames = torch.randn(len(lengths), max(lengths), 8, generator=draw)
    n_frames = torch.tensor(lengths)
    frames[torch.arange(max(lengths)) >= n_frames[:, None]] = 0
    net_input = dict(src_tokens=frames, src_lengths=n_frames, prev_output_tokens=None)
    return {"id": torch.arange(len(lengths)), "net_input": net_input}
