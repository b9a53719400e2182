"""fairseq's translation task with a choice of decoding methods."""

import json
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch
from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..data.token_order import LEFT_TO_RIGHT, trained_order
from ..engine import release_once_prepared
from ..generators import DecodingGenerator, build_generator
from ..generators.beams.schedule import Capacity
from ..generators.beams.streaming import StreamingGenerator
from ..generators.generation_options import check_names
from ..generators.methods import STOCK
from ..generators.option_groups import add_options
from ..generators.options import DecodingOptions, given
from ..models.finetuning import check_finetuned
from .decoding_commands import is_decoding_command, warn_of_shards

STREAM_BUFFER = 4096
TOKENS, INVOCATIONS = "_decoding_tokens", "_decoding_row_invocations"


@dataclass
class TranslationFastdecConfig(DecodingOptions, TranslationConfig):
    """All options of ``translation``, those of the decoding methods, and one for training."""

    cpu_autocast: bool = field(
        default=False,
        metadata={
            "help": "train on a CPU with matrix products in bfloat16 (torch.autocast): faster "
            "where the processor has instructions for them; parameters, gradients, sums and "
            "validation stay in fp32",
            "group": "training",
        },
    )


@register_task("translation_fastdec", dataclass=TranslationFastdecConfig)
class TranslationFastdecTask(TranslationTask):
    """A drop-in for ``--task translation`` that adds ``--decoding`` and its options.

    With the default, ``--decoding fairseq``, everything is fairseq's own.

    Attributes:
        only_decodes: whether models serve nothing but the generators that the task builds of them;
            set by tools. fairseq-generate and -interactive are known without.
    """

    cfg: TranslationFastdecConfig
    token_order = None
    only_decodes = False

    def __init__(self, cfg: TranslationFastdecConfig, src_dict: Any, tgt_dict: Any) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self._capacity = Capacity()
        self._has_criterion = False

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """As in fairseq; options that fairseq's own task lacks stand in groups by method."""
        add_options(parser, getattr(cls, "__dataclass")(), TranslationConfig)

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Called with what a checkpoint remembers of the task that it was trained with.

        Raises:
            ValueError: if that task had another order of decoding.
        """
        trained = trained_order(state_dict)
        own = self.token_order or LEFT_TO_RIGHT
        if trained != own:
            raise ValueError(
                f"{own}: the checkpoint was trained with {trained}; decode it with --task "
                f"translation_double_token {trained}"
            )
        super().load_state_dict(state_dict)

    def check_restored(self, task_state: Dict[str, Any]) -> None:
        """Called by fairseq-train with what the checkpoint that it goes on from remembers.

        Raises:
            ValueError: if it was trained with another order of decoding.
        """
        trained, own = trained_order(task_state), self.token_order or LEFT_TO_RIGHT
        if trained != own:
            raise ValueError(
                f"{own}: the checkpoint to go on from was trained with {trained}; train with that, "
                "or take its parameters only, with --finetune-from-model"
            )

    def check_finetuned(
        self, path: str, state: Dict[str, Any], own: Any, model: torch.nn.Module
    ) -> None:
        """Called by fairseq-train with the checkpoint of ``--finetune-from-model``.

        Raises:
            ValueError: if it is of another network; it names the options that differ.
        """
        check_finetuned(path, state, own, model)

    def check_option_names(self, names: Iterable[str], where: str) -> None:
        """Called by the hub interface, which takes any names and hands them to no one.

        Raises:
            ValueError: for a name that is no generation option; it tells the nearest one.
        """
        check_names(names, where)

    def build_model(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq.

        Raises:
            ValueError: for a name in ``--eval-bleu-args`` that is no generation option.
        """
        if self.cfg.eval_bleu:
            self.check_option_names(json.loads(self.cfg.eval_bleu_args or "{}"), "--eval-bleu-args")
        return super().build_model(cfg, *args, **kwargs)

    def build_generator(
        self,
        models: List[Any],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Build the generator that ``--decoding`` names; options in ``args`` override the task's.

        ``args.beam`` becomes 1 where one hypothesis is kept: fairseq-generate prints it.

        Raises:
            ValueError: for an option that the method cannot honour, naming flag and remedy.
        """
        warn_of_shards(args)
        options = DecodingOptions.merged(self.cfg, args)
        scores_only = getattr(args, "score_reference", False)
        if scores_only and options.decoding_stats is not None:
            raise ValueError(
                f"--decoding-stats {options.decoding_stats}: nothing is decoded with "
                "--score-reference; remove one of them"
            )
        if str(options.decoding) == STOCK or scores_only or seq_gen_cls is not None:
            return super().build_generator(
                models, args, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn
            )
        generator = build_generator(
            models,
            self.target_dictionary,
            args,
            options,
            extra_gen_cls_kwargs,
            prefix_allowed_tokens_fn,
            self.source_dictionary,
        )
        if self._may_release(options):
            release_once_prepared(models)
        if generator.keeps_one_hypothesis:
            args.beam = 1
        if isinstance(generator, StreamingGenerator):
            generator.capacity = self._capacity
        return generator

    def _may_release(self, options: DecodingOptions) -> bool:
        """Whether nobody will need the models but the generator."""
        trains = self._has_criterion
        only_decodes = self.only_decodes or is_decoding_command()
        return only_decodes and not trains and not options.keep_model

    def build_criterion(self, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq, whose versions differ; from then on batches are made for the criterion."""
        self._has_criterion = True
        return super().build_criterion(*args, **kwargs)

    def get_batch_iterator(
        self,
        dataset: Any,
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        **kwargs: Any,
    ) -> Any:
        """As in fairseq; but with ``--decoding streaming`` a batch is what is read at once.

        The generator is told how much of that to decode at once: ``--batch-size`` sentences and
        ``--max-tokens`` source tokens.
        """
        if str(self.cfg.decoding) == "streaming" and not self._has_criterion:
            # fairseq-generate makes batches before it builds the generator, which checks, too.
            buffer = given(DecodingOptions.merged(self.cfg, None).stream_buffer, STREAM_BUFFER)
            self._capacity.sentences, self._capacity.source_tokens = max_sentences, max_tokens
            max_tokens, max_sentences = None, max(min(buffer, len(dataset)), 1)
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, max_tokens, max_sentences, **kwargs)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """As in fairseq; an empty split is refused before fairseq divides by its size.

        Raises:
            ValueError: if there is nothing in the split.
        """
        empty = ValueError(
            f"{self.cfg.data}: the split {split!r} has no sentences; check the files that "
            "fairseq-preprocess was given"
        )
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except ValueError as error:
            if "empty file" in str(error):  # what mmap says of a binary without a token
                raise empty from error
            raise
        if len(self.datasets[split]) == 0:
            raise empty

    def train_step(
        self, sample: Dict[str, Any], model: Any, criterion: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """As in fairseq; with ``--cpu-autocast`` matrix products are in bfloat16.

        Raises:
            ValueError: with ``--cpu-autocast`` for a model that is not on a CPU.
        """
        if not self.cfg.cpu_autocast:
            return super().train_step(sample, model, criterion, *args, **kwargs)
        device = next(model.parameters()).device
        if device.type != "cpu":
            raise ValueError(
                f"--cpu-autocast: the model is on {device}; use --amp, --fp16 or --bf16"
            )
        # The fused kernel's backward pass is slower in bfloat16 than in fp32 on a CPU.
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
            return super().train_step(sample, model, criterion, *args, **kwargs)

    def valid_step(self, sample: Dict[str, Any], model: Any, criterion: Any) -> Any:
        """As in fairseq; with ``--eval-bleu`` it also counts what decoding took."""
        generator = getattr(self, "sequence_generator", None)
        if not isinstance(generator, DecodingGenerator):
            return super().valid_step(sample, model, criterion)
        counts = generator.statistics
        tokens, invocations = counts.tokens, counts.row_invocations
        loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        logging_output[TOKENS] = counts.tokens - tokens
        logging_output[INVOCATIONS] = counts.row_invocations - invocations
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Add ``tokens_per_invocation`` to the validation metrics of fast decoding methods."""
        super().reduce_metrics(logging_outputs, criterion)
        invocations = _total(logging_outputs, INVOCATIONS)
        if invocations > 0:
            metrics.log_scalar(
                "tokens_per_invocation",
                _total(logging_outputs, TOKENS) / invocations,
                weight=invocations,
                round=3,
            )


def _total(logging_outputs: List[Dict[str, Any]], key: str) -> float:
    values = [output.get(key, 0) for output in logging_outputs]
    return sum(value.item() if torch.is_tensor(value) else value for value in values)
