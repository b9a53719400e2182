"""A transformer whose k heads predict the next k tokens (Stern et al. 2018, sections 4 and 6)."""

import logging
import os
from collections.abc import Sequence
from typing import Any, Optional

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import base_architecture
from torch import Tensor, nn

from ..criterions.random_sub_loss import RandomSubLoss
from ..packing.stock_decoders import layers_of
from .block_heads import BlockHeads
from .finetuning import HEADS, register_presets, shaped_by_checkpoint
from .marian_transformer import (
    MarianTransformerDecoder,
    MarianTransformerModel,
    complete_marian,
)
from .sequential_heads import DraftContext, SequentialHeads

logger = logging.getLogger(__name__)


class BlockwiseTransformerDecoder(MarianTransformerDecoder):
    """A stock decoder with heads between its features and its output layer.

    Head 0 is the paper's p_1, and the default output: fairseq's generators, scorers and criterions
    use it without knowing about the other heads. These are the paper's :class:`BlockHeads`, or
    :class:`SequentialHeads`, which also see the tokens between p_1 and theirs.
    """

    def __init__(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        """
        Raises:
            ValueError: for invalid options; the message names the flag.
        """
        _check_options(args)
        super().__init__(args, dictionary, embed_tokens)
        self.block_size: int = args.block_size
        self.identity_first_head: bool = args.identity_first_head
        self.heads_are_sequential = args.block_heads == "sequential"
        options = dict(
            hidden_dim=args.block_ffn_embed_dim or args.decoder_ffn_embed_dim,
            # Compiled code has no parallel heads with swish.
            activation="relu" if args.activation_fn == "swish" else args.activation_fn,
            dropout=args.dropout,
            activation_dropout=args.activation_dropout or getattr(args, "relu_dropout", 0.0),
        )
        self.heads: Any
        if self.heads_are_sequential:
            self.heads = SequentialHeads(
                dim=self.output_embed_dim,
                embed_dim=embed_tokens.embedding_dim,
                source_dim=args.decoder_embed_dim,
                n_attention_heads=args.decoder_attention_heads,
                output_rank=self._output_rank(args),
                **options,
            )
        else:
            self.heads = BlockHeads(
                n_heads=self.block_size - int(self.identity_first_head),
                dim=self.output_embed_dim,
                shared=args.block_ffn == "shared",
                **options,
            )

    def _output_rank(self, args: Any) -> Optional[int]:
        rank, dim = args.block_output_rank, self.output_embed_dim
        if rank is not None and not 0 < rank < dim:
            raise ValueError(
                f"--block-output-rank {rank}: must be at least 1 and less than the output "
                f"layer's {dim} inputs"
            )
        return rank

    def draft_context(self, prev_output_tokens: Tensor, encoder_out: Any) -> Optional[DraftContext]:
        """The inputs of sequential heads other than the features; ``None`` for parallel heads.

        Args:
            prev_output_tokens: int64 ``[B, T]``.
        """
        if not self.heads_are_sequential:
            return None
        attention = layers_of(self)[-1].encoder_attn
        states = encoder_out["encoder_out"][0].transpose(0, 1)
        keys, values = (
            projection(states).unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
            for projection in (attention.k_proj, attention.v_proj)
        )
        padding = encoder_out["encoder_padding_mask"]
        embedded = self.embed_scale * self.embed_tokens(prev_output_tokens)
        return DraftContext(embedded, keys, values, padding[0] if padding else None)

    def head_features(
        self, features: Tensor, first: int, last: int, context: Optional[DraftContext] = None
    ) -> Tensor:
        """The features of heads ``first ... last - 1``.

        Args:
            features: ``[..., C]`` from ``extract_features``; ``[B, T, C]`` for sequential heads.
            context: the result of :meth:`draft_context`, for sequential heads.

        Returns:
            ``[..., last - first, C]``, ready for ``output_layer``

        Raises:
            IndexError: for a range that is empty or exceeds the number of heads.
        """
        if not 0 <= first < last <= self.block_size:
            raise IndexError(f"no heads {first} to {last - 1}: block_size {self.block_size}")
        seen = () if context is None else (context,)
        if not self.identity_first_head:
            return self.heads(features, first, last, *seen)
        if first > 0:
            return self.heads(features, first - 1, last - 1, *seen)
        base = features.unsqueeze(-2)
        if last == 1:
            return base
        return torch.cat([base, self.heads(features, 0, last - 1, *seen)], dim=-2)

    def features_by_head(
        self, features: Tensor, places: Sequence[Tensor], context: Optional[DraftContext] = None
    ) -> Tensor:
        """The features of each head at a list of positions of that head.

        Args:
            features: ``[B, T, C]`` from ``extract_features``.
            places: for each head, p_1 first, int64 ``[P_i]``: indices into the B T positions, in
                ascending order.
            context: the result of :meth:`draft_context`, for sequential heads.

        Returns:
            ``[P_1 + ... + P_k, C]``, one head after the other, ready for ``output_layer``
        """
        rows = features.flatten(0, 1)
        if context is not None:
            of_steps = self.heads.at_places(features, places[1:], context)
            return torch.cat([rows[places[0]], *of_steps])
        # A head without positions takes part, too: DDP waits for the gradient of its parameters.
        return torch.cat(
            [
                self.head_features(rows[head_places], head, head + 1).squeeze(-2)
                for head, head_places in enumerate(places)
            ]
        )

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[dict[str, Any]] = None,
        incremental_state: Optional[dict[str, Any]] = None,
        features_only: bool = False,
        head: int = 0,
        heads: Optional[tuple[int, int]] = None,
        places: Optional[Sequence[Tensor]] = None,
        **options: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The stock decoder's ``forward``, for one head or several.

        Args:
            prev_output_tokens: int64 ``[B, T]``.
            features_only: skip the output layer; return the base features ``[B, T, C]``, or with
                ``heads`` the features of these heads, ``[B, T, last - first, C]``.
            head: 0 for p_1, ... , k - 1 for p_k.
            heads: ``(first, last)``: compute heads ``first ... last - 1`` instead of ``head``.
            places: compute all heads instead of ``head``, at these positions; see
                :meth:`features_by_head`.

        Returns:
            logits ``[B, T, V]``, ``[B, T, last - first, V]`` with ``heads`` or
            ``[P_1 + ... + P_k, V]`` with ``places``, and the stock decoder's extras

        Raises:
            IndexError: for heads that the model does not have.
        """
        features, extra = super().forward(
            prev_output_tokens,
            encoder_out=encoder_out,
            incremental_state=incremental_state,
            features_only=True,
            **options,
        )
        if features_only and heads is None:
            return features, extra
        first, last = heads or (head, head + 1)
        context = None
        if last > 1 or places is not None:
            context = self.draft_context(prev_output_tokens, encoder_out)
        if places is not None:
            return self.output_layer(self.features_by_head(features, places, context)), extra
        # With a frozen weight, torch multiplies features of another layout sentence by sentence.
        chosen = self.head_features(features.contiguous(), first, last, context)
        if features_only:
            return chosen, extra
        if self.training and self.identity_first_head and last == 1:
            chosen = chosen + self._zero_of_heads()
        return self.output_layer(chosen if heads else chosen.squeeze(-2)), extra

    def _zero_of_heads(self) -> Tensor:
        # The identity head reads no parameters, but DDP waits for the gradient of each.
        return 0 * torch.stack([p.flatten()[0] for p in self.heads.parameters()]).sum()

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> Any:
        """Accept stock checkpoints, whose state gets the model's initial heads.

        Raises:
            ValueError: for a checkpoint whose heads differ in kind, number or size.
        """
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}.heads." if name else "heads."
        initial = {prefix + key: value for key, value in self.heads.state_dict().items()}
        given = [key for key in state_dict if key.startswith(prefix)]
        if not given:
            beginning = "at random" if self.heads_are_sequential else "as the identity"
            logger.debug("the checkpoint has no prediction heads: they start %s", beginning)
            state_dict.update(initial)
        elif not any(key in initial for key in given):
            raise ValueError(
                "the checkpoint's prediction heads do not match --block-heads "
                f"{'sequential' if self.heads_are_sequential else 'parallel'}; use the other kind"
            )
        for key in given:
            if key in initial and state_dict[key].shape != initial[key].shape:
                raise ValueError(
                    f"the checkpoint's {key} is {list(state_dict[key].shape)}, this model's "
                    f"{list(initial[key].shape)}: --block-size, --identity-first-head, "
                    "--block-ffn, --block-ffn-embed-dim and --block-output-rank must be those of "
                    "the checkpoint"
                )
        return state_dict


@register_model("blockwise_transformer")
class BlockwiseTransformerModel(MarianTransformerModel):
    """A stock transformer plus heads; ``--finetune-from-model`` takes a stock checkpoint."""

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options of the transformer and of the heads."""
        super().add_args(parser)
        parser.add_argument(
            "--block-size",
            type=int,
            metavar="K",
            help="number of prediction heads: p_1 ... p_K predict the next K tokens (default: 4)",
        )
        parser.add_argument(
            "--identity-first-head",
            action="store_true",
            help="p_1 is the base model itself, not a learned head",
        )
        parser.add_argument(
            "--freeze-base",
            action="store_true",
            help="train only the heads; with --identity-first-head the output of decoding stays "
            "that of the pretrained model",
        )
        parser.add_argument(
            "--block-heads",
            choices=["parallel", "sequential"],
            help="parallel (default): the paper's heads, independent of each other; sequential: "
            "one small layer, shared by all heads, that also sees the preceding tokens and the "
            "source; needs --identity-first-head",
        )
        parser.add_argument(
            "--block-ffn",
            choices=["shared", "split"],
            help="for parallel heads: shared (default, as in the paper): every head reads all K "
            "times N hidden units; split: each head reads N of them, with 2/(K+1) of the "
            "multiplications",
        )
        parser.add_argument(
            "--block-ffn-embed-dim",
            type=int,
            metavar="N",
            help="hidden units per head, or of the shared layer of sequential heads (default: "
            "--decoder-ffn-embed-dim)",
        )
        parser.add_argument(
            "--block-output-rank",
            type=int,
            metavar="R",
            help="project the states of sequential heads to R dimensions for the output layer, "
            "which makes drafts cheaper with a large vocabulary (default: no projection)",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "BlockwiseTransformerModel":
        """Build a new model; with ``--freeze-base`` only the heads are trainable."""
        base_blockwise_architecture(args)
        model = super().build_model(args, task)
        if args.freeze_base:
            model.requires_grad_(False)
            model.decoder.heads.requires_grad_(True)
        return model

    @classmethod
    def build_decoder(
        cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding
    ) -> BlockwiseTransformerDecoder:
        """The decoder with heads."""
        return BlockwiseTransformerDecoder(args, tgt_dict, embed_tokens)

    def __init__(self, args: Any, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__(args, encoder, decoder)
        self.freeze_base: bool = args.freeze_base
        self.num_updates = 0

    def train(self, mode: bool = True) -> "BlockwiseTransformerModel":
        """Set the mode; a frozen base stays in evaluation mode, so that heads see its real states.

        With dropout, a model that was trained without, such as Firefox's, computes other tokens.
        """
        super().train(mode)
        if mode and self.freeze_base:
            for base in (self.encoder, *self.decoder.children()):
                base.train(base is self.decoder.heads)
        return self

    def set_num_updates(self, num_updates: int) -> None:
        """Called by the trainer before each update."""
        super().set_num_updates(num_updates)
        self.num_updates = num_updates

    def warn_of_training(self, cfg: Any, criterion: Any) -> None:
        """Called by fairseq-train before training: warn of parts that would not be trained."""
        start = cfg.checkpoint
        saved = os.path.join(start.save_dir, os.path.basename(start.restore_file))
        if self.freeze_base and not (
            start.finetune_from_model
            or any(os.path.exists(path) for path in (start.restore_file, saved))
        ):
            logger.warning(
                "--freeze-base: the parameters of the base are random and will not be trained; "
                "give a trained model, with --finetune-from-model CHECKPOINT"
            )
        if self.decoder.block_size > 1 and not isinstance(criterion, RandomSubLoss):
            logger.warning(
                "--criterion %s: trains p_1, but not the other prediction heads; use --criterion "
                "random_sub_loss",
                cfg.criterion._name,
            )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor,
        prev_output_tokens: Tensor,
        head: int = 0,
        **options: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The logits ``[B, T, V]`` of one head for teacher-forced targets.

        Args:
            src_tokens: int64 ``[B, S]``; src_lengths: int64 ``[B]``.
            prev_output_tokens: int64 ``[B, T]``.
            head: 0 for p_1, ... , k - 1 for p_k.
            options: of the decoder's ``forward``, such as ``heads`` and ``places``.
        """
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths)
        return self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            src_lengths=src_lengths,
            head=head,
            **options,
        )


def _check_options(args: Any) -> None:
    if args.block_size < 1:
        raise ValueError(f"--block-size {args.block_size}: must be at least 1")
    if args.identity_first_head and args.block_size == 1:
        raise ValueError(
            "--block-size 1 with --identity-first-head: there is no head to train; use a larger "
            "--block-size or --arch transformer"
        )
    if args.block_heads not in ("parallel", "sequential"):
        raise ValueError(f"--block-heads {args.block_heads}: choose parallel or sequential")
    if args.block_heads == "sequential" and not args.identity_first_head:
        raise ValueError("--block-heads sequential: needs --identity-first-head")
    if args.block_heads == "sequential" and args.block_ffn == "split":
        raise ValueError(
            "--block-ffn split: cannot be combined with --block-heads sequential, whose heads "
            "share one layer; remove it"
        )
    if args.block_ffn not in ("shared", "split"):
        raise ValueError(f"--block-ffn {args.block_ffn}: choose shared or split")
    if args.block_heads == "parallel" and args.block_output_rank is not None:
        raise ValueError(
            f"--block-output-rank {args.block_output_rank}: needs --block-heads sequential; add "
            "that, or remove it"
        )
    if args.block_ffn_embed_dim is not None and args.block_ffn_embed_dim < 1:
        raise ValueError(f"--block-ffn-embed-dim {args.block_ffn_embed_dim}: must be at least 1")
    if args.adaptive_softmax_cutoff is not None:
        raise ValueError(
            f"--adaptive-softmax-cutoff {args.adaptive_softmax_cutoff}: the heads need one "
            "linear output layer; remove it"
        )


@register_model_architecture("blockwise_transformer", "blockwise_transformer")
@shaped_by_checkpoint
def base_blockwise_architecture(args: Any) -> None:
    """fairseq's ``transformer`` with heads."""
    for name, default in {**HEADS, "freeze_base": False}.items():
        setattr(args, name, getattr(args, name, default))
    base_architecture(args)
    complete_marian(args)


register_presets("blockwise_transformer", base_blockwise_architecture)
