"""Several models as one: the mean of their probabilities, and which types have any."""

import math

import numpy as np
import pytest
import torch
from fairseq.models.transformer import TransformerModel

from fairseq_fastdec.network import Ensemble
from fairseq_fastdec.packing.heads import heads_agree
from tests.support import tiny
from tests.support.full_forward import full_logits, random_targets
from tests.support.full_log_probs import full_log_probs
from tests.support.language_models import KINDS, random_model
from tests.support.trained_models import DOUBLE_TASKS, TASK

BATCH, TOKENS = tiny.random_batch(TASK, [6, 5, 2]), random_targets(TASK, 3, 5)
V = len(TASK.target_dictionary)


def stirred(seed, arch="transformer", **options):
    options = {"criterion": "cross_entropy", **options}
    return tiny.stir(tiny.build_model(TASK, arch, seed=seed, **options), seed)


def blockwise(seed=0, **options):
    return stirred(seed, "blockwise_transformer", identity_first_head=True, **options)


def stepped(models, **options):
    ensemble = Ensemble(models, **options)
    ensemble.encode(BATCH["net_input"])
    return ensemble, ensemble.step(TOKENS)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_mean_of_probabilities(temperature):
    models = [stirred(0), stirred(1, decoder_embed_dim=24), stirred(2, "lstm")]
    ensemble, features = stepped(models, temperature=temperature)
    own = [full_log_probs(model, BATCH, TOKENS, temperature).exp() for model in models]
    expected = torch.stack(own).mean(0).log()
    log_probs = ensemble.log_probs(features)
    assert log_probs.dtype == torch.float32
    torch.testing.assert_close(log_probs, expected, atol=1e-4, rtol=0)


def test_the_probabilities_of_half_a_models_precision_are_fp32():
    ensemble, features = stepped([stirred(0).half()])
    assert ensemble.log_probs(features).dtype == torch.float32


@pytest.mark.parametrize("archs", [["transformer"], ["transformer", "lstm"]], ids=len)
def test_a_shortlist(archs):
    models = [stirred(seed, arch) for seed, arch in enumerate(archs)]
    own_types = [[2, 5, 11], [2, 3], [2, 4, 5, 6]]
    ensemble = Ensemble(models)
    ensemble.encode(BATCH["net_input"], [np.array(own) for own in own_types])
    probabilities = ensemble.log_probs(ensemble.step(TOKENS)).exp()
    full = [full_log_probs(model, BATCH, TOKENS) for model in models]
    for row, types in enumerate(own_types):
        expected = torch.stack([own[row][..., types].softmax(-1) for own in full]).mean(0)
        torch.testing.assert_close(probabilities[row][..., types], expected, atol=1e-5, rtol=0)
    assert probabilities.sum(-1).sub(1).abs().max() < 1e-5
    rows = torch.tensor([2, 0])
    ensemble.select(rows)
    again = ensemble.log_probs(ensemble.step(TOKENS[rows])).exp()
    torch.testing.assert_close(again, probabilities[rows], atol=1e-5, rtol=0)
    ensemble.reset()
    ensemble.encode(BATCH["net_input"])
    assert ensemble.log_probs(ensemble.step(TOKENS)).exp().gt(0).all()


@pytest.mark.parametrize("heads", ["parallel", "sequential"])
def test_heads_propose_the_first_types_or_those_of_a_shortlist(heads):
    models = [blockwise(seed, block_heads=heads) for seed in range(2)]
    ensemble, features = stepped(models, n_proposal_types=9)

    def proposed():
        with torch.no_grad():
            if heads == "parallel":
                return ensemble.head_log_probs(features[:, -1], 3)
            states = ensemble.begin_drafts(features[:, -1])
            return ensemble.draft_log_probs(ensemble.extend_drafts(states, TOKENS[:, :1]))

    assert proposed()[..., 9:].eq(-math.inf).all()
    torch.testing.assert_close(proposed().exp().sum(-1), torch.ones(proposed().shape[:-1]))
    ensemble.reset()
    own_types = [np.array([4]), np.array([4, 15]), np.array([2, 3])]
    ensemble.encode(BATCH["net_input"], own_types)
    features = ensemble.step(TOKENS)
    for row, types in enumerate(own_types):
        assert proposed()[row].gt(-math.inf).nonzero()[:, -1].unique().tolist() == types.tolist()


