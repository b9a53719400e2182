"""The models and methods of Table 2 of Imamura and Sumita (WAT 2020), in its order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Optional

DOUBLE_TOKEN = "translation_double_token"


@dataclass(frozen=True)
class Model:
    """A model of the plugin's task: a stock transformer, or one with two tokens per step."""

    name: str
    token_order: str
    tokens_per_step: int
    begins_with: Optional["Model"] = None  # default: random parameters
    seed: int = 1

    @property
    def arch(self) -> str:
        """The architecture for fairseq-train."""
        return "transformer" if self.tokens_per_step == 1 else "double_token_transformer"

    @property
    def order(self) -> list[str]:
        """Options of the task, for training and decoding."""
        tokens = str(self.tokens_per_step)
        return ["--token-order", self.token_order, "--tokens-per-step", tokens]

    def of_seed(self, seed: int) -> "Model":
        """The same model, trained with a seed."""
        begins_with = self.begins_with and self.begins_with.of_seed(seed)
        return replace(self, name=f"{self.name}-{seed}", seed=seed, begins_with=begins_with)


DOUBLE_BIDIRECTIONAL = Model("double_bidirectional", "bidirectional", 2)
SINGLE_L2R = Model("single_l2r", "l2r", 1)
SINGLE_R2L = Model("single_r2l", "r2l", 1)
DOUBLE_L2R = Model("double_l2r", "l2r", 2)
DOUBLE_R2L = Model("double_r2l", "r2l", 2)
# Not in the paper: a single-token model is trained on, as itself and with two tokens per step.
LONGER_L2R = Model("longer_l2r", "l2r", 1, SINGLE_L2R)
DOUBLE_AFTER_L2R = Model("double_after_l2r", "bidirectional", 2, SINGLE_L2R)


@dataclass(frozen=True)
class Method:
    """A row of the table: a model, and its decoding options by beam width."""

    title: str
    model: Model
    options: Callable[[int], list]
    has_statistics: bool = True


def beam_search(width: int, *more: str) -> list:
    """Options of a beam search, with a limit for repetitive output."""
    return ["--beam", width, "--max-len-a", "1.5", "--max-len-b", "20", *more]


def own_generator_of_fairseq(width: int) -> list:
    """The same beam search with fairseq's generator."""
    return beam_search(width, "--decoding", "fairseq")


def pruned(width: int) -> list:
    """The same beam search, pruned as by Yang et al. (2020)."""
    return beam_search(width, "--prune-threshold", "1.5", "--max-candidates", "5")


PROPOSED = "Double-token bidir. (proposed)"
BASELINE = "Single-token L2R"
RIGHT_TO_LEFT = "Single-token R2L"
UNIDIRECTIONAL = "Double-token L2R"
# § is not in the paper: bidirectional decoding is to be better than unidirectional.
MARKED = {"†": BASELINE, "‡": RIGHT_TO_LEFT, "§": UNIDIRECTIONAL}

METHODS = (
    Method(PROPOSED, DOUBLE_BIDIRECTIONAL, beam_search),
    Method("Double-token bidir., pruned", DOUBLE_BIDIRECTIONAL, pruned),
    Method(BASELINE, SINGLE_L2R, beam_search),
    Method("Single-token L2R, by fairseq", SINGLE_L2R, own_generator_of_fairseq, False),
    Method(RIGHT_TO_LEFT, SINGLE_R2L, beam_search),
    Method(UNIDIRECTIONAL, DOUBLE_L2R, beam_search),
    Method("Double-token R2L", DOUBLE_R2L, beam_search),
    Method("Single-token L2R, trained on", LONGER_L2R, beam_search),
    Method("Double-token bidir., begun with L2R", DOUBLE_AFTER_L2R, beam_search),
)
# Each once; a model follows the one that it begins with.
MODELS = tuple(dict.fromkeys(method.model for method in METHODS))
