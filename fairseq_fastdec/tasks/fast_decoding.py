"""A mixin that adds fast decoding to any fairseq task."""

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any, Optional, Union

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import FairseqMultiModel
from fairseq.tasks import FairseqTask

from ..decoding import DecodingGenerator, build_generator, check_asked_for
from ..decoding.draft_file import DraftFile
from ..decoding.methods.streaming import Capacity, Streaming
from ..decoding.option_groups import add_options
from ..decoding.option_rules import given
from ..decoding.options import DecodingOptions, check_names
from ..fairseq_patches.mapped_checkpoints import read_weights
from ..orders.token_order import LEFT_TO_RIGHT, TRAINING_OF_TWO, TokenOrder, trained_order
from ..packing.release import release_once_prepared
from ..translating.generation_options import check_kinds
from ..translating.languages import Pair
from ..translating.registry import STOCK
from ..translating.text import detokenized, segmented
from ..translating.translation_memory import TranslationMemory
from .decoding_commands import is_decoding_command, warn_of_beam, warn_of_shards
from .stock_generator import for_one_beam, settings_of

STREAM_BUFFER = 4096
TOKENS, INVOCATIONS = "_decoding_tokens", "_decoding_row_invocations"

# fairseq has no annotations; for mypy, the mixin has all attributes of the task that it extends.
Task: Any = object


