"""A mixin for translation tasks with another order of target tokens, one or two per step."""

from collections.abc import Callable
from typing import Any, Optional

from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from ..decoding import asked_for
from ..decoding.natural_order import in_natural_order
from ..orders.reordered_dataset import FOLDED, ReorderedDataset
from ..orders.special_tokens import add_end_of_decoding, end_token
from ..orders.token_order import LEFT_TO_RIGHT, TokenOrder, trained_order
from ..translating.registry import STOCK

NATURAL = "natural_target"

# Options that fairseq applies token by token or by position.
LEFT_TO_RIGHT_ONLY = (
    "--print-alignment",
    "--replace-unk",
    "--constraints",
    "--lm-path",
    "--no-repeat-ngram-size",
    "prefix_allowed_tokens_fn",
)

# fairseq has no annotations: for mypy a mixin has all attributes of the task that it is mixed into.
Task: Any = object


class TokenOrders(Task):
    """Lets a translation task use the token order of its checkpoint.

    Data on disk, references, BLEU, scores and printed tokens are in natural order; only the model's
    inputs and predictions are reordered.

    Attributes:
        token_order: the order of target tokens; ``None`` for targets that are not reordered, as in
            fairseq.
    """

    token_order: Optional[TokenOrder] = None

    def set_token_order(self, order: TokenOrder) -> None:
        """Set the order of decoding; with two tokens per step, add ``<eod>`` to dictionaries.

        It is added to the target dictionary, and to the source dictionary if they are joined.

        Raises:
            ValueError: for data options that are incompatible with the order; it names the flag.
        """
        _check_data_options(self.cfg, order)
        if order.tokens_per_step > 1:
            joined = self.src_dict == self.tgt_dict
            add_end_of_decoding(self.tgt_dict)
            if joined:
                add_end_of_decoding(self.src_dict)
        self.token_order = order

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called with the task state of a checkpoint, before its model is built.

        A task without an order adopts the checkpoint's.
        """
        trained = trained_order(state_dict)
        if self.token_order is None and trained != LEFT_TO_RIGHT and not self.datasets:
            self.set_token_order(trained)
            if trained.tokens_per_step > 1 and str(self.cfg.decoding) == STOCK:
                self.cfg.decoding = "double_token"
        super().load_state_dict(state_dict)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """See fairseq; batches also contain the folded targets."""
        super().load_dataset(split, epoch, combine, **kwargs)
        if self.token_order is not None:
            self.datasets[split] = ReorderedDataset(
                self.datasets[split], self.token_order, self.target_dictionary
            )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """See fairseq.

        Raises:
            ValueError: for a model that predicts another number of tokens per step.
        """
        model = super().build_model(cfg, from_checkpoint)
        order = self.token_order
        n_predicted = getattr(model.decoder, "tokens_per_step", 1)
        if order is not None and n_predicted != order.tokens_per_step:
            raise ValueError(
                f"--tokens-per-step {order.tokens_per_step}: --arch {cfg.arch} predicts "
                "one token a step; use --arch double_token_transformer (or one of its presets)"
            )
        return model

    def build_generator(
        self,
        models: list[Any],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Build the generator of ``--decoding``.

        Raises:
            ValueError: for an option that requires natural order, or that the method does not
                support; it names the flag.
        """
        order = self._other_order
        if order is not None:
            _check_generation_options(args, prefix_allowed_tokens_fn, order)
        generator = super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )
        if self.token_order is not None:
            _check_generator(generator, self.token_order)
        return generator

    def train_step(self, sample: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """See fairseq; the criterion gets the folded targets."""
        return super().train_step(self._folded(sample), *args, **kwargs)

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> Any:
        """See fairseq; the criterion gets the folded targets, BLEU the natural ones."""
        return super().valid_step(self._folded(sample), model, criterion)

    def _inference_with_bleu(self, generator: Any, sample: dict[str, Any], model: Any) -> Any:
        natural = {**sample, "target": sample.get(NATURAL, sample["target"])}
        return super()._inference_with_bleu(generator, natural, model)

    def inference_step(
        self,
        generator: Any,
        models: list[Any],
        sample: dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> Any:
        """See fairseq; hypotheses and the reference's scores are returned in natural order.

        Raises:
            ValueError: for a prefix if the order does not start with it.
        """
        scores_reference = isinstance(generator, SequenceScorer)
        if scores_reference:
            sample = self._folded(sample)
        elif prefix_tokens is not None and self.token_order is not None:
            self.token_order.check_prefix()
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        order = self._other_order
        if order is None or _is_natural(generator):
            return hypotheses
        dictionary = self.target_dictionary
        end = end_token(order, dictionary)
        reordered = in_natural_order(hypotheses, order, end, dictionary)
        if scores_reference:
            for (hypothesis,) in reordered:
                hypothesis["score"] = hypothesis["positional_scores"].mean()
        return reordered

    @property
    def _other_order(self) -> Optional[TokenOrder]:
        """The order of decoding; ``None`` if it is left to right."""
        return None if self.token_order == LEFT_TO_RIGHT else self.token_order

    def _folded(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The batch with folded targets, for criterions and scorers."""
        if self.token_order is None:
            return sample
        return {**sample, "target": sample[FOLDED], NATURAL: sample["target"]}


def _is_natural(generator: Any) -> bool:
    return getattr(generator, "tokens_per_step", 1) > 1


def _check_generator(generator: Any, order: TokenOrder) -> None:
    if order.tokens_per_step == 1 or isinstance(generator, SequenceScorer):
        return
    if not _is_natural(generator):
        raise ValueError(
            f"--decoding fairseq: decodes one token a step, but the model {order.tokens_per_step}; "
            "use --decoding double_token"
        )


def _check_data_options(cfg: Any, order: TokenOrder) -> None:
    if cfg.left_pad_target:
        raise ValueError("--left-pad-target: not possible with reordered targets; remove it")
    if cfg.load_alignments and order != LEFT_TO_RIGHT:
        raise ValueError(
            f"--load-alignments: alignments require targets in natural order, not {order}; remove "
            "it"
        )


def _check_generation_options(args: Any, prefix_fn: Optional[Callable], order: TokenOrder) -> None:
    wanted = asked_for(args, {}, prefix_fn)
    for flag in LEFT_TO_RIGHT_ONLY:
        if wanted[flag]:
            raise ValueError(
                f"{flag}: only for models that decode from left to right, token by token, not "
                f"{order}; remove it"
            )
