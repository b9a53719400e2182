"""The base class of compiled searches, which are reused until the models change."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np

from ...decoding.shortlist import Shortlist
from ...engine.kernels.parts import EnginePart
from ...engine.searches import PairOptions, Recipe
from ...packing.models import EngineModels
from ..constraints import GenerationRules
from ..sources import Sources, are_tokens


class CompiledSearch:
    """A compiled search over an ensemble. Not thread-safe."""

    def __init__(
        self,
        models: EngineModels,
        rules: GenerationRules,
        temperature: float,
        options: Any,
        shortlist: Optional[Shortlist] = None,
    ) -> None:
        """
        Args:
            temperature: divides the logits before the softmax.
            options: options from :mod:`~...engine.searches`.
            shortlist: the target types that may be used (default: all).
        """
        self._models, self._rules, self._temperature = models, rules, temperature
        self._options, self._shortlist = options, shortlist
        self._search: Any = None
        self._models_of_search: list[Any] = []

    def recipe(self, n_source: int, bos: int) -> Optional[Recipe]:
        """The search for sentences that are added one by one; ``None`` if unsupported.

        Args:
            n_source: the most tokens of a source.
            bos: the token before the first.
        """
        options = self._options
        if isinstance(options, PairOptions) or getattr(options, "sampling", None) is not None:
            return None
        models = self._models.reaching(n_source, self._rules.max_positions)
        return Recipe(models, self._rules, options, self._temperature, bos)

    def parts(self, n_source: int) -> list[EnginePart]:
        """The models, with positions for sources of at most ``n_source`` tokens."""
        return self._models.parts(n_source, self._rules.max_positions)

    @contextmanager
    def search_for(self, n_source: int, n_target: int) -> Iterator[Any]:
        """Yield the search of the last batch, or a new one if the models have changed.

        Args:
            n_source, n_target: the most tokens of a source and of an output.
        """
        models = self._models.reaching(n_source, n_target)
        if self._search is None or models is not self._models_of_search:
            rules = self._rules.compiled(self._temperature)
            self._search = self._options.search(models, rules)
            self._models_of_search = models
        # After an error the search is dropped, since it may still hold sentences.
        search, self._search = self._search, None
        yield search
        self._search = search

    def arguments(
        self,
        sources: Sources,
        prefix: Optional[np.ndarray],
        numbers: Optional[np.ndarray] = None,
    ) -> dict[str, Any]:
        """The arguments of ``admit`` that are common to all searches.

        Args:
            prefix: forced first tokens, int64 ``[B, P]``, or ``None``.
            numbers: the order of the sentences, int64 ``[B]`` (default: that of the batch).
        """
        tokens = sources.content.numpy() if are_tokens(sources.content) else None
        states = self._models.states(sources.net_input)
        if numbers is not None:
            tokens, prefix = (
                None if array is None else array[numbers] for array in (tokens, prefix)
            )
            states = states and [(array[numbers], lengths[numbers]) for array, lengths in states]
        types = None
        if self._shortlist is not None:
            assert tokens is not None  # checked when the shortlist is loaded
            types = self._shortlist.types_of(tokens, prefix)
        return {"sources": tokens, "prefix": prefix, "types": types, "states": states}
