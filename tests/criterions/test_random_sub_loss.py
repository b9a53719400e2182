"""The criterion against a loop over positions, and the draw of the head."""

import collections
import math

import pytest
import torch
from fairseq import options
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed.module_proxy_wrapper import ModuleProxyWrapper
from fairseq.logging import metrics

from fairseq_fastdec.criterions.random_sub_loss import RandomSubLoss, targets_of_head
from tests.support import skips, tiny

TASK = tiny.task(20)
PAD = 1
LENGTHS = [3, 8, 1, 5]
SEQUENTIAL = dict(block_heads="sequential", identity_first_head=True)
SUB_LOSSES = ["random", "random-position", "mean"]


def build(block_size=4, **options):
    model = tiny.build_model(TASK, "blockwise_transformer", block_size=block_size, **options)
    return tiny.stir(model)


def batch(seed=0, lengths=LENGTHS):
    sample = tiny.random_batch(TASK, lengths, seed=seed)
    return {**sample, "ntokens": int(sample["target"].ne(PAD).sum())}


def left_padded(sample):
    """The same batch as --left-pad-target makes it."""

    def moved(rows):
        words = [row[row.ne(PAD)] for row in rows]
        return torch.stack([torch.cat([row[row.eq(PAD)], own]) for row, own in zip(rows, words)])

    previous = moved(sample["net_input"]["prev_output_tokens"])
    net_input = {**sample["net_input"], "prev_output_tokens": previous}
    return {**sample, "net_input": net_input, "target": moved(sample["target"])}


def slow_loss(model, sample, head, epsilon, skip=0):
    """Summed loss, nll, hits and targets of one head, position by position."""
    with torch.no_grad():
        log_probs = model(**sample["net_input"], head=head)[0].log_softmax(-1)
    n_words = log_probs.size(-1)
    loss = nll = hits = n = 0.0
    for row, target in zip(log_probs, sample["target"].tolist()):
        words = [word for word in target if word != PAD]
        start = next(index for index, word in enumerate(target) if word != PAD)
        for position in range(skip, len(words) - head):
            word, scores = words[position + head], row[start + position]
            own, others = scores[word].item(), (scores.sum() - scores[word]).item()
            nll -= own
            loss -= (1 - epsilon) * own + epsilon / (n_words - 1) * others
            hits += int(scores.argmax()) == word
            n += 1
    return loss, nll, hits, n


@pytest.mark.parametrize("padded", [dict] if tiny.OLD_FAIRSEQ else [dict, left_padded])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("sub_loss", SUB_LOSSES)
@pytest.mark.parametrize("options", [dict(), SEQUENTIAL], ids=["parallel", "sequential"])
def test_validation_reports_every_head(epsilon, sub_loss, padded, options):
    model = build(**options)
    sample = padded(batch())
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


@pytest.mark.parametrize("options", [dict(), SEQUENTIAL], ids=["parallel", "sequential"])
def test_the_random_loss_is_an_unbiased_estimate_of_the_mean(options, monkeypatch):
    """Its average over all draws is the mean, and so is that of its gradient."""
    model, sample = build(**options).train(), batch()

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


def test_the_draws_by_position_are_uniform_and_depend_on_seed_and_update_only():
    first, again, other = (RandomSubLoss(TASK, 0, "random-position", seed) for seed in (1, 1, 2))
    shape = torch.Size([40, 100])
    draws = first.draw_by_position([1, 2, 3, 4], 5, shape)
    assert torch.equal(draws, again.draw_by_position([1, 2, 3, 4], 5, shape))
    assert not torch.equal(draws, other.draw_by_position([1, 2, 3, 4], 5, shape))
    assert not torch.equal(draws, first.draw_by_position([1, 2, 3, 4], 6, shape))
    counts = collections.Counter(draws.flatten().tolist())
    assert all(abs(counts[head] - 1000) < 120 for head in (1, 2, 3, 4))


