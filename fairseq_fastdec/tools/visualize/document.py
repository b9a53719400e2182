"""Reads and writes traces as JSON, for other programs and for the HTML page.

The document is one object::

    {"format": "fairseq_fastdec.ddgviz", "version": 1, "sentences": [SENTENCE, ...]}

Each SENTENCE has (positions and steps count from 0; tokens are the dictionary's strings):

- ``id``: line number in the input; ``method``: the ``--decoding``; ``subwords``: ``show``, ``mark``
  or ``join``;
- ``blocks``: the numbers of tokens accepted at once, as ``--decoding-stats`` counts them (Stern et
  al. 2018, section 7.4); ``[]`` for methods without blocks;
- ``source``, ``tokens``: lists of strings ending in ``</s>``;
- ``steps``: one for each decoder invocation, with ``first``, ``drafts``, ``answers``,
  ``probabilities`` and ``settled`` as in :class:`~.trace.TraceStep`, and ``frontier``: how many
  leading tokens are settled after it;
- ``decoded``: for each token ``{"step", "context", "parallel", "guessed"}`` as in
  :class:`~.graph.Decoded`, or ``null`` if it was forced;
- ``edges``: pairs ``[i, j]``: token j depends on token i, or only on the source if i is -1;
- ``labels``: the spelling of tokens that are displayed differently; ``text``: the source in a
  line; ``words``: triples ``[i, j, word]``, the words to show next to the tokens i to j - 1;
- ``cells``: for each step and token ``null`` or the kind of the answer there, see
  :class:`~.graph.Cell`.

``frontier``, ``decoded``, ``edges``, ``labels``, ``text``, ``words`` and ``cells`` are derived
from the rest and are not read back.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from . import graph
from .subwords import Spelling
from .trace import SentenceTrace, TraceStep

FORMAT = "fairseq_fastdec.ddgviz"
VERSION = 1


def write(traces: Sequence[SentenceTrace]) -> str:
    """The document with the given traces, as JSON text."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "sentences": [_sentence(trace) for trace in traces],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def read(text: str) -> list[SentenceTrace]:
    """The traces of a document.

    Raises:
        ValueError: if the text is not such a document.
    """
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(
            f"not a {FORMAT} document; write one with python -m fairseq_fastdec ddgviz"
        )
    if document.get("version") != VERSION:
        raise ValueError(
            f"{FORMAT} version {document.get('version')}: only version {VERSION} is supported; "
            "write the file again with python -m fairseq_fastdec ddgviz"
        )
    return [_trace(sentence) for sentence in document["sentences"]]


def _sentence(trace: SentenceTrace) -> dict[str, Any]:
    found = graph.decoded(trace)
    spelling = Spelling.from_trace(trace)
    seen = [*trace.tokens, *(t for step in trace.steps for t in [*step.drafts, *step.answers])]
    steps = [
        {**asdict(step), "frontier": frontier}
        for step, frontier in zip(trace.steps, graph.frontiers(trace))
    ]
    return {
        "id": trace.id,
        "method": trace.method,
        "subwords": trace.subwords,
        "blocks": trace.blocks,
        "block_name": trace.block_name,
        "source": trace.source,
        "tokens": trace.tokens,
        "steps": steps,
        "decoded": [None if token is None else asdict(token) for token in found],
        "edges": graph.edges(found),
        "labels": spelling.labels(seen),
        "text": spelling.text(trace.source[:-1]),
        "words": spelling.joined(trace.tokens),
        "cells": [[cell and cell.kind for cell in row] for row in graph.cells(trace)],
    }


def _trace(sentence: dict[str, Any]) -> SentenceTrace:
    names = ("first", "drafts", "answers", "probabilities", "settled")
    steps = [TraceStep(**{name: step[name] for name in names}) for step in sentence["steps"]]
    return SentenceTrace(
        sentence["id"],
        sentence["source"],
        sentence["tokens"],
        steps,
        sentence["method"],
        sentence.get("subwords", "show"),
        sentence.get("blocks", []),
    )
