"""Generators shared by calls from Python. Each is built once and serves one call at a time.

fairseq's hub interface builds a generator in every call, which takes longer than decoding a
sentence with a small model.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from ..decoding import DecodingGenerator
from ..processes.cores import TURNS

# Idle generators keep the caches of the largest batch that they have decoded.
MOST_IDLE = 8

Key = Hashable


class KeptGenerators:
    """Idle generators, indexed by everything they depend on. Thread-safe.

    Only generators of this package are kept, and only if their calls are independent: when it is
    built, a sampling generator draws its seed, and one with ``decoding_stats`` empties its file.
    fairseq's own generators set their beam width in the model, so they are built for every call.
    """

    def __init__(self) -> None:
        self._idle: dict[Key, Idle] = {}
        self._n_idle = 0
        self._n_calls = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lent(self, key: Optional[Key], build: Callable[[], Any]) -> Iterator[Any]:
        """A generator for one call, put back at the end of the ``with`` block.

        A call waits until there is a core for it (:data:`~.cores.TURNS`). A generator whose call
        raised an error is dropped.

        Args:
            key: everything that ``build`` depends on; see :func:`key_of`. ``None`` to keep no
                generator.
            build: makes a generator.

        Raises:
            ValueError: if ``build`` raises it, for an option that the method does not support.
        """
        with TURNS:
            with self._lock:
                # A key can have a hundred values, so look it up only once.
                idle = Idle() if key is None else self._idle.setdefault(key, Idle())
                generator = idle.generators.pop() if idle.generators else None
                self._n_idle -= generator is not None
                idle.n_lent += 1
            try:
                is_kept = generator is not None
                if generator is None:
                    generator = build()
                    is_kept = key is not None and _may_be_kept(generator)
                yield generator
                if is_kept:
                    self._keep(idle, generator)
            finally:
                with self._lock:
                    idle.n_lent -= 1

    def _keep(self, idle: "Idle", generator: Any) -> None:
        """Put a generator back; if there are too many, drop the least recently used."""
        with self._lock:
            idle.generators.append(generator)
            self._n_idle += 1
            self._n_calls += 1
            idle.latest_call = self._n_calls
            if self._n_idle > MOST_IDLE:
                filled = [idle for idle in self._idle.values() if idle.generators]
                min(filled, key=lambda idle: idle.latest_call).generators.pop(0)
                self._n_idle -= 1
                self._idle = {
                    key: idle for key, idle in self._idle.items() if idle.generators or idle.n_lent
                }


@dataclass
class Idle:
    """The idle generators with some options.

    Attributes:
        latest_call: the number of the latest call with them.
        n_lent: the number of calls that are using one of them, or build one.
    """

    generators: list[Any] = field(default_factory=list)
    latest_call: int = 0
    n_lent: int = 0


def key_of(options: dict[str, Any]) -> Optional[Key]:
    """Options as a key; ``None`` if a value cannot be one. ``True`` and ``1`` are not the same."""
    key = tuple(sorted((name, type(value).__name__, value) for name, value in options.items()))
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _may_be_kept(generator: Any) -> bool:
    if not isinstance(generator, DecodingGenerator):
        return False
    return generator.options.decoding_stats is None and not getattr(
        generator.args, "sampling", False
    )
