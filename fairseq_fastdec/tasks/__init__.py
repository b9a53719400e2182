"""The tasks that fairseq calls: fairseq's own, with ``--decoding``."""

from functools import partial

from ..fairseq_patches.lean_imports import once_run
from . import saved_task, translation_double_token, translation_languages  # noqa: F401
from .fast_decoding import FastDecoding
from .registration import register_fastdec, take_over
from .translation_fastdec import TranslationFastdecConfig, TranslationFastdecTask

__all__ = ["FastDecoding", "register_fastdec"]

# fairseq's other tasks of encoder-decoder models that write text token by token.
OTHERS = (
    "multilingual_translation",
    "speech_to_text",
    "translation_from_pretrained_bart",
    "translation_from_pretrained_xlm",
    "translation_multi_simple_epoch",
)

take_over("translation", TranslationFastdecTask, TranslationFastdecConfig)
for task in OTHERS:
    once_run(f"fairseq.tasks.{task}", partial(register_fastdec, task))

saved_task.install()