def test_rows_of_some_steps_and_of_any_order():
    models = [stirred(0), stirred(2, "lstm")]
    expected, _ = stepped(models)
    rows = slice(1, 3)
    ensemble = Ensemble(models)
    ensemble.encode(BATCH["net_input"])
    ensemble.step(TOKENS[rows], rows=rows)
    ensemble.keep(torch.tensor([2, 1]))
    ensemble.select(torch.tensor([2, 1]))
    assert ensemble.n_rows == 2
    after = ensemble.log_probs(ensemble.step(TOKENS[[2, 1]][:, 2:3]))
    own = [TOKENS[2, [0, 2]], TOKENS[1, [0, 1, 2]]]
    for row, source, tokens in zip(after, (2, 1), own):
        all_tokens = tokens.expand(3, -1)
        parts = [full_log_probs(model, BATCH, all_tokens)[source, -1].exp() for model in models]
        torch.testing.assert_close(row[0], torch.stack(parts).mean(0).log(), atol=1e-4, rtol=0)


def test_what_members_have_in_common():
    mixed = [blockwise(), blockwise(1, block_heads="sequential"), stirred(0)]
    assert Ensemble(mixed).block_sizes == [4, 4, 0] and not heads_agree(mixed)
    assert heads_agree([blockwise(), blockwise(1)])
    pairs = tiny.build_model(DOUBLE_TASKS["l2r"], "double_token_transformer")
    assert Ensemble([pairs]).tokens_per_step == 2
    with pytest.raises(ValueError, match="--path: models of 1 and of 2 tokens a step"):
        _ = Ensemble([stirred(0), pairs]).tokens_per_step


class OddDecoder(torch.nn.Module):
    """No decoder of fairseq's."""


def test_a_model_that_nothing_can_step_is_refused():
    model = stirred(0)
    model.decoder = OddDecoder()
    assert isinstance(model, TransformerModel)
    with pytest.raises(ValueError, match="OddDecoder.*; use --decoding fairseq for this model"):
        Ensemble([model])


def test_the_logits_of_one_model_are_fairseqs():
    model = stirred(0)
    ensemble, features = stepped([model])
    expected = full_logits(model, BATCH, TOKENS).log_softmax(-1)
    torch.testing.assert_close(ensemble.log_probs(features), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("weight", [0.7, -0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_a_language_model(kind, weight):
    """Its own states follow those of the rows, whose lengths differ; the temperature is not its."""
    models, lm = [stirred(0), stirred(2, "lstm")], random_model(**KINDS[kind])
    ensemble = Ensemble(models, temperature=0.5, lm=lm, lm_weight=weight)
    ensemble.encode(BATCH["net_input"])
    ensemble.step(TOKENS)
    ensemble.keep(torch.tensor([1, 3, 2]))
    rows = torch.tensor([2, 0, 0])
    ensemble.select(rows)
    kept = [TOKENS[2, :2], TOKENS[0, :1], TOKENS[0, :1]]
    fed = torch.arange(6, 12).view(3, 2)
    found = ensemble.log_probs(ensemble.step(fed))
    for row, (source, before) in enumerate(zip(rows, kept)):
        tokens = torch.cat([before, fed[row]]).expand(3, -1)
        own = [full_log_probs(model, BATCH, tokens, 0.5)[source, -2:].exp() for model in models]
        with torch.no_grad():
            added = lm.get_normalized_probs(lm(tokens), log_probs=True)[source, -2:]
        expected = torch.stack(own).mean(0).log() + weight * added
        torch.testing.assert_close(found[row], expected, atol=1e-4, rtol=1e-4)
    ensemble.encode(BATCH["net_input"])
    assert ensemble.n_rows == 6 and ensemble.step(fed.repeat(2, 1)).size(0) == 6


def test_a_language_model_of_a_shortlist():
    """A negative weight does not make other types possible."""
    lm, types = random_model(), [[2, 5, 11], [2, 3], [2, 4, 5, 6]]
    ensemble = Ensemble([stirred(0)], lm=lm, lm_weight=-0.5)
    ensemble.encode(BATCH["net_input"], [np.array(own) for own in types])
    found = ensemble.log_probs(ensemble.step(TOKENS))
    with torch.no_grad():
        of_lm = lm(TOKENS)[0]
    for row, own in enumerate(types):
        expected = full_log_probs(stirred(0), BATCH, TOKENS)[row][..., own].log_softmax(-1)
        expected = expected - 0.5 * of_lm[row][..., own].log_softmax(-1)
        torch.testing.assert_close(found[row][..., own], expected, atol=1e-4, rtol=0)
        assert found[row].gt(-math.inf).sum(-1).eq(len(own)).all()
