"""All decoding options: the general ones and those that each method declares."""

import dataclasses
import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from hydra.core.config_store import ConfigStore

from ..packing.precision import PRECISIONS
from ..translating.generation_options import READ_BY_COMMANDS
from ..translating.registry import STOCK
from .glossary_file import GlossaryOptions
from .methods.acceptance import AcceptanceOptions
from .methods.beams import PruningOptions
from .methods.blockwise import BlockwiseOptions
from .methods.given_drafts import GivenDraftOptions
from .methods.gs_jacobi import GSJacobiOptions
from .methods.guesses import GuessOptions
from .methods.hybrid_jacobi import HybridJacobiOptions
from .methods.lookahead import LookaheadOptions
from .methods.streaming import StreamingOptions
from .option_rules import check_options, option

PRECISION_CHOICES = ChoiceEnum(list(PRECISIONS))


@dataclass
class GeneralOptions:
    """The options that all methods of this package share."""

    # A string, not one of fairseq's enumerations of choices: register_decoding adds more.
    decoding: str = dataclasses.field(
        default=STOCK,
        metadata={
            "help": "decoding method: fairseq = the stock generator, unchanged; greedy = one token "
            "a step (as --beam 1); blockwise = k heads propose, p_1 verifies (needs a "
            "blockwise_transformer); jacobi, gs_jacobi, hybrid_jacobi = the parallel decoding of "
            "Santilli et al.; lookahead = Jacobi iterations in a sliding window with n-gram "
            "drafts, faster; auto = greedy's output by the fastest of greedy, lookahead and, if "
            "the model has heads, blockwise, chosen for each batch; beam = fairseq's beam search; "
            "variable_beam = beams pruned by a score threshold; streaming = variable_beam in a "
            "batch that is refilled; double_token = a beam search of two tokens a step (needs "
            "--task translation_double_token)"
        },
    )
    decoding_stats: Optional[str] = option(
        None, "write one JSON line for each sentence to this file", is_path=True
    )
    engine_precision: PRECISION_CHOICES = option(
        "model",
        "precision of matrix products in compiled code on a CPU: model = that of the checkpoint; "
        "fp32; bf16; int8 = weights quantised per output channel, inputs per token. With any value "
        "but model, everything else is computed in fp32",
    )
    keep_model: bool = option(
        False,
        "keep the model's original weights after the engine has packed or quantised them. By "
        "default, commands that only decode on a CPU free them, which saves 170 MiB for "
        "transformer base",
    )
    shortlist: Optional[str] = option(
        None,
        "restrict the output layer to the target types that this lexical table lists for a "
        "sentence; a file of lines 'target source probability', as in Marian's lex.s2t and the "
        "output of python -m fairseq_fastdec build-shortlist, or Marian's binary lex.s2t.bin "
        "(default: all types, or the shortlist of an imported model; none: all types)",
        is_path=True,
    )
    shortlist_first: Optional[int] = option(
        None,
        "--shortlist: the first N types of the target dictionary, the most frequent "
        "ones, are always computed (default: 100, or as in a binary file)",
        at_least=0,
        needs=("shortlist", ()),
    )
    shortlist_best: Optional[int] = option(
        None,
        "--shortlist: the best N targets of each source type (default: 100)",
        at_least=1,
        needs=("shortlist", ()),
    )


