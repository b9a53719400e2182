"""Translation with another order of target tokens, one or two per step."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from ..orders.token_order import ORDERS, TokenOrder
from .translation_fastdec import TranslationFastdecConfig, TranslationFastdecTask


@dataclass
class TranslationDoubleTokenConfig(TranslationFastdecConfig):
    """The options of ``translation`` and the order of decoding."""

    decoding: Optional[str] = field(  # type: ignore[assignment]
        default=None,
        metadata={
            "help": "decoding method: double_token, or with --tokens-per-step 1 any method of "
            "translation (default: double_token; beam with --tokens-per-step 1)"
        },
    )
    token_order: ChoiceEnum(list(ORDERS)) = field(
        default="bidirectional",
        metadata={
            "help": "order in which target tokens are decoded: bidirectional = from both ends to "
            "the middle; l2r = left to right; r2l = right to left",
            "group": "order of decoding",
        },
    )
    tokens_per_step: int = field(
        default=2,
        metadata={
            "help": "number of target tokens decoded per step, 1 or 2",
            "group": "order of decoding",
        },
    )


@register_task("translation_double_token", dataclass=TranslationDoubleTokenConfig)
class TranslationDoubleTokenTask(TranslationFastdecTask):
    """Translation in the orders compared by Imamura and Sumita (2020).

    Data on disk, references, BLEU, scores and printed tokens are in natural order; only the model's
    inputs and predictions are reordered. The order is saved in checkpoints.
    """

    cfg: TranslationDoubleTokenConfig

    def __init__(self, cfg: TranslationDoubleTokenConfig, src_dict: Any, tgt_dict: Any) -> None:
        """
        Args:
            src_dict, tgt_dict: with two tokens per step, ``<eod>`` is added to the target
                dictionary, and to the source dictionary if they are joined.

        Raises:
            ValueError: for options that are incompatible with the order; it names the flag.
        """
        order = TokenOrder(str(cfg.token_order), cfg.tokens_per_step)
        if cfg.decoding is None:
            cfg.decoding = "beam" if cfg.tokens_per_step == 1 else "double_token"
        super().__init__(cfg, src_dict, tgt_dict)
        self.set_token_order(order)
        self.state.merge_state_dict(
            {"token_order": order.name, "tokens_per_step": order.tokens_per_step}
        )
