"""Reads directories of Hugging Face: Marian (Opus-MT), M2M-100, NLLB-200, mBART, BART and FSMT.

The package transformers is not needed, and no code of a directory is run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from ..models.finetuning import MARIAN
from ..models.marian_transformer import Sinusoids
from .building import SPECIAL
from .fields import Fields
from .huggingface_bart import read_bart
from .huggingface_formats import Format
from .huggingface_fsmt import read_fsmt
from .huggingface_generation import Generation
from .huggingface_marian import read_marian
from .huggingface_multilingual import read_multilingual
from .huggingface_parameters import Embeddings, Parameters, layer_shapes
from .imported import Imported, UnreadableModel
from .tensors import read_tensors
from .vocabularies import NumberedVocabulary, Order, tokenizer_class

# fairseq's names of the activation functions of transformers.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "swish": "swish",
    "silu": "swish",
    "tanh": "tanh",
    "linear": "linear",
}
SIDES = ("encoder", "decoder")
# The default of transformers.
MAX_POSITIONS = 1024
# Tables of sinusoids can be rounded to bf16.
ROUNDED = 1e-2


@dataclass(frozen=True)
class ModelClass:
    """A class of transformers.

    Attributes:
        vocabulary: reads the vocabulary.
        is_pre_norm: whether norms precede the parts of a layer, and one follows the last layer.
        has_learned_positions: whether positions are learned; otherwise they are sinusoids.
        norms_embeddings: whether a norm follows the embeddings.
        activation, scales, forced_eos, is_tied: ``activation_function``, ``scale_embedding``,
            ``forced_eos_token_id`` and ``tie_word_embeddings`` of a config without them.
        sinusoids: see :class:`~fairseq_fastdec.models.marian_transformer.Sinusoids`.
    """

    vocabulary: Callable[[Path, Fields], NumberedVocabulary]
    is_pre_norm: bool
    has_learned_positions: bool
    norms_embeddings: bool
    activation: str = "gelu"
    scales: bool = False
    forced_eos: Optional[int] = 2
    sinusoids: str = "fairseq"
    is_tied: bool = True

    @property
    def norms(self) -> list[str]:
        """The norms of a side that are outside its layers."""
        return ["layernorm_embedding"] * self.norms_embeddings + ["layer_norm"] * self.is_pre_norm


CLASSES = {
    "marian": ModelClass(read_marian, False, False, False, forced_eos=0, sinusoids="transformers"),
    "m2m_100": ModelClass(
        read_multilingual, True, False, False, activation="relu", scales=True, forced_eos=None
    ),
    "mbart": ModelClass(read_multilingual, True, True, True),
    "bart": ModelClass(read_bart, False, True, True),
    "fsmt": ModelClass(
        read_fsmt, False, False, False, activation="relu", scales=True, is_tied=False
    ),
}
TOKENIZERS = {
    "MarianTokenizer": read_marian,
    "M2M100Tokenizer": read_multilingual,
    "NllbTokenizer": read_multilingual,
    "MBartTokenizer": read_multilingual,
    "MBart50Tokenizer": read_multilingual,
    "BartTokenizer": read_bart,
    # transformers 5 gives the tokenizer of BART this name.
    "RobertaTokenizer": read_bart,
    "FSMTTokenizer": read_fsmt,
}


def read(directory: Union[str, Path]) -> Imported:
    """Read a model.

    Args:
        directory: has ``config.json``, parameters, and the files of the tokenizer.

    Raises:
        OSError: if a file is missing.
        UnreadableModel: if a file is damaged, or if fairseq's modules cannot compute the same.
    """
    directory = Path(directory)
    config = Fields.read(directory / "config.json", required=True)
    kind = CLASSES.get(config.text("model_type") or "")
    if kind is None:
        raise config.problem("model_type", f"those that can be read are {', '.join(CLASSES)}")
    vocabulary = _vocabulary(directory, config, kind)
    pad = _check_special(config, vocabulary)
    generation = Generation.read(directory, config, kind.forced_eos)
    form = Format.of(vocabulary, generation)
    source, target = Order.of(vocabulary.source), Order.of(vocabulary.target)
    options = _options(config, kind)
    parameters = Parameters(directory, read_tensors(directory))
    is_tied = config.flag("tie_word_embeddings", kind.is_tied)
    embeddings = Embeddings.take(parameters, source, target, is_tied, generation.bans_only(pad))
    state = {**embeddings.state(), **_layers(config, kind, parameters)}
    parameters.check_all_used()
    marian = {
        **MARIAN,
        "output_bias": embeddings.bias is not None,
        "first_input": form.first_input,
        "sinusoids": kind.sinusoids,
    }
    options |= embeddings.sharing()
    is_stock = marian == MARIAN and options["activation_fn"] != "swish"
    if not is_stock:
        options |= marian
    return Imported(
        arch="transformer" if is_stock else "marian_transformer",
        options=options,
        state=state,
        source=list(source.symbols),
        target=list(target.symbols),
        source_lang=form.source_lang,
        target_lang=form.target_lang,
        languages=vocabulary.languages,
        source_format=vocabulary.source_format,
        target_format=form.target_format,
        bpe=vocabulary.bpe,
        files=vocabulary.files,
        defaults=generation.defaults(pad),
    )


def _vocabulary(directory: Path, config: Fields, kind: ModelClass) -> NumberedVocabulary:
    """Read the vocabulary of the tokenizer that the files name, or else that of the class.

    Raises:
        FileNotFoundError: if a file is missing.
        UnreadableModel: if a file is damaged, or for another tokenizer.
    """
    name = tokenizer_class(directory, config)
    if name and name not in TOKENIZERS:
        raise UnreadableModel(
            f"{directory}: tokenizer_class is {name[:50]!r}; those that can be read are "
            f"{', '.join(TOKENIZERS)}"
        )
    return TOKENIZERS.get(name, kind.vocabulary)(directory, config)


def _check_special(config: Fields, vocabulary: NumberedVocabulary) -> int:
    """Check that the numbers of padding and EOS are those of the vocabulary.

    Returns:
        the number of padding

    Raises:
        UnreadableModel: if they are not.
    """
    for symbols in (vocabulary.source, vocabulary.target):
        for name, symbol in (("pad_token_id", "<pad>"), ("eos_token_id", "</s>")):
            if symbol not in symbols:
                raise UnreadableModel(f"{config.path.parent}: the vocabulary has no {symbol}")
            number = symbols.index(symbol)
            if config.type_number(name, number) != number:
                raise config.problem(name, f"{symbol} is number {number} of the vocabulary")
    return vocabulary.target.index("<pad>")


def _options(config: Fields, kind: ModelClass) -> dict[str, Any]:
    """The options of fairseq's transformer.

    Raises:
        UnreadableModel: for what fairseq's modules cannot compute.
    """
    for name, needed in (
        ("is_encoder_decoder", True),
        ("is_decoder", False),
        ("normalize_before", kind.is_pre_norm),
    ):
        if config.flag(name, needed) != needed:
            raise config.problem(name, f"it must be {str(needed).lower()} in this class of model")
    if "quantization_config" in config.values:
        raise config.problem("quantization_config", "quantised parameters can't be read")
    activation = config.text("activation_function") or kind.activation
    if activation not in ACTIVATIONS:
        raise config.problem("activation_function", f"choose from {', '.join(ACTIVATIONS)}")
    dim = config.count("d_model", least=2, most=10**5)
    if kind.sinusoids == "transformers" and dim % 2:
        raise config.problem("d_model", "it must be even")
    positions = config.count("max_position_embeddings", MAX_POSITIONS, least=1, most=10**6)
    options: dict[str, Any] = {
        "activation_fn": ACTIVATIONS[activation],
        "no_scale_embedding": not config.flag("scale_embedding", kind.scales),
        "layernorm_embedding": kind.norms_embeddings,
        "max_source_positions": positions,
        "max_target_positions": positions,
    }
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        options[name] = config.number(name, 0.0)
    for side in SIDES:
        heads = config.count(f"{side}_attention_heads", least=1)
        if dim % heads:
            raise config.problem(f"{side}_attention_heads", f"it must divide d_model, {dim}")
        options |= {
            f"{side}_embed_dim": dim,
            f"{side}_attention_heads": heads,
            f"{side}_ffn_embed_dim": config.count(f"{side}_ffn_dim", least=1),
            f"{side}_layers": config.count(f"{side}_layers", least=1, most=1000),
            f"{side}_normalize_before": kind.is_pre_norm,
            f"{side}_learned_pos": kind.has_learned_positions,
        }
    return options


def _layers(config: Fields, kind: ModelClass, parameters: Parameters) -> dict[str, Tensor]:
    """All parameters but the embeddings of types, which have the same names in fairseq.

    Raises:
        UnreadableModel: if one is missing or has another shape, or if sinusoids are not those of
            the class.
    """
    dim = config.count("d_model")
    shapes: dict[str, tuple[int, ...]] = {}
    for side in SIDES:
        n_layers, ffn_dim = config.count(f"{side}_layers"), config.count(f"{side}_ffn_dim")
        shapes.update(layer_shapes(side, n_layers, dim, ffn_dim))
        shapes |= {
            f"{side}.{norm}.{part}": (dim,) for norm in kind.norms for part in ("weight", "bias")
        }
        if kind.has_learned_positions:
            # The first two rows belong to no position.
            n_positions = config.count("max_position_embeddings", MAX_POSITIONS) + 2
            shapes[f"{side}.embed_positions.weight"] = (n_positions, dim)
        else:
            _check_sinusoids(side, kind, parameters)
    return {name: parameters.of_shape(name, shape) for name, shape in shapes.items()}


def _check_sinusoids(side: str, kind: ModelClass, parameters: Parameters) -> None:
    """Check a table of sinusoids, which transformers reads in some classes; fairseq has none."""
    # M2M-100 computes its own, whatever the file has.
    parameters.find(f"{side}.embed_positions.weights")
    table = parameters.find(f"{side}.embed_positions.weight")
    if table is None:
        return
    n_positions, dim = table.shape if table.dim() == 2 else (0, 0)
    if kind.sinusoids == "fairseq":
        pad = SPECIAL.index("<pad>")
        computed = SinusoidalPositionalEmbedding.get_embedding(n_positions, dim, pad)
    else:
        computed = Sinusoids(dim, 0, kind.sinusoids, n_positions).weights[1:]
    if table.shape != computed.shape or (table - computed).abs().max() > ROUNDED:
        raise UnreadableModel(
            f"{parameters.path}: {side}.embed_positions.weight has other positions than sinusoids"
        )
