"""Every decoding option in one place: its name, its help, and what makes a value wrong."""

from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

DECODING_CHOICES = ChoiceEnum(["fairseq", "greedy", "blockwise"])
ACCEPTANCE_CHOICES = ChoiceEnum(["exact", "topk", "distance"])


@dataclass
class DecodingOptions(FairseqDataclass):
    """The options that ``translation_fastdec`` adds to fairseq's translation task."""

    decoding: DECODING_CHOICES = field(
        default="fairseq",
        metadata={
            "help": "decoding method: fairseq = the stock generator, unchanged; greedy = one "
            "token a step (as --beam 1); blockwise = k heads propose, p_1 verifies (needs a "
            "blockwise_transformer)"
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

    def check(self) -> None:
        """
        Raises:
            ValueError: for a value that no model could make right; it names the flag and a remedy.
        """
        _check_choice("--decoding", self.decoding, DECODING_CHOICES)
        _check_choice("--acceptance", self.acceptance, ACCEPTANCE_CHOICES)
        _check_at_least("--acceptance-topk", self.acceptance_topk, 1)
        _check_at_least("--acceptance-distance", self.acceptance_distance, 0)
        _check_at_least("--min-block-size", self.min_block_size, 1)
        if self.decoding_block_size is not None:
            _check_at_least("--decoding-block-size", self.decoding_block_size, 1)


def _check_choice(flag: str, value: Any, choices: Any) -> None:
    names = [choice.value for choice in choices]
    if str(value) not in names:
        raise ValueError(f"{flag} {value}: unknown; choose one of {', '.join(names)}")


def _check_at_least(flag: str, value: float, minimum: float) -> None:
    if value < minimum:
        raise ValueError(f"{flag} {value}: must be at least {minimum}")
