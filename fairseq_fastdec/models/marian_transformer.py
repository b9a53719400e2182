"""The transformers of Marian, which Opus-MT, Firefox and the class MarianMT have."""

import math
from typing import Any, Optional

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoder,
    TransformerModel,
    base_architecture,
)
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor, nn
from torch.nn import functional as F

from .finetuning import MARIAN, shaped_by_checkpoint
from .ssru import SSRUDecoderLayer

SINUSOIDS = ("fairseq", "marian", "transformers")


class FirstInputEmbedding(nn.Embedding):
    """The embedding of a decoder whose first input is padding, where fairseq feeds EOS.

    EOS ends outputs, so a decoder reads it only as its first input. Marian's first input is a
    vector of zeros, which is the embedding of padding in fairseq.
    """

    def __init__(self, embedding: nn.Embedding, eos: int) -> None:
        """
        Args:
            embedding: shares its weight with the new one.
            eos: the type whose embedding is that of padding.
        """
        sizes = (embedding.num_embeddings, embedding.embedding_dim, embedding.padding_idx)
        super().__init__(*sizes, _weight=embedding.weight)
        self.weight = embedding.weight
        self.eos = eos

    def forward(self, input: Tensor) -> Tensor:
        """Embed int64 tokens of any shape."""
        assert self.padding_idx is not None
        return super().forward(input.masked_fill(input.eq(self.eos), self.padding_idx))


class Sinusoids(SinusoidalPositionalEmbedding):
    """Sinusoidal positions that begin at 0, as in Marian and transformers.

    fairseq's begin at 2, since positions follow the number of padding. The class MarianMT of
    transformers has other frequencies than Marian.
    """

    weights: Tensor

    def __init__(self, dim: int, padding_idx: int, kind: str, init_size: int) -> None:
        """
        Args:
            kind: ``marian`` or ``transformers``.
            init_size: the number of positions to prepare.
        """
        nn.Module.__init__(self)
        self.embedding_dim, self.padding_idx = dim, padding_idx
        self.kind = kind
        self.max_positions = int(1e5)
        self.auto_expand, self.onnx_trace = True, False
        table = self.get_embedding(padding_idx + 1 + init_size, dim, padding_idx)
        self.register_buffer("weights", table, persistent=False)

    def get_embedding(  # type: ignore[override]
        self, num_embeddings: int, embedding_dim: int, padding_idx: int
    ) -> Tensor:
        """The table ``[N, C]``; position 0 has the index ``padding_idx + 1``."""
        half = embedding_dim // 2
        steps = max(half - 1, 1) if self.kind == "marian" else embedding_dim / 2
        scales = torch.exp(torch.arange(half, dtype=torch.float64) * (-math.log(10000) / steps))
        places = torch.arange(num_embeddings, dtype=torch.float64) - (padding_idx + 1)
        angles = places.clamp(min=0)[:, None] * scales
        table = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        table[: padding_idx + 1] = 0
        return F.pad(table, (0, embedding_dim % 2)).float()

    def forward(self, input: Tensor, *arguments: Any, **options: Any) -> Tensor:
        """See fairseq, whose class computes longer tables with its own frequencies."""
        size = self.padding_idx + 1 + input.size(1)
        if size > self.weights.size(0):
            table = self.get_embedding(2 * size, self.embedding_dim, self.padding_idx)
            self.weights = table.to(self.weights)
        return super().forward(input, *arguments, **options)


def adapt(coder: Any, args: Any) -> None:
    """Change the parts that encoders and decoders of Marian have in common.

    Args:
        coder: a stock encoder or decoder.
        args: the options of the model.
    """
    if args.sinusoids != "fairseq" and isinstance(
        coder.embed_positions, SinusoidalPositionalEmbedding
    ):
        size = coder.embed_positions.weights.size(0)
        dim = coder.embed_positions.embedding_dim
        coder.embed_positions = Sinusoids(dim, coder.padding_idx, args.sinusoids, size)
    if args.no_final_norms:
        coder.layer_norm = None
    for module in coder.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = args.norm_epsilon
        # fairseq's "swish" is the class instead of the function.
        if getattr(module, "activation_fn", None) is nn.SiLU:
            module.activation_fn = F.silu