@dataclass
class DecodingOptions(
    StreamingOptions,
    PruningOptions,
    GlossaryOptions,
    GuessOptions,
    GivenDraftOptions,
    LookaheadOptions,
    HybridJacobiOptions,
    GSJacobiOptions,
    AcceptanceOptions,
    BlockwiseOptions,
    GeneralOptions,
    FairseqDataclass,
):
    """The options that the plugin adds to fairseq's tasks. Registered methods can add more."""

    @classmethod
    def merged(cls, task_cfg: Any, generation_args: Any) -> "DecodingOptions":
        """The task's options, overridden by those given for one generator.

        ``--eval-bleu-args '{"decoding": "greedy"}'`` and the hub's
        ``model.translate(text, decoding="greedy")`` arrive as ``generation_args``. ``None`` there
        means that an option was not given: a parsed command line has all of the task's.
        """
        values: dict[str, Any] = {}
        for own in fields(cls):
            if own.name == "_name":
                continue
            value = getattr(generation_args, own.name, None)
            if value is None:
                value = getattr(task_cfg, own.name, own.default)
            values[own.name] = value
        options = cls(**values)
        options.check()
        return options

    @property
    def keeps_p1_tokens(self) -> bool:
        """Whether the output is p_1's greedy output, so that proposals cannot change it."""
        return str(self.acceptance) == "exact" and self.min_block_size == 1

    @property
    def rounds_proposals(self) -> bool:
        """Whether heads use a lower precision than p_1; see ``--proposal-precision``."""
        if self.proposal_precision is not None:
            return str(self.proposal_precision) == "rough"
        return self.keeps_p1_tokens and str(self.engine_precision) == "model"

    @property
    def proposes_by_time(self) -> bool:
        """Whether proposals are made only while they save time: ``--decoding auto``."""
        return str(self.decoding) == "auto"

    @property
    def guess_name(self) -> str:
        """The value of ``--guess``, or the method's default."""
        if self.guess is not None:
            return str(self.guess)
        return "ngram" if str(self.decoding) in ("lookahead", "auto") else "pad"

    def chosen(self, name: str) -> Optional[str]:
        """The value of an option that other options need; ``None`` if it is not given."""
        value = self.guess_name if name == "guess" else getattr(self, name)
        return None if value is None else str(value)

    def check(self) -> None:
        """
        Raises:
            ValueError: for a value that is invalid for every model, or an option that does not
                apply to the method; it names the flag and a remedy.
        """
        check_options(self)
        for declared in type(self).__mro__:
            if "check_together" in vars(declared):
                vars(declared)["check_together"](self)


def check_names(names: Iterable[str], where: str) -> None:
    """Reject option names that do not exist, which fairseq would silently accept.

    Args:
        where: the interface that received them, for the message.

    Raises:
        ValueError: for a name that is not an option, with the closest match, or one that only
            fairseq-generate reads.
    """
    known = {option.name for option in (*fields(GenerationConfig), *fields(DecodingOptions))}
    for name in names:
        if name in READ_BY_COMMANDS:
            raise ValueError(
                f"{name}: only fairseq-generate reads it, {where} does not; pass prefix_tokens to "
                "inference_step"
            )
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            meant = f"; did you mean {nearest[0]}?" if nearest else "; remove it"
            raise ValueError(f"{name}: not an option of {where}{meant}")


def declare(declared: type) -> None:
    """Add the options of a method from another package to ``DecodingOptions`` and all tasks.

    Args:
        declared: a dataclass with fields made by :func:`~.option_rules.option`.

    Raises:
        ValueError: for an option that exists already.
    """
    taken = {own.name for own in fields(DecodingOptions)} & {own.name for own in fields(declared)}
    if taken:
        raise ValueError(f"{declared.__name__}: the option {min(taken)} already exists; rename it")
    DecodingOptions.__bases__ = (declared, *DecodingOptions.__bases__)
    for config in (DecodingOptions, *_subclasses(DecodingOptions)):
        # dataclass() reads fields from class attributes, which it has replaced by default values,
        # and keeps existing methods: restore the former and delete the latter.
        for name in vars(config).get("__annotations__", {}):
            setattr(config, name, config.__dataclass_fields__[name])
        for made in ("__init__", "__repr__", "__eq__"):
            delattr(config, made)
        dataclass(config)
    for task, config in TASK_DATACLASS_REGISTRY.items():
        if issubclass(config, DecodingOptions):
            store_config(task, config)


def store_config(task: str, config: type[FairseqDataclass]) -> None:
    """Register a task's options with hydra, which checks command lines."""
    node = config()
    node._name = task
    ConfigStore.instance().store(name=task, group="task", node=node, provider="fairseq_fastdec")


def _subclasses(kind: Any) -> Iterator[Any]:
    for own in kind.__subclasses__():
        yield own
        yield from _subclasses(own)
