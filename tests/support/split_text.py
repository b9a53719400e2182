"""The service's sentences of a text."""

import asyncio

from fairseq_fastdec.serving.texts import split_texts


def split(text, language):
    """A text, split as in a request."""
    return asyncio.run(split_texts([text], language))[0]
