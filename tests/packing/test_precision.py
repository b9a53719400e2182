"""Decoding in each precision, against fairseq's own log-probabilities."""

import pytest
import torch

from fairseq_fastdec.packing.precision import PRECISIONS, norm_of
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.engine_scores import LENGTHS, forced_tokens, scores_of
from tests.support.full_forward import ARCHITECTURES

TASK = tiny.task(40)
TOLERANCE = {"model": 1e-4, "fp32": 1e-4, "bf16": 0.15, "int8": 0.3}


def true_scores(model):
    """The log-probabilities of the tokens that :func:`scores_of` forces."""
    net_input = tiny.random_batch(TASK, LENGTHS)["net_input"]
    forced = forced_tokens(TASK)
    start = torch.full((3, 1), TASK.target_dictionary.eos())
    fed = torch.cat([start, forced[:, :-1]], dim=1)
    logits = model(net_input["src_tokens"], net_input["src_lengths"], fed)[0]
    return logits.log_softmax(dim=-1).gather(-1, forced[..., None]).squeeze(-1)


@compiled
@torch.no_grad()
@pytest.mark.parametrize("precision", sorted(PRECISIONS))
@pytest.mark.parametrize("overrides", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_scores_are_those_of_the_full_forward_pass(overrides, precision):
    model = tiny.stir(tiny.build_model(TASK, **overrides))
    found, expected = scores_of(model, TASK, precision), true_scores(model)
    difference = (found - expected).abs().max()
    assert difference < TOLERANCE[precision]
    if precision in ("bf16", "int8"):
        assert difference > 1e-4


def test_no_norm_stays_none():
    assert norm_of(None) is None
