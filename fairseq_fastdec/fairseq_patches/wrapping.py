"""Wraps functions of fairseq, for fixes and faster replacements."""

import functools
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, around: Callable) -> None:
    """Replace a function of a module or class by one that calls ``around``, but only once.

    Args:
        around: a function of a module, called with the replaced function and its arguments.
    """
    function = getattr(owner, name)
    wrappers: tuple[str, ...] = getattr(function, "wrappers", ())
    if around.__name__ in wrappers:
        return

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(function, *args, **kwargs)

    wrapped.wrappers = (*wrappers, around.__name__)  # type: ignore[attr-defined]
    setattr(owner, name, wrapped)
