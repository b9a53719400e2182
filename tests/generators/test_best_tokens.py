"""The best tokens of p_1 and of the other heads: compiled code's are torch's."""

import argparse

import pytest
import torch

from fairseq_fastdec.engine import EnsembleSession
from fairseq_fastdec.generators.best_tokens import BestTokens
from fairseq_fastdec.generators.constraints import GenerationRules
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.trained_models import TASK, blockwise_model

EOS = TASK.target_dictionary.eos()


def fed(models, **options):
    """A chooser, and features ``[2, 3, C]`` of an ensemble."""
    session = EnsembleSession(models, options.pop("temperature", 1.0))
    rules = GenerationRules.from_args(argparse.Namespace(**options), TASK.target_dictionary, 64)
    session.reset(20)
    session.add(tiny.random_batch(TASK, [4, 6])["net_input"])
    features = session.step(torch.tensor([[EOS, 5, 6], [EOS, 7, 8]]))
    return BestTokens(session, rules), features


@compiled
@pytest.mark.parametrize(
    "options", [{}, dict(unkpen=3.0), dict(temperature=0.5), dict(min_len=3)], ids=str
)
def test_compiled_code_finds_what_torch_finds(options):
    chooser, features = fed([blockwise_model()], **options)
    steps = torch.tensor([[0, 1, 2], [4, 5, 6]])
    for limits in ((), (steps, 5)):
        ours = chooser.of_p1(features, *limits)
        proposals = chooser.of_heads(features[:, 0], 4, *limits)
        compiled_code = chooser.for_p1, chooser.for_proposals
        chooser.for_p1 = chooser.for_proposals = None
        scores, tokens = chooser.of_p1(features, *limits)
        assert torch.equal(ours[1], tokens)
        torch.testing.assert_close(ours[0], scores, atol=1e-5, rtol=1e-5)
        assert torch.equal(proposals, chooser.of_heads(features[:, 0], 4, *limits))
        chooser.for_p1, chooser.for_proposals = compiled_code
    assert tokens[1, 1:].tolist() == [EOS, EOS], "the longest output"


def test_several_models_are_averaged_by_torch():
    chooser, features = fed([blockwise_model(), blockwise_model(seed=1)])
    scores, tokens = chooser.of_p1(features)
    log_probs = chooser._session.log_probs(features)[..., 0, :]
    log_probs[..., TASK.target_dictionary.pad()] = -float("inf")
    assert torch.equal(tokens, log_probs.argmax(dim=-1))
    assert torch.equal(scores, log_probs.max(dim=-1).values)


def test_rules_about_lengths_are_flags():
    chooser, _ = fed([blockwise_model()], min_len=2)
    no_end, only_end = chooser.flags_at(torch.tensor([[0, 1, 2, 3]]), 3, 1)
    assert no_end.tolist() == [[False, True, False, False]]
    assert only_end.tolist() == [[False, False, False, True]]
    assert chooser.flags_at(None, 3, 0) == (None, None)


@compiled
def test_batches_share_the_memory_of_their_blocks_where_it_is_large_enough():
    chooser, _ = fed([blockwise_model()])
    first = chooser.row_blocks(4, 8, 16)
    assert chooser.row_blocks(4, 8, 16) is first and chooser.row_blocks(1, 8, 16) is first
    for larger in ((5, 8, 16), (5, 9, 16), (5, 9, 32)):
        assert (other := chooser.row_blocks(*larger)) is not first
        assert chooser.row_blocks(*larger) is other
        first = other
