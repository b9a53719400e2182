"""Every decoding option in one place: its name, its default and its help."""

from dataclasses import dataclass, field, fields
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass

from .option_rules import (
    ACCEPTANCE_CHOICES,
    DRAFT_CHOICES,
    FINALIZE_CHOICES,
    NGRAM_POOL_CHOICES,
    PRECISION_CHOICES,
    PROPOSAL_PRECISION_CHOICES,
    STREAM_POLICY_CHOICES,
    check_options,
)
from .registry import STOCK


@dataclass
class DecodingOptions(FairseqDataclass):
    """The options that the plugin adds to fairseq's tasks."""

    # A string, not one of fairseq's enumerations of choices: register_decoding adds more.
    decoding: str = field(
        default=STOCK,
        metadata={
            "help": "decoding method: fairseq = the stock generator, unchanged; greedy = one "
            "token a step (as --beam 1); blockwise = k heads propose, p_1 verifies (needs a "
            "blockwise_transformer); jacobi, gs_jacobi, hybrid_jacobi = the parallel decoding of "
            "Santilli et al.; lookahead = with a sliding window and n-gram drafts, faster; auto = "
            "greedy's output by the fastest of greedy, lookahead and, if the model has heads, "
            "blockwise, chosen for each batch; beam = "
            "fairseq's beam search; variable_beam = beams as wide as their candidates are good; "
            "streaming = variable_beam in a batch that is refilled; double_token = a beam search "
            "of two tokens a step (needs --task translation_double_token)"
        },
    )
    decoding_stats: Optional[str] = field(
        default=None,
        metadata={
            "help": "write one JSON line for each sentence to this file",
            "argparse_const": None,
        },
    )
    engine_precision: PRECISION_CHOICES = field(
        default="model",
        metadata={
            "help": "what matrix products are computed in: model = as the checkpoint is; fp32; "
            "bf16; int8 = weights quantised by output channel, inputs by token. Everything else, "
            "if not model, is fp32. By compiled code, on a CPU"
        },
    )
    keep_model: bool = field(
        default=False,
        metadata={
            "help": "keep the model's own weights beside those that the engine has packed or "
            "quantised. Commands that only decode on a CPU otherwise free them: transformer base "
            "takes 170 MiB less"
        },
    )
    shortlist: Optional[str] = field(
        default=None,
        metadata={
            "help": "compute only the target types that this lexical table gives for a batch; a "
            "file of lines 'target source probability', as Marian's lex.s2t and what "
            "scripts/build_shortlist.py writes (default: all types)",
            "argparse_const": None,
        },
    )
    shortlist_first: int = field(
        default=100,
        metadata={
            "help": "--shortlist: the first N types of the target dictionary, the most frequent "
            "ones, are always computed"
        },
    )
    shortlist_best: int = field(
        default=100, metadata={"help": "--shortlist: the best N targets of each source type"}
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
    proposal_tree: Optional[int] = field(
        default=None,
        metadata={
            "help": "blockwise: verify this many proposals, a tree of the continuations that the "
            "heads together find most probable, and keep its longest path that p_1 agrees with: "
            "the same output in fewer steps (default: each head's best token, one after the other)"
        },
    )
    proposal_types: Optional[int] = field(
        default=None,
        metadata={
            "help": "blockwise: the heads propose the first N types of the target dictionary, the "
            "most frequent ones; p_1 still chooses among all. 0 = all (default: 4096 for "
            "--acceptance exact, where no output depends on it, and otherwise all)"
        },
    )
    proposal_precision: Optional[PROPOSAL_PRECISION_CHOICES] = field(
        default=None,
        metadata={
            "help": "blockwise, auto: what the heads' products are computed in on a CPU: engine = "
            "as --engine-precision says; rough = int8, which is faster. p_1 stays as it is. With "
            "--acceptance exact the output does not depend on it (default: engine, but rough "
            "with --acceptance exact and --engine-precision model)"
        },
    )
    proposal_confidence: Optional[float] = field(
        default=None,
        metadata={
            "help": "blockwise, auto, with --block-heads sequential: the heads propose nothing "
            "behind tokens that they find, taken together, less probable than this. 0 = whatever "
            "they find (default: 0.5 for --acceptance exact, where no output depends on it, and "
            "otherwise 0)"
        },
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
            "help": "jacobi, gs_jacobi: solve for as many tokens as greedy decoding gives, as the "
            "paper measures. To measure with: greedy decoding itself finds that length first, in "
            "a pass that the statistics tell apart (default: for the longest output allowed)"
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
            "help": "beams: look at no more than this many continuations of the same candidate "
            "(default: 5, but as many as there are for beam)"
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
        metadata={
            "help": "streaming: expand at most this many candidates at once; --batch-size may say "
            "how many sentences are under way then, and without it no more are than that takes"
        },
    )

    @classmethod
    def merged(cls, task_cfg: Any, generation_args: Any) -> "DecodingOptions":
        """The task's options, overridden by those given for one generator.

        ``--eval-bleu-args '{"decoding": "greedy"}'`` and the hub's
        ``model.translate(text, decoding="greedy")`` arrive as ``generation_args``. ``None`` there
        means that an option was not given: a parsed command line has all of the task's.
        """
        values = {}
        for option in fields(cls):
            if option.name == "_name":
                continue
            own = getattr(generation_args, option.name, None)
            if own is None:
                own = getattr(task_cfg, option.name, option.default)
            values[option.name] = own
        options = cls(**values)
        options.check()
        return options

    @property
    def keeps_p1_tokens(self) -> bool:
        """Whether the output has p_1's best tokens alone, so that no proposal can change it."""
        return str(self.acceptance) == "exact" and self.min_block_size == 1

    @property
    def rounds_proposals(self) -> bool:
        """Whether heads propose in fewer bits than p_1; see ``--proposal-precision``."""
        if self.proposal_precision is not None:
            return str(self.proposal_precision) == "rough"
        return self.keeps_p1_tokens and str(self.engine_precision) == "model"

    @property
    def draft_name(self) -> str:
        """The drafts of the method: ``--draft``, or its default."""
        if self.draft is not None:
            return str(self.draft)
        return "ngram" if str(self.decoding) in ("lookahead", "auto") else "pad"

    def check(self) -> None:
        """
        Raises:
            ValueError: for a value that no model could make right, or an option that the method
                has no use for; it names the flag and a remedy.
        """
        check_options(self)


def given(value: Any, default: Any) -> Any:
    """An option's value, or what its method takes where the user gave none."""
    return default if value is None else value