def test_decaying_draws():
    """Head i is drawn in proportion to the decay to the power of i - 1, whichever take part."""
    criterion = RandomSubLoss(TASK, 0, "random-position", seed=1, head_decay=0.5)
    draws = criterion.draw_by_position([0, 1, 2], 5, torch.Size([70, 100]))
    counts = collections.Counter(draws.flatten().tolist())
    assert [round(counts[head] / 1000) for head in range(3)] == [4, 2, 1]
    counts = collections.Counter(criterion.draw([1, 2], update) for update in range(3000))
    assert [round(counts[head] / 1000) for head in (1, 2)] == [2, 1]
    for decay in (-1, 0):
        with pytest.raises(ValueError, match=f"--head-decay {decay}: must be more than 0"):
            RandomSubLoss(TASK, 0, "mean", seed=1, head_decay=decay)


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_the_decaying_mean(sentence_avg):
    model, sample = build(block_size=3).eval(), batch()
    uniform, decaying = (
        RandomSubLoss(TASK, 0, "mean", 1, sentence_avg, head_decay=decay) for decay in (1, 0.5)
    )
    expected = [slow_loss(model, sample, head, 0) for head in range(3)]
    sums = [loss / (1 if sentence_avg else n) for loss, _, _, n in expected]
    for criterion, shares in ((uniform, (1 / 3, 1 / 3, 1 / 3)), (decaying, (4 / 7, 2 / 7, 1 / 7))):
        loss, size, _ = criterion(model, sample)
        scale = 1 if sentence_avg else size
        mean = sum(share * own for share, own in zip(shares, sums)) * scale
        assert loss.item() == pytest.approx(mean, rel=1e-4)


def test_decaying_draws_by_position_weigh_as_the_mean_does(monkeypatch):
    """However many positions each head got, its mean counts by its share."""
    model, sample = build(block_size=2).train(), batch()
    model.encoder.dropout_module.p = model.decoder.dropout_module.p = 0
    criterion = RandomSubLoss(TASK, 0, "random-position", 1, head_decay=0.25)
    losses = []
    for drawn in (torch.zeros, torch.ones):
        monkeypatch.setattr(
            criterion, "draw_by_position", lambda heads, update, shape: drawn(*shape, 1).long()
        )
        loss, size, _ = criterion(model, sample)
        losses.append(loss.item() / size)
    monkeypatch.undo()
    mean = RandomSubLoss(TASK, 0, "mean", 1, head_decay=0.25)
    loss, size, _ = mean(model, sample)
    assert losses[0] + losses[1] == pytest.approx(loss.item() / size, rel=1e-4)


@pytest.mark.parametrize("head", [0, 2])
@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("skip", [0, 2])
def test_the_same_head_everywhere_is_the_draw_of_that_head(monkeypatch, identity, head, skip):
    model = build(block_size=3, identity_first_head=identity).train()
    sample = batch()
    criterions = [
        RandomSubLoss(TASK, 0.1, sub_loss, seed=1, ignore_prefix_size=skip, sentence_avg=True)
        for sub_loss in ("random", "random-position")
    ]
    monkeypatch.setattr(criterions[0], "draw", lambda heads, update: head)
    monkeypatch.setattr(
        criterions[1],
        "draw_by_position",
        lambda heads, update, shape: torch.full((*shape, 1), head),
    )
    found = []
    for criterion in criterions:
        model.zero_grad()
        loss, sample_size, logged = criterion(model, sample)
        loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append((loss, sample_size, logged[f"targets_p{head + 1}"], gradients))
    assert found[0][1:3] == found[1][1:3]
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][3], found[1][3])


