"""Translation with targets in another order, one or two tokens a step."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from ..data.token_order import ORDERS, TokenOrder
from .translation_fastdec import TranslationFastdecConfig, TranslationFastdecTask


@dataclass
class TranslationDoubleTokenConfig(TranslationFastdecConfig):
    """All options of ``translation_fastdec``, and the order of decoding."""

    decoding: Optional[str] = field(  # type: ignore[assignment]
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
        order = TokenOrder(str(cfg.token_order), cfg.tokens_per_step)
        if cfg.decoding is None:
            cfg.decoding = "beam" if cfg.tokens_per_step == 1 else "double_token"
        super().__init__(cfg, src_dict, tgt_dict)
        self.set_token_order(order)
        self.state.merge_state_dict(
            {"token_order": order.name, "tokens_per_step": order.tokens_per_step}
        )
