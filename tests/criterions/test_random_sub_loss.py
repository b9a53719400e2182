"""The criterion against a loop over positions, and the draw of the head."""

import collections
import math

import pytest
import torch
from fairseq.logging import metrics

from fairseq_fastdec.criterions.random_sub_loss import RandomSubLoss, shifted
from tests import tiny

TASK = tiny.task(20)
PAD = 1
LENGTHS = [3, 8, 1, 5]


def build(block_size=4, **options):
    model = tiny.build_model(TASK, "blockwise_transformer", block_size=block_size, **options)
    return tiny.stir(model)


def batch(seed=0, lengths=LENGTHS):
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    return {**sample, "ntokens": int(sample["target"].ne(PAD).sum())}


def slow_loss(model, sample, head, epsilon):
    """Summed loss, nll, hits and targets of one head, position by position."""
    with torch.no_grad():
        log_probs = model(**sample["net_input"], head=head)[0].log_softmax(-1)
    n_words = log_probs.size(-1)
    loss = nll = hits = n = 0.0
    for row, target in zip(log_probs, sample["target"].tolist()):
        words = [word for word in target if word != PAD]
        for position in range(len(words) - head):
            word, scores = words[position + head], row[position]
            own, others = scores[word].item(), (scores.sum() - scores[word]).item()
            nll -= own
            loss -= (1 - epsilon) * own + epsilon / (n_words - 1) * others
            hits += int(scores.argmax()) == word
            n += 1
    return loss, nll, hits, n


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("sub_loss", ["random", "mean"])
def test_validation_reports_every_head(epsilon, sub_loss):
    model = build()
    sample = batch()
    criterion = RandomSubLoss(TASK, epsilon, sub_loss, seed=1)
    loss, sample_size, logged = criterion(model, sample)
    means = []
    for head in range(4):
        expected = slow_loss(model, sample, head, epsilon)
        names = [f"{name}_p{head + 1}" for name in ("loss", "nll", "correct", "targets")]
        torch.testing.assert_close(
            torch.tensor([float(logged[name]) for name in names]),
            torch.tensor(expected),
            atol=2e-3,
            rtol=1e-4,
        )
        means.append(expected[0] / expected[3])
    assert loss.item() / sample_size == pytest.approx(sum(means) / 4, rel=1e-4)


def test_the_random_loss_is_an_unbiased_estimate_of_the_mean(monkeypatch):
    """Its average over all draws is the mean, and so is that of its gradient."""
    model, sample = build().train(), batch()

    def gradient(sub_loss, head=None):
        criterion = RandomSubLoss(TASK, 0.1, sub_loss, seed=1)
        monkeypatch.setattr(criterion, "draw", lambda heads, update: heads[head])
        model.zero_grad()
        loss, sample_size, _ = criterion(model, sample)
        (loss / sample_size).backward()
        gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        return loss.item() / sample_size, gradients

    draws = [gradient("random", head) for head in range(4)]
    mean_loss, mean_gradient = gradient("mean")
    assert sum(loss for loss, _ in draws) / 4 == pytest.approx(mean_loss, rel=1e-5)
    average = torch.stack([g for _, g in draws]).mean(dim=0)
    torch.testing.assert_close(average, mean_gradient, atol=1e-5, rtol=1e-4)


def test_the_draw_is_uniform_and_depends_on_seed_and_update_only():
    first, again, other = (RandomSubLoss(TASK, 0, "random", seed) for seed in (1, 1, 2))
    draws = [first.draw([0, 1, 2, 3], update) for update in range(4000)]
    assert draws == [again.draw([0, 1, 2, 3], update) for update in range(4000)]
    assert draws != [other.draw([0, 1, 2, 3], update) for update in range(4000)]
    counts = collections.Counter(draws)
    assert all(abs(counts[head] - 1000) < 120 for head in range(4))


