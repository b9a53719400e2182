"""Translation with targets in another order, one or two tokens a step."""

import logging
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import register_task
from torch import Tensor

from ..data.reordered_dataset import FOLDED, ReorderedDataset
from ..data.special_tokens import add_end_of_decoding, end_token
from ..data.token_order import LEFT_TO_RIGHT, ORDERS, TokenOrder
from ..generators import asked_for
from ..generators.double_token.natural_order import in_natural_order
from .translation_fastdec import TranslationFastdecConfig, TranslationFastdecTask

logger = logging.getLogger(__name__)

NATURAL = "natural_target"

# Options that fairseq's generators and scripts apply token by token, or to tokens at their places.
LEFT_TO_RIGHT_ONLY = (
    "--print-alignment",
    "--replace-unk",
    "--constraints",
    "--lm-path",
    "--no-repeat-ngram-size",
    "prefix_allowed_tokens_fn",
)


@dataclass
class TranslationDoubleTokenConfig(TranslationFastdecConfig):
    """All options of ``translation_fastdec``, and the order of decoding."""

    decoding: Optional[str] = field(
        default=None,
        metadata={
            "help": "decoding method: double_token, or with --tokens-per-step 1 any that "
            "translation_fastdec has (default: double_token; beam with --tokens-per-step 1)"
        },
    )
    token_order: ChoiceEnum(list(ORDERS)) = field(
        default="bidirectional",
        metadata={
            "help": "the order in which target tokens are decoded: bidirectional = from both ends "
            "to the middle; l2r = from left to right; r2l = from right to left",
            "group": "order of decoding",
        },
    )
    tokens_per_step: int = field(
        default=2,
        metadata={
            "help": "how many target tokens are decoded at once, 1 or 2",
            "group": "order of decoding",
        },
    )


@register_task("translation_double_token", dataclass=TranslationDoubleTokenConfig)
class TranslationDoubleTokenTask(TranslationFastdecTask):
    """Translation in the orders that Imamura and Sumita 2020 compare.

    Data on disk, references, BLEU, scores and printed tokens are in the natural order; only what
    the model reads and predicts is not. Checkpoints remember their order.
    """

    cfg: TranslationDoubleTokenConfig

    def __init__(self, cfg: TranslationDoubleTokenConfig, src_dict: Any, tgt_dict: Any) -> None:
        """
        Args:
            src_dict, tgt_dict: with two tokens a step ``<eod>`` is added to the target dictionary,
                and to the source dictionary if they are joined.

        Raises:
            ValueError: for options that do not go with the order; it names the flag.
        """
        self.token_order = TokenOrder(str(cfg.token_order), cfg.tokens_per_step)
        _check_data_options(cfg, self.token_order)
        if cfg.decoding is None:
            cfg.decoding = "beam" if cfg.tokens_per_step == 1 else "double_token"
        if cfg.tokens_per_step > 1:
            joined = src_dict == tgt_dict
            add_end_of_decoding(tgt_dict)
            if joined:
                add_end_of_decoding(src_dict)
        super().__init__(cfg, src_dict, tgt_dict)
        self.state.merge_state_dict(
            {"token_order": self.token_order.name, "tokens_per_step": cfg.tokens_per_step}
        )

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """As in fairseq; batches then have folded targets besides the natural ones."""
        super().load_dataset(split, epoch, combine, **kwargs)
        self.datasets[split] = ReorderedDataset(
            self.datasets[split], self.token_order, self.target_dictionary
        )

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """As in fairseq.

        Raises:
            ValueError: for a model that does not predict so many tokens a step.
        """
        model = super().build_model(cfg, from_checkpoint)
        n_predicted = getattr(model.decoder, "tokens_per_step", 1)
        if n_predicted != self.token_order.tokens_per_step:
            raise ValueError(
                f"--tokens-per-step {self.token_order.tokens_per_step}: --arch {cfg.arch} predicts "
                "one token a step; use --arch double_token_transformer (or one of its presets)"
            )
        return model

    def build_generator(
        self,
        models: List[Any],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Build the generator that ``--decoding`` names.

        Raises:
            ValueError: for an option that goes with no other order than the natural one, or that
                the method cannot honour; it names the flag.
        """
        if self.token_order != LEFT_TO_RIGHT:
            _check_generation_options(args, prefix_allowed_tokens_fn, self.token_order)
        generator = super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
        )
        _check_generator(generator, self.token_order)
        return generator

    def train_step(self, sample: Dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """As in fairseq; the criterion sees the folded targets."""
        return super().train_step(_folded(sample), *args, **kwargs)

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Any:
        """As in fairseq; the criterion sees the folded targets, BLEU the natural ones."""
        return super().valid_step(_folded(sample), model, criterion)

    def _inference_with_bleu(self, generator: Any, sample: Dict[str, Any], model: Any) -> Any:
        natural = {**sample, "target": sample[NATURAL]}
        return super()._inference_with_bleu(generator, natural, model)

    def inference_step(
        self,
        generator: Any,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> Any:
        """As in fairseq; hypotheses and the reference's scores come in the natural order.

        Raises:
            ValueError: for a prefix that is not what is decoded first.
        """
        scores_reference = isinstance(generator, SequenceScorer)
        if scores_reference:
            sample = _folded(sample)
        elif prefix_tokens is not None:
            self.token_order.check_prefix()
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        if self.token_order == LEFT_TO_RIGHT or _is_natural(generator):
            return hypotheses
        dictionary = self.target_dictionary
        end = end_token(self.token_order, dictionary)
        reordered = in_natural_order(hypotheses, self.token_order, end, dictionary)
        if scores_reference:
            for (hypothesis,) in reordered:
                hypothesis["score"] = hypothesis["positional_scores"].mean()
        return reordered


def _folded(sample: Dict[str, Any]) -> Dict[str, Any]:
    """The batch as criterions and scorers need it."""
    return {**sample, "target": sample[FOLDED], NATURAL: sample["target"]}


def _is_natural(generator: Any) -> bool:
    return getattr(generator, "tokens_per_step", 1) > 1


def _check_generator(generator: Any, order: TokenOrder) -> None:
    if order.tokens_per_step == 1 or isinstance(generator, SequenceScorer):
        return
    if not _is_natural(generator):
        raise ValueError(
            f"--decoding fairseq: decodes one token a step, and the model {order.tokens_per_step}; "
            "use --decoding double_token"
        )


def _check_data_options(cfg: TranslationDoubleTokenConfig, order: TokenOrder) -> None:
    if cfg.left_pad_target:
        raise ValueError(
            "--left-pad-target: targets are reordered from their first token on; remove it"
        )
    if cfg.load_alignments and order != LEFT_TO_RIGHT:
        raise ValueError(
            f"--load-alignments: alignments are for targets in the natural order, not for {order}; "
            "remove it"
        )


def _check_generation_options(args: Any, prefix_fn: Optional[Callable], order: TokenOrder) -> None:
    wanted = asked_for(args, {}, prefix_fn)
    for flag in LEFT_TO_RIGHT_ONLY:
        if wanted[flag]:
            raise ValueError(
                f"{flag}: only possible where sentences are decoded from left to right, token by "
                f"token; this model is of {order}; remove it"
            )