class MarianTransformerDecoder(TransformerDecoder):
    """A stock decoder with the options of Marian, whose defaults leave it as it is."""

    def __init__(
        self, args: Any, dictionary: Any, embed_tokens: nn.Embedding, *arguments: Any, **kwargs: Any
    ) -> None:
        if args.first_input == "pad":
            embed_tokens = FirstInputEmbedding(embed_tokens, dictionary.eos())
        super().__init__(args, dictionary, embed_tokens, *arguments, **kwargs)
        adapt(self, args)

    def build_output_projection(self, args: Any, dictionary: Any, embed_tokens: Any) -> None:
        """The stock output layer; with ``--output-bias`` it has a bias, at first zeros."""
        super().build_output_projection(args, dictionary, embed_tokens)
        if self.args.output_bias:
            zeros = torch.zeros(self.output_projection.weight.size(0))
            self.output_projection.bias = nn.Parameter(zeros)

    def build_decoder_layer(self, args: Any, no_encoder_attn: bool = False) -> nn.Module:
        """A stock layer, or one with a recurrent unit in place of self-attention."""
        if self.args.decoder_autoreg == "ssru":
            return SSRUDecoderLayer(TransformerConfig.from_namespace(args), no_encoder_attn)
        return super().build_decoder_layer(args, no_encoder_attn)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> Any:
        """Accept checkpoints without a bias of the output layer, which is then zero."""
        super().upgrade_state_dict_named(state_dict, name)
        bias = getattr(self.output_projection, "bias", None)
        if bias is not None:
            state_dict.setdefault(f"{name}.output_projection.bias", bias.detach().clone())
        return state_dict


@register_model("marian_transformer")
class MarianTransformerModel(TransformerModel):
    """A stock transformer with the options of Marian."""

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """Add the options of the transformer and of Marian."""
        super().add_args(parser)
        for action in parser._actions:
            if action.dest == "activation_fn" and action.choices is not None:
                action.choices = [*action.choices, "swish"]
        parser.add_argument(
            "--output-bias",
            action="store_true",
            help="the output layer has a bias",
        )
        parser.add_argument(
            "--first-input",
            choices=["eos", "pad"],
            help="the decoder's first input: eos (default), or pad, whose embedding is zero",
        )
        parser.add_argument(
            "--sinusoids",
            choices=SINUSOIDS,
            help="sinusoidal positions: those of fairseq (default), which begin at 2, or those of "
            "Marian or of MarianMT in transformers, which begin at 0",
        )
        parser.add_argument(
            "--norm-epsilon",
            type=float,
            metavar="E",
            help="the epsilon of layer norms (default: 1e-5)",
        )
        parser.add_argument(
            "--no-final-norms",
            action="store_true",
            help="with --encoder-normalize-before and --decoder-normalize-before: no norm after "
            "the last layer",
        )
        parser.add_argument(
            "--decoder-autoreg",
            choices=["self-attention", "ssru"],
            help="how decoder layers read the output so far: by self-attention (default), or by a "
            "recurrent unit, whose cost does not depend on the length",
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "MarianTransformerModel":
        """Build a new model."""
        complete_marian(args)
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Embedding) -> Any:
        """The stock encoder with the options of Marian."""
        encoder = super().build_encoder(args, src_dict, embed_tokens)
        adapt(encoder, args)
        return encoder

    @classmethod
    def build_decoder(
        cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding
    ) -> MarianTransformerDecoder:
        """The decoder."""
        return MarianTransformerDecoder(args, tgt_dict, embed_tokens)


def complete_marian(args: Any) -> None:
    """Fill in the options of Marian; the defaults are those of a stock transformer.

    Raises:
        ValueError: for an unknown value.
    """
    for name, default in MARIAN.items():
        setattr(args, name, getattr(args, name, default))
    for name, known in (
        ("first_input", ("eos", "pad")),
        ("sinusoids", SINUSOIDS),
        ("decoder_autoreg", ("self-attention", "ssru")),
    ):
        if getattr(args, name) not in known:
            flag = "--" + name.replace("_", "-")
            raise ValueError(f"{flag} {getattr(args, name)}: choose from {', '.join(known)}")


def _as_marian(args: Any, **defaults: Optional[Any]) -> None:
    usual = {
        "output_bias": True,
        "first_input": "pad",
        "sinusoids": "marian",
        "norm_epsilon": 1e-6,
        "share_all_embeddings": True,
    }
    for name, default in {**usual, **defaults}.items():
        setattr(args, name, getattr(args, name, default))
    base_architecture(args)
    complete_marian(args)


@register_model_architecture("marian_transformer", "marian_transformer")
@shaped_by_checkpoint
def base_marian_architecture(args: Any) -> None:
    """The transformer of Opus-MT: six layers of 512, swish, one vocabulary."""
    _as_marian(args, activation_fn="swish", no_cross_attention=False)


@register_model_architecture("marian_transformer", "ssru_transformer")
@shaped_by_checkpoint
def ssru_architecture(args: Any) -> None:
    """The tiny student of Firefox: six encoder layers and two decoder layers of 256."""
    _as_marian(
        args,
        decoder_autoreg="ssru",
        encoder_embed_dim=256,
        encoder_ffn_embed_dim=1536,
        encoder_attention_heads=8,
        decoder_ffn_embed_dim=1536,
        decoder_layers=2,
    )