def test_training_uses_the_models_update_number():
    model, sample = build().train(), batch()
    criterion = RandomSubLoss(TASK, 0, "random", seed=3)
    for update in range(12):
        model.set_num_updates(update)
        _, _, logged = criterion(model, sample)
        head = criterion.draw([0, 1, 2, 3], update)
        assert [key for key in logged if key.startswith("loss_p")] == [f"loss_p{head + 1}"]
        assert criterion(model, sample)[2].keys() == logged.keys()


@pytest.mark.parametrize("sub_loss", ["random", "mean"])
def test_a_frozen_identity_head_is_not_trained(sub_loss):
    model = build(identity_first_head=True, freeze_base=True).train()
    criterion = RandomSubLoss(TASK, 0, sub_loss, seed=1)
    seen = set()
    for update in range(40):
        model.set_num_updates(update)
        loss, _, logged = criterion(model, batch())
        assert loss.requires_grad
        seen |= {key for key in logged if key.startswith("loss_p")}
    assert seen == {"loss_p2", "loss_p3", "loss_p4"}


def test_shifted_targets():
    target = torch.tensor([[5, 6, 7, 2], [8, 2, PAD, PAD]])
    assert shifted(target, 0, PAD).tolist() == target.tolist()
    assert shifted(target, 1, PAD).tolist() == [[6, 7, 2, PAD], [2, PAD, PAD, PAD]]
    assert shifted(target, 9, PAD).tolist() == [[PAD] * 4] * 2
    left_padded = torch.tensor([[PAD, PAD, 8, 2]])
    assert shifted(left_padded, 1, PAD).tolist() == [[PAD, 8, 2, PAD]]


def test_heads_beyond_all_targets_are_no_nan():
    model = build(block_size=6).train()
    sample = batch(lengths=[1, 0])
    for sub_loss in ("random", "mean"):
        criterion = RandomSubLoss(TASK, 0.1, sub_loss, seed=1)
        for update in range(12):
            model.set_num_updates(update)
            loss, sample_size, _ = criterion(model, sample)
            assert loss.isfinite() and sample_size >= 0
            loss.backward()


def test_metrics_over_batches_of_different_size():
    """Sums over all batches divided by sums, not averages of averages."""
    model = build(block_size=2)
    samples = [batch(0), batch(1, [9, 9, 2, 7, 7, 7])]
    criterion = RandomSubLoss(TASK, 0.0, "random", seed=1)
    with metrics.aggregate() as aggregated:
        for sample in samples:
            RandomSubLoss.reduce_metrics([criterion(model, sample)[2]])
    values = aggregated.get_smoothed_values()
    expected = []
    for head in (0, 1):
        sums = [slow_loss(model, sample, head, 0.0) for sample in samples]
        _, nll, hits, n = (sum(column) for column in zip(*sums))
        expected.append(nll / n / math.log(2))
        assert values[f"nll_loss_p{head + 1}"] == pytest.approx(expected[-1], abs=2e-3)
        assert values[f"accuracy_p{head + 1}"] == pytest.approx(100 * hits / n, abs=2e-3)
    assert values["nll_loss"] == pytest.approx(sum(expected) / 2, abs=2e-3)
    assert values["loss"] == pytest.approx(values["nll_loss"], abs=2e-3)


def test_heads_learn_their_own_position():
    """On copied words p_2 is right by far more than chance, 5 %: the shift points the right way."""
    model = tiny.build_model(TASK, "blockwise_transformer", block_size=2)
    criterion = RandomSubLoss(TASK, 0.0, "mean", seed=1)

    def mean_loss(model, sample):
        loss, sample_size, _ = criterion(model, {**sample, "ntokens": 1})
        return loss / sample_size

    tiny.train(model, TASK, updates=300, loss_of=mean_loss, lr=2e-3)
    _, _, logged = criterion(model, batch(lengths=[6, 7, 8, 5, 4, 6]))
    assert logged["correct_p1"] > 0.6 * logged["targets_p1"]
    assert logged["correct_p2"] > 0.3 * logged["targets_p2"]


def test_a_model_without_heads():
    with pytest.raises(ValueError, match="--arch blockwise_transformer"):
        RandomSubLoss(TASK, 0, "random", 1)(tiny.build_model(TASK), batch())
