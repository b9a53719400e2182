"""The tasks that fairseq calls: ``TASK_fastdec`` is fairseq's TASK with ``--decoding``."""

from . import saved_task, translation_double_token, translation_fastdec  # noqa: F401
from .fast_decoding import FastDecoding
from .registration import register_fastdec

__all__ = ["FastDecoding", "register_fastdec"]

# fairseq's other tasks of encoder-decoder models that write text token by token.
STOCK = (
    "multilingual_translation",
    "speech_to_text",
    "translation_from_pretrained_bart",
    "translation_from_pretrained_xlm",
    "translation_multi_simple_epoch",
)

for task in STOCK:
    register_fastdec(task)

saved_task.install()
