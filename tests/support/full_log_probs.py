"""Log-probabilities of fairseq's decoders, without incremental state."""

import torch

from tests.support import tiny

TASK = tiny.task(20)
LENGTH = 12


def sorted_by_length(batch):
    order = batch["net_input"]["src_lengths"].argsort(descending=True, stable=True)
    return {name: value[order] for name, value in batch["net_input"].items()}, order.argsort()


def full_log_probs(model, batch, tokens, temperature=1.0):
    """Reference log-probabilities ``[B, T, V]`` of the model, without incremental state."""
    net_input, back = sorted_by_length(batch)
    with torch.no_grad():
        encoded = model.encoder.forward_torchscript(net_input)
        scores, *extra = model.decoder(tokens[back.argsort()], encoder_out=encoded)
        net_output = (scores / temperature, *extra)
        return model.get_normalized_probs(net_output, log_probs=True)[back]
