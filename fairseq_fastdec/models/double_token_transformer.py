"""A transformer that predicts two tokens a step (Imamura and Sumita 2020, section 3)."""

import logging
import math
from typing import Any, Optional

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerDecoder, TransformerModel, base_architecture
from torch import Tensor, nn

from ..orders.token_order import TokenOrder
from .finetuning import register_presets, shaped_by_checkpoint
from .from_one_token import complete

logger = logging.getLogger(__name__)


class DoubleTokenTransformerDecoder(TransformerDecoder):
    """A stock decoder whose self-attention is causal by steps instead of by tokens (Figure 1(b)).

    Each position sees all positions of its step and of earlier steps. With one token a step it is
    the stock decoder.
    """

    def __init__(
        self, args: Any, dictionary: Any, embed_tokens: nn.Embedding, order: TokenOrder
    ) -> None:
        """
        Args:
            order: the order of the targets that the model is trained on.
        """
        super().__init__(args, dictionary, embed_tokens)
        self.token_order = order

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens predicted at once; they attend to each other."""
        return self.token_order.tokens_per_step

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[dict[str, Any]] = None,
        incremental_state: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The stock decoder's ``forward``, for targets in decoding order.

        Args:
            prev_output_tokens: int64 ``[B, T]``, the targets shifted by one step.

        Returns:
            logits ``[B, T, V]``, where position t predicts target t, and the stock decoder's extras

        Raises:
            ValueError: for incremental decoding by fairseq's generators, which feed single tokens.
        """
        if incremental_state is not None and self.tokens_per_step > 1:
            raise ValueError(
                f"the model predicts {self.tokens_per_step} tokens a step, which fairseq's "
                "generators do not support; use --task translation_double_token --decoding "
                "double_token"
            )
        return super().forward(
            prev_output_tokens,
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            **options,
        )

    _future_mask: Tensor

    def buffered_future_mask(self, tensor: Tensor) -> Tensor:
        """The additive mask ``[T, T]``, queries by keys, for inputs ``[T, B, C]``."""
        length = tensor.size(0)
        mask = self._future_mask
        if mask.size(0) < length or mask.device != tensor.device:
            step = torch.arange(length, device=tensor.device) // self.tokens_per_step
            mask = tensor.new_zeros(length, length)
            mask = mask.masked_fill_(step > step[:, None], -math.inf)
        self._future_mask = mask.to(tensor)
        return self._future_mask[:length, :length]


@register_model("double_token_transformer")
class DoubleTokenTransformerModel(TransformerModel):
    """A stock transformer with another decoder mask and learned decoder positions.

    ``--task translation_double_token`` sets the order of its targets. ``--finetune-from-model``
    also accepts checkpoints of other orders and of stock transformers.
    """

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "DoubleTokenTransformerModel":
        """Build a new model for the task's order.

        Raises:
            ValueError: if the task does not reorder its targets.
        """
        order = getattr(task, "token_order", None)
        if order is None:
            raise ValueError(
                f"--arch {args.arch}: needs reordered targets; use "
                "--task translation_double_token, or --arch transformer"
            )
        args.token_order, args.tokens_per_step = order.name, order.tokens_per_step
        base_double_token_architecture(args)
        return super().build_model(args, task)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Accept checkpoints of one token a step; see :func:`~.from_one_token.complete`."""
        super().upgrade_state_dict_named(state_dict, name)
        decoder = self.decoder
        initial = self.state_dict()
        if complete(state_dict, initial, decoder.dictionary, decoder.tokens_per_step):
            logger.debug(
                "the checkpoint is of a model of one token a step: its positions now count steps, "
                "and missing parameters are initialised as in a new model"
            )

    @classmethod
    def build_decoder(
        cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding
    ) -> DoubleTokenTransformerDecoder:
        """The decoder for the order in ``args``."""
        order = TokenOrder(str(args.token_order), args.tokens_per_step)
        return DoubleTokenTransformerDecoder(args, tgt_dict, embed_tokens, order)


@register_model_architecture("double_token_transformer", "double_token_transformer")
@shaped_by_checkpoint
def base_double_token_architecture(args: Any) -> None:
    """fairseq's ``transformer`` with learned decoder positions.

    Sinusoids encode distances between positions, but the tokens of a pair are not adjacent in the
    sentence (section 3.1).
    """
    args.decoder_learned_pos = True
    base_architecture(args)


register_presets("double_token_transformer", base_double_token_architecture)
