"""Time by parts of a program."""

import time
from collections import defaultdict
from typing import Any, Callable, Dict, List, Tuple

import torch


class Stopwatch:
    """Measures what functions take, each without the other watched ones that it calls.

    Attributes:
        seconds: by part.
    """

    def __init__(self) -> None:
        self.seconds: Dict[str, float] = defaultdict(float)
        self._inside: List[str] = []
        self._since = 0.0
        self._replaced: List[Tuple[Any, str, Any]] = []

    def watched(self, function: Callable, part: str) -> Callable:
        """The same function, its time counted for ``part``."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            self._turn_to(part)
            try:
                return function(*args, **kwargs)
            finally:
                self._return()

        return timed

    def watch(self, owner: Any, name: str, part: str) -> None:
        """Replace a method or callable attribute of an object by its watched self."""
        self.replace(owner, name, self.watched(getattr(owner, name), part))

    def replace(self, owner: Any, name: str, other: Callable) -> None:
        """Replace a method or callable attribute of an object until :meth:`release`."""
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, other)

    def release(self) -> None:
        """Let what is watched be as it was: prepared weights outlive a profile."""
        while self._replaced:
            owner, name, own = self._replaced.pop()
            if own is None:
                delattr(owner, name)  # a method, which its class has
            else:
                setattr(owner, name, own)

    def _turn_to(self, part: str) -> None:
        self._count()
        self._inside.append(part)

    def _return(self) -> None:
        self._count()
        self._inside.pop()

    def _count(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._inside:
            self.seconds[self._inside[-1]] += now - self._since
        self._since = now
