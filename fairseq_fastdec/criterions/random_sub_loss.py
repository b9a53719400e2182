"""The training loss of blockwise models (Stern et al. 2018, section 6)."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor
from torch.nn import functional as F

from .smoothed_cross_entropy import smoothed_cross_entropy

SUB_LOSS_CHOICES = ChoiceEnum(["random", "random-position", "mean"])
HEAD_TARGETS_CHOICES = ChoiceEnum(["references", "base"])

# A head, its logits [P, V], their targets [P], and p_1's probabilities of the tokens at the same
# places [P, V]; None if the head learns from the targets alone.
Prediction = tuple[int, Tensor, Tensor, Optional[Tensor]]


@dataclass
class RandomSubLossConfig(FairseqDataclass):
    """Options of ``--criterion random_sub_loss``."""

    label_smoothing: float = field(
        default=0.0, metadata={"help": "epsilon for label smoothing, 0 means no label smoothing"}
    )
    sub_loss: SUB_LOSS_CHOICES = field(
        default="random",
        metadata={
            "help": "random: each update trains one head, drawn at random, an unbiased estimate "
            "of the mean; random-position: draw a head for each target position, so that every "
            "update trains all heads at the cost of one; mean: the mean of all heads' losses, "
            "which needs more memory and time"
        },
    )
    heads_per_position: int = field(
        default=1,
        metadata={
            "help": "with --sub-loss random-position, the number of different heads that are drawn "
            "for each position; all of them use one forward pass of the base"
        },
    )
    head_decay: float = field(
        default=1.0,
        metadata={
            "help": "weight heads, or draw them, in proportion to this value to the power of i - 1 "
            "for p_i: 1 = all heads equally, as in the paper; less than 1 = later heads less, "
            "since a head only matters if all heads before it are right"
        },
    )
    head_targets: HEAD_TARGETS_CHOICES = field(
        default="references",
        metadata={
            "help": "the targets of p_2, p_3, ...; references: the target tokens, as in the paper; "
            "base, with --sub-loss random-position: p_1's distribution over the same token, given "
            "all target tokens before it"
        },
    )
    ignore_prefix_size: int = field(
        default=0, metadata={"help": "ignore the first N target positions, for every head"}
    )
    sentence_avg: bool = II("optimization.sentence_avg")
    seed: int = II("common.seed")


@register_criterion("random_sub_loss", dataclass=RandomSubLossConfig)
class RandomSubLoss(FairseqCriterion):
    """Label-smoothed cross entropy of one of the k heads, or the mean over them.

    Head i (0-based) predicts, at each position, the token i positions after the next one.
    """

    def __init__(
        self,
        task: Any,
        label_smoothing: float,
        sub_loss: str,
        seed: int,
        sentence_avg: bool = False,
        ignore_prefix_size: int = 0,
        head_decay: float = 1.0,
        heads_per_position: int = 1,
        head_targets: str = "references",
    ) -> None:
        """
        Raises:
            ValueError: if ``head_decay`` is not above 0, ``heads_per_position`` is not at least 1,
                or an option needs ``random-position`` and ``sub_loss`` differs.
        """
        super().__init__(task)
        if head_decay <= 0:
            raise ValueError(f"--head-decay {head_decay}: must be more than 0; 1 = equal weights")
        if heads_per_position < 1:
            raise ValueError(f"--heads-per-position {heads_per_position}: must be at least 1")
        learns_from_base = str(head_targets) == "base"
        for option, is_given in (
            (f"--heads-per-position {heads_per_position}", heads_per_position > 1),
            (f"--head-targets {head_targets}", learns_from_base),
        ):
            if is_given and str(sub_loss) != "random-position":
                raise ValueError(f"{option}: needs --sub-loss random-position, not {sub_loss}")
        self.heads_per_position = heads_per_position
        self.learns_from_base = learns_from_base
        self.head_decay = head_decay
        self.eps = label_smoothing
        self.sub_loss = str(sub_loss)
        self.seed = seed
        self.sentence_avg = sentence_avg
        self.ignore_prefix_size = ignore_prefix_size

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Any, dict[str, Any]]:
        """The loss of a batch. In validation it is the loss of all heads.

        Returns:
            the summed loss, its divisor (the number of targets, or with ``--sentence-avg`` of
            sentences), and the logged sums of each head: ``loss_p1``, ``nll_p1``,
            ``correct_p1``, ``targets_p1``, ...

        Raises:
            ValueError: for a model without prediction heads.
        """
        _check_has_heads(model)
        logging_output: dict[str, Any] = {
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
        }
        sub_loss = self.sub_loss if model.training else "validation"
        heads = []
        losses = []
        n_targets = []
        for head, logits, target, chances in self._predictions(model, sample, sub_loss):
            loss, counts = self._sub_loss(logits, target, chances)
            heads.append(head)
            losses.append(loss)
            n_targets.append(counts["targets"])
            for name, count in counts.items():
                logging_output[f"{name}_p{head + 1}"] = count
        if self.sentence_avg:
            sample_size = logging_output["nsentences"]
            if sub_loss == "random-position":
                # The draw already weights the heads: each gets its share of the positions.
                loss = torch.stack(losses).sum() / self._n_drawn(heads)
            else:
                loss = self._weighted(losses, heads)
        else:
            sample_size = max(n_targets)
            means = [loss / max(n, 1) for loss, n in zip(losses, n_targets)]
            loss = self._weighted(means, heads) * sample_size
        logging_output["sample_size"] = sample_size
        return loss, sample_size, logging_output

    def draw(self, heads: list[int], update: int) -> int:
        """One of the heads; all workers draw the same head for the same seed and update."""
        return self._random(update).choices(heads, self._shares(heads).tolist())[0]

    def draw_by_position(self, heads: list[int], update: int, shape: torch.Size) -> Tensor:
        """Different heads for each position: int64 ``[B, T, N]``, on the CPU."""
        generator = torch.Generator().manual_seed(self._random(update).getrandbits(63))
        n_drawn = self._n_drawn(heads)
        shares = self._shares(heads).expand(shape.numel(), -1)
        drawn = torch.multinomial(shares, n_drawn, generator=generator)
        return torch.tensor(heads)[drawn].view(*shape, n_drawn)

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log each head's loss (base 2) and accuracy (percent), and the means over the heads."""
        totals: dict[str, float] = {}
        for output in logging_outputs:
            for key, value in output.items():
                totals[key] = totals.get(key, 0) + utils.item(value)
        names = [key[len("targets_") :] for key in totals if key.startswith("targets_p")]
        for head in names:
            n_targets = totals[f"targets_{head}"]
            if n_targets > 0:
                scale = 1 / n_targets
                _log(f"loss_{head}", totals[f"loss_{head}"] * scale / math.log(2), n_targets)
                _log(f"nll_loss_{head}", totals[f"nll_{head}"] * scale / math.log(2), n_targets)
                _log(f"accuracy_{head}", totals[f"correct_{head}"] * scale * 100, n_targets)
        for name in ("loss", "nll_loss", "accuracy"):
            metrics.log_derived(name, lambda meters, name=name: _mean_over_heads(meters, name))
        metrics.log_derived("ppl", _perplexity)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """Everything logged is a sum."""
        return True

    def _n_drawn(self, heads: list[int]) -> int:
        return min(self.heads_per_position, len(heads))

    def _shares(self, heads: list[int]) -> Tensor:
        """The weights of the heads: float32 ``[H]``, with sum 1."""
        weights = self.head_decay ** torch.tensor(heads, dtype=torch.float)
        return weights / weights.sum()

    def _weighted(self, losses: list[Tensor], heads: list[int]) -> Tensor:
        stacked = torch.stack(losses)
        return (stacked * self._shares(heads).to(stacked)).sum()

    def _random(self, update: int) -> random.Random:
        return random.Random(f"{self.seed} {update}")

    def _predictions(
        self, model: Any, sample: dict[str, Any], sub_loss: str
    ) -> Iterator[Prediction]:
        """The predictions of the heads that learn from this batch."""
        if sub_loss == "random-position":
            yield from self._predictions_by_position(model, sample)
            return
        skip = self.ignore_prefix_size
        for head, logits in self._logits(model, sample, sub_loss):
            target = targets_of_head(sample["target"], head, self.padding_idx)
            yield head, logits[:, skip:].flatten(0, 1), target[:, skip:].flatten(), None

    def _predictions_by_position(self, model: Any, sample: dict[str, Any]) -> Iterator[Prediction]:
        heads, target = _learning_heads(model), sample["target"]
        drawn = self.draw_by_position(heads, model.num_updates, target.shape).to(target.device)
        drawn[:, : self.ignore_prefix_size] = -1
        targets = [targets_of_head(target, head, self.padding_idx) for head in range(heads[-1] + 1)]
        places = [
            ((drawn == head).any(dim=-1) & wanted.ne(self.padding_idx)).flatten().nonzero()[:, 0]
            for head, wanted in enumerate(targets)
        ]
        # p_1 predicts a head's token at a later position.
        later = [head_places + head for head, head_places in enumerate(places)]
        p1_places = torch.cat(later).unique() if self.learns_from_base else places[0]
        computed = [p1_places, *places[1:]]
        outputs = model(**sample["net_input"], places=computed)[0]
        logits = outputs.split([len(head_places) for head_places in computed])
        p1 = FirstHead(logits[0], p1_places)
        for head in heads:
            wanted = targets[head].flatten()[places[head]]
            if head == 0:
                yield head, p1.logits_at(places[0]), wanted, None
            else:
                chances = p1.chances_at(later[head]) if self.learns_from_base else None
                yield head, logits[head], wanted, chances

    def _logits(
        self, model: Any, sample: dict[str, Any], sub_loss: str
    ) -> Iterator[tuple[int, Tensor]]:
        if sub_loss == "validation":
            yield from self._logits_one_by_one(model, sample)
            return
        # Call the model's forward: DDP must see every use of its parameters.
        heads = _learning_heads(model)
        if sub_loss == "random":
            head = self.draw(heads, model.num_updates)
            yield head, model(**sample["net_input"], head=head)[0]
            return
        logits = model(**sample["net_input"], heads=(heads[0], heads[-1] + 1))[0]
        yield from zip(heads, logits.unbind(dim=-2))

    def _logits_one_by_one(
        self, model: Any, sample: dict[str, Any]
    ) -> Iterator[tuple[int, Tensor]]:
        """All heads, from one forward pass of the base; only one head's logits are in memory."""
        decoder = model.decoder
        heads = (0, decoder.block_size)
        features, _ = model(**sample["net_input"], features_only=True, heads=heads)
        for head in range(decoder.block_size):
            yield head, decoder.output_layer(features[..., head, :])

    def _sub_loss(
        self, logits: Tensor, target: Tensor, chances: Optional[Tensor]
    ) -> tuple[Tensor, dict[str, Any]]:
        real = target.ne(self.padding_idx)
        if chances is None:
            loss, nll = smoothed_cross_entropy(logits, target, self.eps, self.padding_idx)
        else:
            scores = logits.to(chances.dtype)
            loss = F.cross_entropy(scores, chances, reduction="sum", label_smoothing=self.eps)
            nll = F.cross_entropy(scores.detach(), target, reduction="sum")
        counts = {
            "loss": loss.detach(),
            "nll": nll.detach(),
            # The best token is the target; argmax is not vectorized on a CPU.
            "correct": (logits.gather(-1, target[:, None])[:, 0].eq(logits.amax(-1)) & real).sum(),
            "targets": int(real.sum()),
        }
        return loss, counts


