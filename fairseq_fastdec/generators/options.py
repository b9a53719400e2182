"""Every decoding option in one place: its name, its help, and what makes a value wrong."""

from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

DECODING_CHOICES = ChoiceEnum(
    [
        "fairseq",
        "greedy",
        "blockwise",
        "jacobi",
        "gs_jacobi",
        "hybrid_jacobi",
        "lookahead",
    ]
)
DRAFT_CHOICES = ChoiceEnum(["pad", "copy", "previous", "ngram", "source"])
NGRAM_POOL_CHOICES = ChoiceEnum(["sentence", "run"])
ACCEPTANCE_CHOICES = ChoiceEnum(["exact", "topk", "distance"])

JACOBI = ("jacobi", "gs_jacobi", "hybrid_jacobi")

# An option that another method would ignore is refused there: which methods each is for.
METHODS_OF_OPTION = {
    "decoding_stats": ("greedy", "blockwise", *JACOBI, "lookahead"),
    "decoding_block_size": ("blockwise",),
    "acceptance": ("blockwise",),
    "acceptance_topk": ("blockwise",),
    "acceptance_distance": ("blockwise",),
    "min_block_size": ("blockwise",),
    "jacobi_block_size": ("gs_jacobi", "hybrid_jacobi"),
    "parallel_len_a": ("hybrid_jacobi",),
    "parallel_len_b": ("hybrid_jacobi",),
    "oracle_length": ("jacobi", "gs_jacobi"),
    "lookahead_window": ("lookahead",),
    "draft": (*JACOBI, "lookahead"),
    "ngram_order": (*JACOBI, "lookahead"),
    "ngram_pool": (*JACOBI, "lookahead"),
}

# Options of a choice: which option has to have which value.
CHOICE_OF_OPTION = {
    "acceptance_topk": ("acceptance", ("topk",)),
    "acceptance_distance": ("acceptance", ("distance",)),
    "ngram_order": ("draft", ("ngram", "source")),
    "ngram_pool": ("draft", ("ngram",)),
}