@pytest.mark.parametrize("identity", [False, True])
@pytest.mark.parametrize("padded", [dict] if tiny.OLD_FAIRSEQ else [dict, left_padded])
def test_heads_that_take_turns_add_up_to_the_mean(monkeypatch, identity, padded):
    """Over k draws in which each position sees each head once."""
    model = build(block_size=4, identity_first_head=identity).train()
    sample = padded(batch())

    def gradient(sub_loss, turn=0):
        criterion = RandomSubLoss(TASK, 0.1, sub_loss, seed=1, sentence_avg=True)
        monkeypatch.setattr(
            criterion,
            "draw_by_position",
            lambda heads, update, shape: (torch.arange(shape.numel()) + turn).view(*shape, 1) % 4,
        )
        model.zero_grad()
        loss, sample_size, _ = criterion(model, sample)
        (loss / sample_size).backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        return loss.item() / sample_size, gradients

    turns = [gradient("random-position", turn) for turn in range(4)]
    mean_loss, mean_gradient = gradient("mean")
    assert sum(loss for loss, _ in turns) / 4 == pytest.approx(mean_loss, rel=1e-5)
    average = {name: sum(g[name] for _, g in turns) / 4 for name in mean_gradient}
    torch.testing.assert_close(average, mean_gradient, atol=1e-5, rtol=1e-4)


def test_different_heads_for_a_position():
    """As often as it is drawn, each head is one of so many, and none twice at one position."""
    criterion = RandomSubLoss(TASK, 0, "random-position", seed=1, heads_per_position=3)
    draws = criterion.draw_by_position([1, 2, 3, 4], 5, torch.Size([40, 100]))
    assert draws.shape == (40, 100, 3)
    assert all(len(set(heads)) == 3 for heads in draws.view(-1, 3).tolist())
    counts = collections.Counter(draws.flatten().tolist())
    assert all(abs(counts[head] - 3000) < 120 for head in (1, 2, 3, 4))
    few = criterion.draw_by_position([1, 2], 5, torch.Size([2, 2]))
    assert few.sort(dim=-1).values.tolist() == [[[1, 2]] * 2] * 2


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_all_heads_for_each_position_are_the_mean(sentence_avg):
    model, sample = build(block_size=3).train(), batch()
    model.encoder.dropout_module.p = model.decoder.dropout_module.p = 0
    found = []
    for sub_loss, n_drawn in (("mean", 1), ("random-position", 3), ("random-position", 9)):
        criterion = RandomSubLoss(TASK, 0.1, sub_loss, 1, sentence_avg, heads_per_position=n_drawn)
        model.zero_grad()
        loss, size, logged = criterion(model, sample)
        loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append((loss, size, logged["correct_p3"], logged["targets_p3"], gradients))
    torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[2], found[1])


def test_heads_for_a_position_are_refused():
    with pytest.raises(ValueError, match="--heads-per-position 0: must be at least 1"):
        RandomSubLoss(TASK, 0, "random-position", seed=1, heads_per_position=0)
    with pytest.raises(ValueError, match="--heads-per-position 2: needs --sub-loss random-pos"):
        RandomSubLoss(TASK, 0, "mean", seed=1, heads_per_position=2)


def slow_soft_loss(model, sample, head, epsilon):
    """Summed cross entropy of a head to what p_1 says of the same tokens, and nll."""
    with torch.no_grad():
        log_probs = model(**sample["net_input"], head=head)[0].log_softmax(-1)
        chances = model(**sample["net_input"], head=0)[0].softmax(-1)
    loss = nll = 0.0
    for row, of_p1, target in zip(log_probs, chances, sample["target"].tolist()):
        for position in range(len(target) - head):
            if target[position] != PAD and target[position + head] != PAD:
                wanted = (1 - epsilon) * of_p1[position + head] + epsilon / row.size(-1)
                loss -= float((wanted * row[position]).sum())
                nll -= float(row[position][target[position + head]])
    return loss, nll


@pytest.mark.parametrize("padded", [dict] if tiny.OLD_FAIRSEQ else [dict, left_padded])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("options", [dict(), dict(identity_first_head=True), SEQUENTIAL])
def test_heads_learn_what_p1_finds_probable(options, epsilon, padded):
    model = build(block_size=3, **options).train()
    model.encoder.dropout_module.p = model.decoder.dropout_module.p = 0
    sample = padded(batch())
    targets = dict(heads_per_position=3, head_targets="base")
    criterion = RandomSubLoss(TASK, epsilon, "random-position", 1, **targets)
    loss, size, logged = criterion(model, sample)
    first = slow_loss(model, sample, 0, epsilon)
    others = [slow_soft_loss(model, sample, head, epsilon) for head in (1, 2)]
    for head, (expected, nll) in enumerate([first[:2], *others], start=1):
        assert float(logged[f"loss_p{head}"]) == pytest.approx(expected, rel=1e-4)
        assert float(logged[f"nll_p{head}"]) == pytest.approx(nll, rel=1e-4)
    n_targets = [slow_loss(model, sample, head, 0)[3] for head in range(3)]
    means = [own[0] / n for own, n in zip([first, *others], n_targets)]
    assert loss.item() / size == pytest.approx(sum(means) / 3, rel=1e-4)


