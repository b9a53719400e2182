"""Logits in other precisions than the model's, and how near they have to be."""

import torch

# Of the logits' standard deviation: 8 bits of mantissa, or 7 bits, through all layers.
TOLERANCE = {"model": 1e-5, "fp32": 1e-5, "bf16": 0.1, "int8": 0.15}


def logits_of(session, batch, tokens, step):
    session.reset(tokens.size(1))
    session.add(batch["net_input"])
    parts = []
    for start in range(0, tokens.size(1), step):
        features = session.step(tokens[:, start : start + step])
        parts.append(session.project(features)[..., 0, :])
        session.commit(min(step, tokens.size(1) - start))
    return torch.cat(parts, dim=1)