@dataclass
class DecodingOptions(FairseqDataclass):
    """The options that ``translation_fastdec`` adds to fairseq's translation task."""

    decoding: DECODING_CHOICES = field(
        default="fairseq",
        metadata={
            "help": "decoding method: fairseq = the stock generator, unchanged; greedy = one "
            "token a step (as --beam 1); blockwise = k heads propose, p_1 verifies (needs a "
            "blockwise_transformer); jacobi, gs_jacobi, hybrid_jacobi = the parallel decoding of "
            "Santilli et al.; lookahead = with a sliding window and n-gram drafts, faster. All but "
            "blockwise decode any transformer, and all give greedy's tokens"
        },
    )
    decoding_stats: Optional[str] = field(
        default=None,
        metadata={
            "help": "write one JSON line for each sentence to this file",
            "argparse_const": None,
        },
    )
    decoding_block_size: Optional[int] = field(
        default=None,
        metadata={
            "help": "blockwise: propose this many tokens a step, 1 to the trained block size "
            "(default: the trained block size)"
        },
    )
    acceptance: ACCEPTANCE_CHOICES = field(
        default="exact",
        metadata={
            "help": "blockwise: accept a proposal that is p_1's best token (exact: the output is "
            "p_1's greedy output), one of p_1's best N (topk), or an integer symbol within EPS of "
            "p_1's best (distance)"
        },
    )
    acceptance_topk: int = field(default=2, metadata={"help": "blockwise: N of --acceptance topk"})
    acceptance_distance: float = field(
        default=2.0, metadata={"help": "blockwise: EPS of --acceptance distance"}
    )
    min_block_size: int = field(
        default=1,
        metadata={"help": "blockwise: keep at least this many tokens a step, whatever p_1 says"},
    )
    jacobi_block_size: int = field(
        default=3,
        metadata={"help": "gs_jacobi, hybrid_jacobi: tokens solved in parallel (the paper's b)"},
    )
    parallel_len_a: float = field(
        default=0.0,
        metadata={
            "help": "hybrid_jacobi: solve in parallel up to ax + b tokens, where x is the source "
            "length, then go on token by token (default: up to the longest output allowed)"
        },
    )
    parallel_len_b: Optional[int] = field(
        default=None, metadata={"help": "hybrid_jacobi: see --parallel-len-a"}
    )
    oracle_length: bool = field(
        default=False,
        metadata={
            "help": "jacobi, gs_jacobi: solve for as many tokens as the reference has, as the "
            "paper measures (default: for the longest output allowed)"
        },
    )
    lookahead_window: int = field(
        default=6, metadata={"help": "lookahead: tokens answered at once"}
    )
    draft: Optional[DRAFT_CHOICES] = field(
        default=None,
        metadata={
            "help": "Jacobi methods and lookahead: what a position holds before it is first "
            "answered: pad = PAD (the paper; default of its methods), copy = the source token "
            "at that position, previous = the preceding tokens again, ngram = what followed "
            "the last tokens before, in the outputs so far (default of lookahead), source = what "
            "follows the last tokens in the source"
        },
    )
    ngram_order: int = field(
        default=4, metadata={"help": "--draft ngram, source: the longest n-gram that is looked up"}
    )
    ngram_pool: NGRAM_POOL_CHOICES = field(
        default="run",
        metadata={
            "help": "--draft ngram: look in the sentence so far, or in all outputs of the run"
        },
    )

    @classmethod
    def merged(cls, task_cfg: Any, generation_args: Any) -> "DecodingOptions":
        """The task's options, overridden by those given for one generator.

        ``--eval-bleu-args '{"decoding": "greedy"}'`` and the hub's
        ``model.translate(text, decoding="greedy")`` arrive as ``generation_args``.
        """
        values = {}
        for option in fields(cls):
            if option.name == "_name":
                continue
            value = getattr(task_cfg, option.name, option.default)
            values[option.name] = getattr(generation_args, option.name, value)
        options = cls(**values)
        options.check()
        return options

    @property
    def draft_name(self) -> str:
        """The drafts of the method: ``--draft``, or its default."""
        if self.draft is not None:
            return str(self.draft)
        return "ngram" if str(self.decoding) == "lookahead" else "pad"

    def check(self) -> None:
        """
        Raises:
            ValueError: for a value that no model could make right, or an option that the method
                has no use for; it names the flag and a remedy.
        """
        _check_choice("--decoding", self.decoding, DECODING_CHOICES)
        _check_choice("--acceptance", self.acceptance, ACCEPTANCE_CHOICES)
        _check_choice("--ngram-pool", self.ngram_pool, NGRAM_POOL_CHOICES)
        if self.draft is not None:
            _check_choice("--draft", self.draft, DRAFT_CHOICES)
        _check_at_least("--jacobi-block-size", self.jacobi_block_size, 1)
        _check_at_least("--lookahead-window", self.lookahead_window, 1)
        _check_at_least("--parallel-len-a", self.parallel_len_a, 0)
        _check_at_least("--ngram-order", self.ngram_order, 2)
        _check_at_least("--acceptance-topk", self.acceptance_topk, 1)
        _check_at_least("--acceptance-distance", self.acceptance_distance, 0)
        _check_at_least("--min-block-size", self.min_block_size, 1)
        if self.decoding_block_size is not None:
            _check_at_least("--decoding-block-size", self.decoding_block_size, 1)
        if self.parallel_len_b is not None:
            _check_at_least("--parallel-len-b", self.parallel_len_b, 0)
        for option in fields(self):
            if option.name != "_name" and getattr(self, option.name) != option.default:
                self._check_has_a_use(option.name)

    def _check_has_a_use(self, name: str) -> None:
        given = f"--{name.replace('_', '-')} {getattr(self, name)}"
        methods = METHODS_OF_OPTION.get(name)
        if methods is not None and str(self.decoding) not in methods:
            raise ValueError(
                f"{given}: means nothing to --decoding {self.decoding}; remove it or use "
                f"--decoding {' or '.join(methods)}"
            )
        choice, values = CHOICE_OF_OPTION.get(name, (None, ()))
        if choice is None:
            return
        chosen = self.draft_name if choice == "draft" else str(getattr(self, choice))
        if chosen not in values:
            raise ValueError(
                f"{given}: means nothing to --{choice} {chosen}; remove it or use "
                f"--{choice} {' or '.join(values)}"
            )


def _check_choice(flag: str, value: Any, choices: Any) -> None:
    names = [choice.value for choice in choices]
    if str(value) not in names:
        raise ValueError(f"{flag} {value}: unknown; choose one of {', '.join(names)}")


def _check_at_least(flag: str, value: float, minimum: float) -> None:
    if value < minimum:
        raise ValueError(f"{flag} {value}: must be at least {minimum}")