def test_p1_does_not_learn_what_the_other_heads_want_of_it():
    """Its gradient is that of its own loss, whatever others learn from it."""
    model, sample = build(block_size=2, identity_first_head=True, freeze_base=True), batch()
    options = dict(heads_per_position=2, head_targets="base")
    loss = RandomSubLoss(TASK, 0, "random-position", 1, **options)(model.train(), sample)[0]
    loss.backward()
    learned = {name for name, p in model.named_parameters() if p.grad is not None}
    assert learned and all("heads" in name for name in learned)


def test_few_positions_are_enough():
    """Heads that are drawn at some positions learn there what p_1 says of their tokens."""
    model, sample = build(block_size=4, **SEQUENTIAL).train(), batch()
    model.encoder.dropout_module.p = model.decoder.dropout_module.p = 0
    criterion = RandomSubLoss(TASK, 0, "random-position", 1, head_targets="base")
    seen = {}
    for head, logits, target, chances in criterion._predictions_by_position(model, sample):
        seen[head] = (logits, target, chances)
    assert set(seen) == {0, 1, 2, 3} and seen[0][2] is None
    with torch.no_grad():
        of_p1 = model(**sample["net_input"], head=0)[0].softmax(-1).flatten(0, 1)
    for _, target, chances in list(seen.values())[1:]:
        assert len(chances) == len(target)
        distances, places = (chances[:, None] - of_p1).abs().amax(dim=-1).min(dim=1)
        assert distances.max() < 1e-6
        assert torch.equal(sample["target"].flatten()[places], target)


def test_head_targets_of_another_loss_are_refused():
    with pytest.raises(ValueError, match="--head-targets base: needs --sub-loss random-position"):
        RandomSubLoss(TASK, 0, "mean", seed=1, head_targets="base")


def test_training_uses_the_models_update_number():
    model, sample = build().train(), batch()
    criterion = RandomSubLoss(TASK, 0, "random", seed=3)
    for update in range(12):
        model.set_num_updates(update)
        _, _, logged = criterion(model, sample)
        head = criterion.draw([0, 1, 2, 3], update)
        assert [key for key in logged if key.startswith("loss_p")] == [f"loss_p{head + 1}"]
        assert criterion(model, sample)[2].keys() == logged.keys()


@pytest.mark.parametrize("sub_loss", SUB_LOSSES)
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


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("skip", [0, 2, 20])
def test_one_head_is_fairseqs_label_smoothed_cross_entropy(sentence_avg, skip):
    model, sample = build(block_size=1).train(), batch()
    common = dict(label_smoothing=0.1, sentence_avg=sentence_avg, ignore_prefix_size=skip)
    theirs = LabelSmoothedCrossEntropyCriterion(TASK, **common)
    expected, expected_size, _ = theirs(model, sample)
    for sub_loss in SUB_LOSSES:
        loss, sample_size, _ = RandomSubLoss(TASK, sub_loss=sub_loss, seed=1, **common)(
            model, sample
        )
        torch.testing.assert_close(loss, expected)
        if sentence_avg or skip == 0:  # fairseq divides by all targets, the skipped ones too
            assert sample_size == expected_size


def test_every_head_leaves_out_the_prefix():
    model, sample = build(block_size=3), batch()
    _, _, logged = RandomSubLoss(TASK, 0.1, "random", seed=1, ignore_prefix_size=2)(model, sample)
    for head in range(3):
        expected = slow_loss(model, sample, head, 0.1, skip=2)
        assert logged[f"targets_p{head + 1}"] == expected[3]
        assert logged[f"loss_p{head + 1}"].item() == pytest.approx(expected[0], rel=1e-4)