class FirstHead:
    """The predictions of p_1 at some positions, from its logits ``[P, V]``."""

    def __init__(self, logits: Tensor, places: Tensor) -> None:
        """
        Args:
            places: the positions, int64 ``[P]`` in ascending order; only these can be queried.
        """
        self._logits, self._places = logits, places

    def logits_at(self, places: Tensor) -> Tensor:
        """The logits at positions ``[N]``: ``[N, V]``."""
        if places is self._places:
            return self._logits
        return self._logits[torch.searchsorted(self._places, places)]

    def chances_at(self, places: Tensor) -> Tensor:
        """The detached probabilities of all tokens at positions ``[N]``: ``[N, V]``."""
        logits = self.logits_at(places).detach()
        return logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def targets_of_head(target: Tensor, head: int, pad: int) -> Tensor:
    """A head's targets ``[B, T]``: the targets shifted ``head`` positions to the left."""
    kept = target[:, head:]
    beyond = target.new_full((target.size(0), target.size(1) - kept.size(1)), pad)
    # With left padding the shift moves targets onto padding, which has no prefix.
    return torch.cat([kept, beyond], dim=1).masked_fill(target.eq(pad), pad)


def _check_has_heads(model: Any) -> None:
    if not hasattr(getattr(model, "decoder", None), "head_features"):
        raise ValueError(
            "--criterion random_sub_loss: the model has no prediction heads; use --arch "
            "blockwise_transformer (or one of its presets)"
        )


def _learning_heads(model: Any) -> list[int]:
    # With a frozen base, an identity first head has no trainable parameters.
    fixed_first = model.freeze_base and model.decoder.identity_first_head
    return list(range(int(fixed_first), model.decoder.block_size))


def _log(name: str, value: float, weight: float) -> None:
    metrics.log_scalar(name, value, weight, round=3)


def _mean_over_heads(meters: Any, name: str) -> Optional[float]:
    """The mean over the heads with targets since fairseq reset the meters; ``None`` without any.

    ``None`` is also fairseq's average of a meter without values.
    """
    averages = [meter.avg for key, meter in meters.items() if key.startswith(f"{name}_p")]
    values = [average for average in averages if average is not None]
    return round(sum(values) / len(values), 3) if values else None


def _perplexity(meters: Any) -> Optional[float]:
    loss = _mean_over_heads(meters, "nll_loss")
    return None if loss is None else utils.get_perplexity(loss)