class FastDecoding(Task):
    """Adds ``--decoding`` and its options to a task with encoder-decoder models.

        class MyTaskFastdec(FastDecoding, MyTask):
            ...

    :func:`~.registration.register_fastdec` does this in one line, and registers the class under the
    name of the task. With the default, ``--decoding fairseq``, the task is unchanged. Forced,
    stripped and end tokens of the task are supported.

    Attributes:
        token_order: the order of target tokens; ``None`` for left to right.
        only_decodes: whether models are used only by the generators that the task builds; set by
            tools. fairseq-generate and -interactive are detected automatically.
    """

    token_order: Optional[TokenOrder] = None
    only_decodes = False
    _has_criterion = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._capacity = Capacity()
        self._drafts: Union[DraftFile, TranslationMemory, None] = None
        # The encoders that split text into subwords.
        self._segmenters: dict[str, Any] = {}

    @classmethod
    def add_args(cls, parser: Any) -> None:
        """See fairseq; options that the stock task lacks are in groups by method."""
        own = getattr(cls, "__dataclass", None)
        if own is None:
            super().add_args(parser)
            add_options(parser, DecodingOptions(), FairseqDataclass)
        else:
            tasks = (base for base in cls.__mro__ if issubclass(base, FairseqTask))
            stock = next(task for task in tasks if not issubclass(task, FastDecoding))
            add_options(parser, own(), getattr(stock, "__dataclass"))

    @property
    def _options(self) -> Any:
        """The options of the task: a namespace in tasks without a dataclass."""
        return self.args if self.cfg is None else self.cfg

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called with the task state of a checkpoint.

        Raises:
            ValueError: if the checkpoint was trained with another order of decoding.
        """
        trained = trained_order(state_dict)
        own = self.token_order or LEFT_TO_RIGHT
        if trained != own:
            is_of_one = trained.tokens_per_step < own.tokens_per_step
            raise ValueError(
                f"{own}: the checkpoint was trained with {trained}; decode it without --task"
                + is_of_one * f", or {TRAINING_OF_TWO}"
            )
        super().load_state_dict(state_dict)

    def check_restored(self, task_state: dict[str, Any]) -> None:
        """Called by fairseq-train with the task state of the checkpoint that it continues from.

        Raises:
            ValueError: if it was trained with another order of decoding.
        """
        trained, own = trained_order(task_state), self.token_order or LEFT_TO_RIGHT
        if trained != own:
            raise ValueError(
                f"{own}: the checkpoint to continue from was trained with {trained}; train with "
                "that, or use only its parameters, with --finetune-from-model"
            )

    def check_option_names(self, names: Iterable[str], where: str) -> None:
        """Called by the hub interface, which would ignore unknown names.

        Raises:
            ValueError: for a name that is not a generation option, with the closest match.
        """
        check_names(names, where)

    def check_options(self, args: Any) -> None:
        """Check the options of a generator before models are loaded or the generator is built.

        Args:
            args: fairseq's ``GenerationConfig``; decoding options in it override the task's.

        Raises:
            ValueError: for an option that the method does not support; it names the flag.
        """
        options = DecodingOptions.merged(self._options, args)
        if str(options.decoding) == STOCK:
            check_kinds(args, only_types=True)
        else:
            check_asked_for(options, args)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """See fairseq.

        Raises:
            ValueError: for a name in ``--eval-bleu-args`` that is not a generation option.
        """
        if getattr(self._options, "eval_bleu", False):
            named = json.loads(self._options.eval_bleu_args or "{}")
            self.check_option_names(named, "--eval-bleu-args")
        build = super().build_model
        # Tasks for older versions of fairseq lack this argument.
        if "from_checkpoint" not in inspect.signature(build).parameters:
            return build(cfg)
        return build(cfg, from_checkpoint)

    def build_generator(
        self,
        models: list[Any],
        args: Any,
        seq_gen_cls: Optional[type] = None,
        extra_gen_cls_kwargs: Optional[dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable] = None,
    ) -> Any:
        """Build the generator of ``--decoding``; options in ``args`` override the task's.

        ``args.beam``, which fairseq-generate prints, is set to 1 for methods with one hypothesis.

        Raises:
            ValueError: for an option that the method does not support, naming flag and remedy, and
                for a task with its own search.
        """
        warn_of_shards(args)
        options = DecodingOptions.merged(self._options, args)
        scores_only = getattr(args, "score_reference", False)
        if scores_only and options.decoding_stats is not None:
            raise ValueError(
                f"--decoding-stats {options.decoding_stats}: --score-reference decodes nothing; "
                "remove one of them"
            )
        asked = {
            "seq_gen_cls": seq_gen_cls,
            "extra_gen_cls_kwargs": extra_gen_cls_kwargs,
            "prefix_allowed_tokens_fn": prefix_allowed_tokens_fn,
        }
        # Not all of fairseq's tasks accept all three.
        asked = {name: value for name, value in asked.items() if value is not None}
        if str(options.decoding) == STOCK or scores_only or seq_gen_cls is not None:
            read_weights(models)
            return super().build_generator(models, args, **asked)
        check_asked_for(options, args, extra_gen_cls_kwargs, prefix_allowed_tokens_fn)
        build, own_args, extra = super().build_generator, args, extra_gen_cls_kwargs
        # fairseq's own build_generator adds no settings; skip it, since it would slow down hub
        # calls.
        if build.__func__ is not FairseqTask.build_generator:
            stock = build(models, for_one_beam(args), **asked)
            own_args, settings = settings_of(stock, args, self)
            extra = {**(extra or {}), **settings}
        loaded = models
        models = [_encoder_decoder(model) for model in models]
        generator = build_generator(
            models,
            self.target_dictionary,
            own_args,
            options,
            extra,
            source_dictionary=self.source_dictionary,
        )
        may_release = self._may_release(options) and not generator.needs_models
        every = models if generator.lm is None else [*models, generator.lm.model]
        will_go = release_once_prepared(every) if may_release else []
        read_weights(loaded, but=will_go)
        if generator.keeps_one_hypothesis and hasattr(args, "beam"):
            warn_of_beam(args.beam, generator.name)
            args.beam = 1
        if isinstance(generator, Streaming):
            generator.capacity = self._capacity
        if generator.drafts is not None:
            self.check_token_order("--draft-file, --memory-source")
            generator.drafts.segmented = self._segmented
            self._drafts = generator.drafts
        glossary = getattr(generator, "glossary", None)
        if glossary is not None:
            glossary.segmented, glossary.plain = self._segmented, self._plain
            names = (getattr(self._options, f"{side}_lang", None) for side in ("source", "target"))
            glossary.pair = Pair(*names)
        return generator

    def check_token_order(self, option: str) -> None:
        """Reject an option that is only for models that decode from left to right.

        Raises:
            ValueError: for a model with another order.
        """
        if self.token_order not in (None, LEFT_TO_RIGHT):
            raise ValueError(
                f"{option}: only for models that decode from left to right, not "
                f"{self.token_order}; remove it"
            )

    def build_tokenizer(self, args: Any) -> Any:
        """See fairseq; drafts and terms are also tokenised with it."""
        self._segmenters["tokenizer"] = tokenizer = super().build_tokenizer(args)
        return tokenizer

    def build_bpe(self, args: Any) -> Any:
        """See fairseq; drafts and terms are also segmented with it."""
        self._segmenters["bpe"] = bpe = super().build_bpe(args)
        return bpe

    def _segmented(self, text: str) -> str:
        return segmented(text, map(self._segmenters.get, ("tokenizer", "bpe")))

    def _plain(self, text: str) -> str:
        return detokenized(text, map(self._segmenters.get, ("bpe", "tokenizer")))

    def build_dataset_for_inference(self, src_tokens: Any, src_lengths: Any, **kwargs: Any) -> Any:
        """See fairseq; fairseq-interactive calls it for each buffer of lines."""
        if isinstance(self._drafts, DraftFile):
            self._drafts.begin_buffer(src_tokens)
        return super().build_dataset_for_inference(src_tokens, src_lengths, **kwargs)

    @property
    def defers_weights(self) -> bool:
        """Whether models may leave their weights in the file when they are loaded."""
        if str(getattr(self._options, "decoding", STOCK)) == STOCK:
            # Options are checked later: the checkpoint may be one of double_token.
            return False
        return self._may_release(DecodingOptions.merged(self._options, None))

    def _may_release(self, options: DecodingOptions) -> bool:
        """Whether the models' own weights are used only by the generator."""
        trains = self._has_criterion
        only_decodes = self.only_decodes or is_decoding_command()
        return only_decodes and not trains and not options.keep_model

    def build_criterion(self, *args: Any, **kwargs: Any) -> Any:
        """See fairseq, whose versions differ; later batches are for the criterion."""
        self._has_criterion = True
        return super().build_criterion(*args, **kwargs)

    def get_batch_iterator(
        self,
        dataset: Any,
        max_tokens: Optional[int] = None,
        max_sentences: Optional[int] = None,
        **kwargs: Any,
    ) -> Any:
        """See fairseq; with ``--decoding streaming`` a batch has ``--stream-buffer`` sentences.

        ``--batch-size`` and ``--max-tokens`` then limit the sentences and source tokens that the
        generator decodes at once.
        """
        decoding = str(getattr(self._options, "decoding", STOCK))
        if decoding != STOCK and kwargs.get("num_workers") == 1 and is_decoding_command():
            # By default, fairseq creates batches in a separate process and collects them in a
            # thread. Both compete with the decoding threads, which costs more than creating the
            # batches here.
            kwargs["num_workers"], kwargs["data_buffer_size"] = 0, 0
        if decoding == "streaming" and not self._has_criterion:
            # fairseq-generate creates batches before it builds the generator, so check options
            # here.
            buffer = given(DecodingOptions.merged(self._options, None).stream_buffer, STREAM_BUFFER)
            self._capacity.sentences, self._capacity.source_tokens = max_sentences, max_tokens
            max_tokens, max_sentences = None, max(min(buffer, len(dataset)), 1)
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, max_tokens, max_sentences, **kwargs)

    def valid_step(self, sample: dict[str, Any], model: Any, criterion: Any) -> Any:
        """See fairseq; with ``--eval-bleu`` it also counts the decoder invocations."""
        generator = getattr(self, "sequence_generator", None)
        if not isinstance(generator, DecodingGenerator):
            return super().valid_step(sample, model, criterion)
        counts = generator.statistics
        tokens, invocations = counts.tokens, counts.row_invocations
        loss, sample_size, logging_output = super().valid_step(sample, model, criterion)
        logging_output[TOKENS] = counts.tokens - tokens
        logging_output[INVOCATIONS] = counts.row_invocations - invocations
        return loss, sample_size, logging_output

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
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


def makes_batches_as_fairseq(task: type) -> bool:
    """Whether a class is a :class:`FastDecoding` task with the batches of fairseq's base class."""
    makers = {kind for kind in task.__mro__ if "get_batch_iterator" in vars(kind)}
    return makers == {FastDecoding, FairseqTask}


def _encoder_decoder(model: Any) -> Any:
    """The encoder-decoder that fairseq's generator uses of a multilingual model."""
    return model.models[model.keys[0]] if isinstance(model, FairseqMultiModel) else model


def _total(logging_outputs: list[dict[str, Any]], key: str) -> float:
    values = [output.get(key, 0) for output in logging_outputs]
    return sum(value.item() if torch.is_tensor(value) else value for value in values)