def test_the_mean_by_sentences_is_the_mean_of_the_draws():
    model, sample = build(block_size=3).train(), batch()
    mean = RandomSubLoss(TASK, 0.1, "mean", seed=1, sentence_avg=True)(model, sample)
    losses = [slow_loss(model, sample, head, 0.1)[0] for head in range(3)]
    assert mean[0].item() == pytest.approx(sum(losses) / 3, rel=1e-4)
    assert mean[1] == len(LENGTHS)


def test_options_of_the_command_line():
    parser = options.get_training_parser()
    given = ["--criterion", "random_sub_loss", "--sub-loss", "mean", "--ignore-prefix-size", "2"]
    given += ["--sentence-avg", "--seed", "7", "--label-smoothing", "0.3"]
    arguments = options.parse_args_and_arch(parser, ["data", "--arch", "transformer", *given])
    criterion = TASK.build_criterion(convert_namespace_to_omegaconf(arguments).criterion)
    assert isinstance(criterion, RandomSubLoss)
    assert (criterion.sub_loss, criterion.eps, criterion.seed) == ("mean", 0.3, 7)
    assert (criterion.sentence_avg, criterion.ignore_prefix_size) == (True, 2)


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.OLD_FAIRSEQ)
@pytest.mark.parametrize("find_unused", [False, True])
@pytest.mark.parametrize("sub_loss", SUB_LOSSES)
@pytest.mark.parametrize("identity", [False, True])
def test_distributed_training_takes_every_head(process_group, identity, sub_loss, find_unused):
    """torch refuses a second update if some parameter had no gradient, or one from outside."""
    model, alone = (build(block_size=3, identity_first_head=identity).train() for _ in range(2))
    wrapped = ModuleProxyWrapper(
        torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=find_unused)
    )
    criterion = RandomSubLoss(TASK, 0.1, sub_loss, seed=1)
    drawn = set()
    for update in range(12):
        for either in (wrapped, alone):
            either.zero_grad()
            either.set_num_updates(update)
            loss, _, logged = criterion(either, batch())
            loss.backward()
        drawn |= {key for key in logged if key.startswith("loss_p")}
        for own, expected in zip(model.parameters(), alone.parameters()):
            assert torch.equal(own.grad, expected.grad)
    assert drawn == {"loss_p1", "loss_p2", "loss_p3"}


def test_targets_of_head():
    target = torch.tensor([[5, 6, 7, 2], [8, 2, PAD, PAD]])
    assert targets_of_head(target, 0, PAD).tolist() == target.tolist()
    assert targets_of_head(target, 1, PAD).tolist() == [[6, 7, 2, PAD], [2, PAD, PAD, PAD]]
    assert targets_of_head(target, 9, PAD).tolist() == [[PAD] * 4] * 2
    padded_left = torch.tensor([[PAD, PAD, 8, 2]])
    assert targets_of_head(padded_left, 1, PAD).tolist() == [[PAD, PAD, 2, PAD]]


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
    """On copied words p_2 is nearly always right, by chance in 5 %: the shift is the right way."""
    model = tiny.build_model(TASK, "blockwise_transformer", block_size=2)
    criterion = RandomSubLoss(TASK, 0.0, "mean", seed=1)

    def mean_loss(model, sample):
        loss, sample_size, _ = criterion(model, {**sample, "ntokens": 1})
        return loss / sample_size

    tiny.train(model, TASK, updates=450, loss_of=mean_loss, lr=5e-3)
    _, _, logged = criterion(model, batch(lengths=[6, 7, 8, 5, 4, 6]))
    assert logged["correct_p1"] > 0.8 * logged["targets_p1"]
    assert logged["correct_p2"] > 0.8 * logged["targets_p2"]


def test_a_model_without_heads():
    with pytest.raises(ValueError, match="--arch blockwise_transformer"):
        RandomSubLoss(TASK, 0, "random", 1)(tiny.build_model(TASK), batch())
