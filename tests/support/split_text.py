"""The service's sentences of a text."""

import asyncio

from fairseq_fastdec.serving.texts import split_texts


def split(text, language):
    """A text, split as in a request."""
    return split_all([text], language)[0]


def split_all(texts, language):
    """All texts of a request, split."""
    return asyncio.run(split_texts(texts, language))
