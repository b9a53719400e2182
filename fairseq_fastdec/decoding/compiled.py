"""A method in compiled code."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np

from ..engine.kernels import loading
from ..engine.kernels.parts import EnginePart
from ..engine.rules import Limits
from ..engine.searches import Recipe, Result, SearchOptions, ranked, results_of, with_phrases
from ..packing.models import EngineModels
from ..translating.shortlist import Shortlist
from .constraints import GenerationRules
from .hypothesis import hypothesis_of
from .request import Request
from .statistics import Statistics

# The number of steps after which control returns to Python, for results and interrupts.
STEPS_AT_ONCE = 256


class CompiledSearch:
    """A compiled search over an ensemble, reused until the models change. Not thread-safe."""

    def __init__(
        self,
        models: EngineModels,
        rules: GenerationRules,
        temperature: float,
        options: SearchOptions,
        shortlist: Optional[Shortlist] = None,
    ) -> None:
        """
        Args:
            temperature: divides the logits before the softmax.
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
        if self._options.options.get("sampling"):
            return None
        models = self._models.reaching(n_source, self._rules.max_positions)
        own = (self._rules, self._options, self._temperature, bos)
        return Recipe(models, *own, shortlist=self._shortlist)

    def parts(self, n_source: int) -> list[EnginePart]:
        """The models, with positions for sources of at most ``n_source`` tokens."""
        return self._models.parts(n_source, self._rules.max_positions)

    def results(
        self,
        request: Request,
        limits: Limits,
        statistics: Statistics,
        schedule: Optional[dict[str, Any]] = None,
        order: Optional[np.ndarray] = None,
    ) -> Iterator[Result]:
        """Decode a batch, and yield the results, with fairseq's dicts, as sentences finish.

        Args:
            statistics: updated with the search's counters.
            schedule: how much is decoded at once, see ``schedule.h``; by default everything.
            order: int64 ``[B]``, the order in which sentences begin (default: that of the batch).
        """
        sources, numbers = request.sources, np.arange(request.n) if order is None else order

        def ordered(array: Any) -> Any:
            return array if array is None or order is None else array[order]

        tokens, prefix = request.source_tokens, request.prefix_tokens
        states = self._models.states(sources.net_input)
        types = None
        if self._shortlist is not None:
            assert tokens is not None  # checked when the shortlist is loaded
            types = self._shortlist.types_of(ordered(tokens), ordered(prefix))
        drafts = None
        if request.drafts is not None:
            drafts = [request.drafts[number].numpy() for number in numbers.tolist()]
        constraints, forbidden = (
            None if phrases is None else [phrases[number] for number in numbers]
            for phrases in (request.constraints, request.forbidden)
        )
        if constraints is not None:
            types = with_phrases(types, constraints)
        with self._search_for(sources.width, int(limits.max_lens.max())) as search:
            before = search.counts
            search.set_schedule(**(schedule or {}))
            search.admit(
                ids=numbers,
                bos=request.bos,
                max_lens=ordered(limits.max_lens),
                waived=ordered(limits.waived),
                sources=ordered(tokens),
                states=states and [(ordered(own), ordered(lengths)) for own, lengths in states],
                n_source=ordered(sources.lengths.numpy()),
                prefix=ordered(prefix),
                types=types,
                drafts=drafts,
                constraints=constraints,
                ordered=request.ordered,
                forbidden=forbidden,
                horizons=ordered(request.horizons),
                random_states=ordered(request.random_states),
                return_attention=request.return_attention and self._models.align,
            )
            n_left = request.n
            while n_left:
                n_left = search.advance(STEPS_AT_ONCE, loading.n_threads())
                for result in results_of(search.finished()):
                    outputs = ranked(result.hypotheses, self._rules, self._options.n_best)
                    yield result._replace(hypotheses=[*map(hypothesis_of, outputs)])
            statistics.count_search(before, search.counts)

    def prepared(self, n_source: int, max_len: int) -> list[Any]:
        """The models, which pack their weights when they are first asked for.

        Args:
            n_source: the most tokens of a source; max_len: of an output, without EOS.
        """
        n_ends = 2 if self._options.kind == "pairs" else 1
        return self._models.reaching(n_source, max_len + n_ends)

    @contextmanager
    def _search_for(self, n_source: int, max_len: int) -> Iterator[Any]:
        """Yield the search of the last batch, or a new one if :meth:`prepared` has other models."""
        models = self.prepared(n_source, max_len)
        if self._search is None or models is not self._models_of_search:
            rules = self._rules.compiled(self._temperature)
            self._search = self._options.search(models, rules)
            self._models_of_search = models
        # After an error the search is dropped, since it may still hold sentences.
        search, self._search = self._search, None
        yield search
        self._search = search
