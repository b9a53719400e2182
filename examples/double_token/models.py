"""The models and methods of Table 2 of Imamura and Sumita (WAT 2020), in its order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from examples.common.en_de import CROSS_ENTROPY

DOUBLE_TOKEN = "translation_double_token"
# The options from fairseq's README for non-autoregressive models.
MASK_PREDICT_TRAINING = [
    "--noise", "random_mask", "--arch", "cmlm_transformer",
    "--encoder-learned-pos", "--decoder-learned-pos", "--apply-bert-init",
    "--criterion", "nat_loss", "--label-smoothing", "0.1", "--fixed-validation-seed", "7",
]  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A model and its training."""

    name: str
    task: str
    order: list[str]  # options of the task, for training and decoding
    training: list[str]
    begins_with: Optional[str] = None  # initialised with this model
    distilled: bool = False  # trained on the teacher's translations
    seed: int = 1


def autoregressive(
    name: str,
    order: str,
    tokens_per_step: int,
    begins_with: Optional[Model] = None,
    distilled: bool = False,
) -> Model:
    """A model of the plugin's task: a stock transformer, or one with two tokens per step."""
    arch = "transformer" if tokens_per_step == 1 else "double_token_transformer"
    return Model(
        name,
        DOUBLE_TOKEN,
        ["--token-order", order, "--tokens-per-step", str(tokens_per_step)],
        ["--arch", arch, *CROSS_ENTROPY],
        begins_with.name if begins_with else None,
        distilled,
    )


DOUBLE_BIDIRECTIONAL = autoregressive("double_bidirectional", "bidirectional", 2)
SINGLE_L2R = autoregressive("single_l2r", "l2r", 1)
SINGLE_R2L = autoregressive("single_r2l", "r2l", 1)
DOUBLE_L2R = autoregressive("double_l2r", "l2r", 2)
DOUBLE_R2L = autoregressive("double_r2l", "r2l", 2)
# Not in the paper: both models continue from L2R twice, then with distilled data.
LONGER_L2R = autoregressive("longer_l2r", "l2r", 1, SINGLE_L2R)
DOUBLE_AFTER_L2R = autoregressive("double_after_l2r", "bidirectional", 2, SINGLE_L2R)
LONGER_DOUBLE = autoregressive("longer_double", "bidirectional", 2, DOUBLE_AFTER_L2R)
TEACHER = LONGER_L2R
DISTILLED_L2R = autoregressive("distilled_l2r", "l2r", 1, LONGER_L2R, distilled=True)
DISTILLED_DOUBLE = autoregressive(
    "distilled_double", "bidirectional", 2, LONGER_DOUBLE, distilled=True
)
MASK_PREDICT = Model("mask_predict", "translation_lev", [], MASK_PREDICT_TRAINING)

MODELS = (
    SINGLE_L2R,
    DOUBLE_BIDIRECTIONAL,
    LONGER_L2R,
    DOUBLE_AFTER_L2R,
    LONGER_DOUBLE,
    DISTILLED_L2R,
    DISTILLED_DOUBLE,
    SINGLE_R2L,
    DOUBLE_L2R,
    DOUBLE_R2L,
    MASK_PREDICT,
)  # the first models suffice for a table


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


def mask_predict(iterations: int) -> Callable[[int], list]:
    """Options of Mask-Predict; as in the paper, the number of lengths is half the beam width."""

    def options(width: int) -> list:
        return [
            # fairseq excludes the first pass.
            "--iter-decode-max-iter", iterations - 1, "--iter-decode-force-max-iter",
            "--iter-decode-eos-penalty", "0", "--iter-decode-with-beam", max(1, width // 2),
            "--print-step",
        ]  # fmt: skip

    return options


PROPOSED = "Double-token bidir. (proposed)"
BASELINE = "Single-token L2R"
RIGHT_TO_LEFT = "Single-token R2L"
UNIDIRECTIONAL = "Double-token L2R"
# § is not in the paper: bidirectional decoding is to be better than unidirectional.
MARKED = {"†": BASELINE, "‡": RIGHT_TO_LEFT, "§": UNIDIRECTIONAL}

METHODS = (
    Method(PROPOSED, DOUBLE_BIDIRECTIONAL, beam_search),
    Method("Double-token bidir., pruned", DOUBLE_BIDIRECTIONAL, pruned),
    Method("Double-token bidir., begun with L2R", DOUBLE_AFTER_L2R, beam_search),
    Method("Double-token bidir., trained on", LONGER_DOUBLE, beam_search),
    Method("Double-token bidir., distilled", DISTILLED_DOUBLE, beam_search),
    Method(BASELINE, SINGLE_L2R, beam_search),
    Method("Single-token L2R, trained on", LONGER_L2R, beam_search),
    Method("Single-token L2R, distilled", DISTILLED_L2R, beam_search),
    Method("Single-token L2R, by fairseq", SINGLE_L2R, own_generator_of_fairseq, False),
    Method(RIGHT_TO_LEFT, SINGLE_R2L, beam_search),
    Method(UNIDIRECTIONAL, DOUBLE_L2R, beam_search),
    Method("Double-token R2L", DOUBLE_R2L, beam_search),
    Method("Mask-Predict (10 iterations)", MASK_PREDICT, mask_predict(10), False),
    Method("Mask-Predict (4 iterations)", MASK_PREDICT, mask_predict(4), False),
)
