"""Every decoding option in one place: its name, its help, and what makes a value wrong."""

from dataclasses import dataclass, field, fields
from typing import Any, Optional, Tuple

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

DECODING_CHOICES = ChoiceEnum(
    ["fairseq", "greedy", "blockwise", "beam", "variable_beam", "streaming"]
)
ACCEPTANCE_CHOICES = ChoiceEnum(["exact", "topk", "distance"])
FINALIZE_CHOICES = ChoiceEnum(["paper", "fairseq"])
STREAM_POLICY_CHOICES = ChoiceEnum(["min-length", "fifo"])


@dataclass
class DecodingOptions(FairseqDataclass):
    """The options that ``translation_fastdec`` adds to fairseq's translation task."""

    decoding: DECODING_CHOICES = field(
        default="fairseq",
        metadata={
            "help": "decoding method: fairseq = the stock generator, unchanged; greedy = one "
            "token a step (as --beam 1); blockwise = k heads propose, p_1 verifies (needs a "
            "blockwise_transformer); beam = fairseq's beam search; variable_beam = beams as wide "
            "as their candidates are good; streaming = variable_beam in a batch that is refilled"
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

    prune_threshold: Optional[float] = field(
        default=None,
        metadata={
            "help": "beams: forget candidates whose log-probability is worse by more than this "
            "than the best candidate's; inf = none (default: 1.5, but inf for beam)"
        },
    )
    max_candidates: Optional[int] = field(
        default=None,
        metadata={
            "help": "beams: keep at most this many candidates that continue the same one; --beam "
            "or more = any number (default: 5, but any number for beam)"
        },
    )
    finalize: Optional[FINALIZE_CHOICES] = field(
        default=None,
        metadata={
            "help": "beams: fairseq = what ends is a hypothesis at once; paper = it stays on the "
            "beam while better ones grow, and may fall off it (default: paper; fairseq for beam)"
        },
    )
    refill_threshold: Optional[float] = field(
        default=None,
        metadata={
            "help": "streaming: refill when no more than this share of the capacity (--batch-size, "
            "--max-tokens, --max-beam-rows) is in use (default: 1/6)"
        },
    )
    stream_policy: Optional[STREAM_POLICY_CHOICES] = field(
        default=None,
        metadata={
            "help": "streaming: min-length = expand the sentences with the fewest tokens; fifo = "
            "all that fit, those with the most tokens first (default: min-length)"
        },
    )
    stream_buffer: Optional[int] = field(
        default=None,
        metadata={
            "help": "streaming: read this many sentences at a time; --batch-size and --max-tokens "
            "then say how much of that is decoded at once (default: 4096)"
        },
    )
    max_beam_rows: Optional[int] = field(
        default=None,
        metadata={"help": "streaming: expand at most this many candidates at once"},
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
        self._check_beams()

    def _check_beams(self) -> None:
        streaming = ("streaming",)
        beams = ("beam", "variable_beam", *streaming)
        self._check_method("--prune-threshold", self.prune_threshold, beams)
        self._check_method("--max-candidates", self.max_candidates, beams)
        self._check_method("--finalize", self.finalize, beams)
        self._check_method("--refill-threshold", self.refill_threshold, streaming)
        self._check_method("--stream-policy", self.stream_policy, streaming)
        self._check_method("--stream-buffer", self.stream_buffer, streaming)
        self._check_method("--max-beam-rows", self.max_beam_rows, streaming)
        _check_if_given("--prune-threshold", self.prune_threshold, 0)
        _check_if_given("--max-candidates", self.max_candidates, 1)
        _check_if_given("--refill-threshold", self.refill_threshold, 0)
        _check_if_given("--stream-buffer", self.stream_buffer, 1)
        _check_if_given("--max-beam-rows", self.max_beam_rows, 1)
        if self.refill_threshold is not None and not self.refill_threshold < 1:
            raise ValueError(f"--refill-threshold {self.refill_threshold}: must be less than 1")
        if self.finalize is not None:
            _check_choice("--finalize", self.finalize, FINALIZE_CHOICES)
        if self.stream_policy is not None:
            _check_choice("--stream-policy", self.stream_policy, STREAM_POLICY_CHOICES)

    def _check_method(self, flag: str, value: Any, methods: Tuple[str, ...]) -> None:
        if value is not None and str(self.decoding) not in methods:
            raise ValueError(
                f"{flag} {value}: does nothing with --decoding {self.decoding}; remove it or use "
                f"--decoding {' or '.join(methods)}"
            )


def given(value: Any, default: Any) -> Any:
    """An option's value, or what its method takes where the user gave none."""
    return default if value is None else value


def _check_choice(flag: str, value: Any, choices: Any) -> None:
    names = [choice.value for choice in choices]
    if str(value) not in names:
        raise ValueError(f"{flag} {value}: unknown; choose one of {', '.join(names)}")


def _check_if_given(flag: str, value: Optional[float], minimum: float) -> None:
    if value is not None:
        _check_at_least(flag, value, minimum)


def _check_at_least(flag: str, value: float, minimum: float) -> None:
    if not value >= minimum:  # nor is NaN
        raise ValueError(f"{flag} {value}: must be at least {minimum}")
