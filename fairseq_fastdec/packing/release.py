"""Frees the weights of a model that are not needed once the engine has prepared them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from fairseq.models import FairseqLanguageModel
from torch import Tensor, nn

from .prepared_model import prepared
from .stock_decoders import layers_of
from .support import runs_prepared, unsupported_part
from .weights import key_value_linears, layer_linears


def release_once_prepared(models: Sequence[Any]) -> list[Tensor]:
    """Release the weights of models on a CPU, layer by layer, as the engine prepares them.

    This is for commands that only decode with one generator: afterwards the models cannot be used
    in any other way, nor in another precision. The weights of the linear layers of stock encoders
    and decoders, and of a stock decoder's output layer, are released unless they are shared.
    Embeddings, positions, norms, biases, prediction heads and other networks are kept.

    Args:
        models: those of the ensemble, and a language model.

    Returns:
        the weights that will be released
    """
    will_go: list[Tensor] = []
    parameters = (model.named_parameters(remove_duplicate=False) for model in models)
    n_users = Counter(id(parameter) for _, parameter in chain.from_iterable(parameters))
    for model in models:
        if unsupported_part(model) is not None:
            continue
        encoders = [] if isinstance(model, FairseqLanguageModel) else [model.encoder]
        coders = [model.decoder, *filter(runs_prepared, encoders)]
        for coder in coders:
            linears = [
                linear
                for linear in _prepared_linears(coder)
                if n_users[id(linear.weight)] == 1 and linear.weight.device.type == "cpu"
            ]
            prepared(coder).may_release(linears)
            will_go += (linear.weight for linear in linears)
    return will_go


def _prepared_linears(coder: Any) -> Iterator[nn.Linear]:
    """The linear layers of a coder that the engine copies exactly once."""
    for layer in layers_of(coder):
        yield from layer_linears(layer)
        yield from key_value_linears(layer)
    # With prediction heads the output layer is prepared in two precisions.
    if hasattr(coder, "output_projection") and not hasattr(coder, "head_features"):
        yield coder.output_projection
