"""Shows progress within a batch on fairseq's progress bar.

``--decoding streaming`` decodes thousands of sentences as one batch. fairseq counts batches, so its
bar would stay at 0 until the end.
"""

import json
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Optional, TypeVar

from fairseq.logging import progress_bar
from fairseq.logging.progress_bar import JsonProgressBar, SimpleProgressBar, TqdmProgressBar

from .wrapping import wrap

Item = TypeVar("Item")

SECONDS_BETWEEN_LINES = 60.0

_latest: Optional["weakref.ref[progress_bar.BaseProgressBar]"] = None
# The number of batches begun since then; tqdm updates its count only when it draws.
_n_begun = 0


def install() -> None:
    """Keep a reference to fairseq's progress bar, which is not accessible otherwise."""
    wrap(progress_bar, "progress_bar", _remembered)


def _remembered(make_bar, *args, **kwargs):
    global _latest, _n_begun
    bar = make_bar(*args, **kwargs)
    _latest, _n_begun = weakref.ref(bar), 0
    return bar


def shown(items: Iterable[Item], n_items: int) -> Iterator[Item]:
    """Yield the items, each of them a finished sentence of the current batch, and show progress.

    On a terminal, fairseq's bar is updated. If fairseq writes lines instead
    (``--log-format simple`` and ``json``, ``--no-progress-bar``, no terminal), one line per minute
    is logged. Without a bar nothing is shown.

    Args:
        n_items: the total number of items.
    """
    global _n_begun
    bar = None if _latest is None else _latest()
    n_before, _n_begun = _n_begun, _n_begun + 1
    if isinstance(bar, TqdmProgressBar) and not bar.tqdm.disable:
        return _on_bar(items, n_items, n_before, bar.tqdm)
    if isinstance(bar, JsonProgressBar):
        return _in_lines(
            items, lambda n: json.dumps({"sentences_done": n, "sentences_in_batch": n_items})
        )
    if isinstance(bar, SimpleProgressBar):
        return _in_lines(items, lambda n: f"{n} of {n_items} sentences of the batch are done")
    return iter(items)


def _on_bar(items: Iterable[Item], n_items: int, n_before: int, bar) -> Iterator[Item]:
    """Advance the bar by the finished fraction of the batch.

    Args:
        n_before: the number of finished batches.
    """
    counted, drawn = bar.n, time.monotonic()
    try:
        for done, item in enumerate(items, start=1):
            if time.monotonic() - drawn >= bar.mininterval:
                bar.n = round(n_before + done / n_items, 2)
                bar.set_postfix_str(f"{done} of {n_items} sentences")
                drawn = time.monotonic()
            yield item
    finally:
        # fairseq counts the batch itself when it fetches the next one.
        bar.n = counted
        bar.set_postfix_str("", refresh=False)


def _in_lines(items: Iterable[Item], line: Callable[[int], str]) -> Iterator[Item]:
    written = time.monotonic()
    for done, item in enumerate(items, start=1):
        if time.monotonic() - written >= SECONDS_BETWEEN_LINES:
            progress_bar.logger.info(line(done))
            written = time.monotonic()
        yield item
