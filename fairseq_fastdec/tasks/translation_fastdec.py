"""fairseq's translation task with a choice of decoding methods."""

import os
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq import utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..data.model_files import LANGUAGES
from ..decoding.options import DecodingOptions
from ..models.finetuning import check_finetuned
from .fast_decoding import FastDecoding
from .token_orders import TokenOrders


@dataclass
class TranslationFastdecConfig(DecodingOptions, TranslationConfig):
    """The options of ``translation`` and of the decoding methods, and one for training."""

    cpu_autocast: bool = field(
        default=False,
        metadata={
            "help": "train on a CPU with matrix products in bfloat16 (torch.autocast): faster if "
            "the processor supports them; parameters, gradients, sums and validation stay in fp32",
            "group": "training",
        },
    )


class TranslationFastdecTask(TokenOrders, FastDecoding, TranslationTask):
    """``--task translation`` with ``--decoding`` and its options.

    With the default, ``--decoding fairseq``, it is the same as fairseq's task, except for
    checkpoints of ``translation_double_token``, which fairseq cannot decode.
    """

    cfg: TranslationFastdecConfig

    def check_finetuned(
        self, path: str, state: dict[str, Any], own: Any, model: torch.nn.Module
    ) -> None:
        """Called by fairseq-train with the checkpoint of ``--finetune-from-model``.

        Raises:
            ValueError: if its network differs; it names the options that differ.
        """
        check_finetuned(path, state, own, model)

    def load_dataset(
        self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any
    ) -> None:
        """See fairseq; an empty split is rejected before fairseq divides by its size.

        Raises:
            ValueError: if the split is empty, or for data that need another task.
        """
        folder = utils.split_paths(self.cfg.data)[0]
        if not hasattr(self, "languages") and os.path.isfile(os.path.join(folder, LANGUAGES)):
            raise ValueError(
                f"--task translation: {folder} has {LANGUAGES}, since its model reads languages "
                "from inputs; use --task translation_languages"
            )
        empty = ValueError(
            f"{self.cfg.data}: the split {split!r} has no sentences; check the input files of "
            "fairseq-preprocess"
        )
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except ValueError as error:
            if "empty file" in str(error):  # mmap's error for a binary without tokens
                raise empty from error
            raise
        if len(self.datasets[split]) == 0:
            raise empty

    def train_step(
        self, sample: dict[str, Any], model: Any, criterion: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """See fairseq; with ``--cpu-autocast`` matrix products are in bfloat16.

        Raises:
            ValueError: with ``--cpu-autocast`` for a model that is not in fp32 on a CPU.
        """
        if not self.cfg.cpu_autocast:
            return super().train_step(sample, model, criterion, *args, **kwargs)
        weight = next(model.parameters())
        if weight.device.type != "cpu":
            raise ValueError(
                f"--cpu-autocast: the model is on {weight.device}; use --amp, --fp16 or --bf16"
            )
        if weight.dtype != torch.float32:
            kind = str(weight.dtype).removeprefix("torch.")
            raise ValueError(f"--cpu-autocast: the model is in {kind}; remove --fp16")
        # The fused kernel's backward pass is slower in bfloat16 than in fp32 on a CPU.
        with torch.autocast("cpu", torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
            return super().train_step(sample, model, criterion, *args, **kwargs)
