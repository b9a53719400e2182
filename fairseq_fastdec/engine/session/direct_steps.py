"""Steps, choices and proposals between fixed places in memory, for searches on the host."""

from typing import Dict, Optional, Tuple, Union

from torch import Tensor

from ..kernels.drafts import AttendedSources
from ..kernels.transformer import Transformer
from ..network.compiled_decoder import cache_structure
from .decoder_network import DecoderNetwork
from .output_layer import DirectDrafts, DirectOutput
from .row_table import RowTable
from .step_runners import CompiledRunner


class DirectSteps:
    """A session's steps without a tensor in between, where one model is compiled throughout.

    It is of use as long as the session's sources stay the same.

    Attributes:
        dim: C, the size of a position's features.
        transformer: the decoder, for compiled code that takes the steps.
    """

    def __init__(self, network: DecoderNetwork, runner: CompiledRunner, rows: RowTable) -> None:
        self._network = network
        self._runner = runner
        self._rows = rows
        self.dim: int = network.weights.embed.size(1)
        self.transformer: Transformer = network.compiled.network
        self._outputs: Dict[tuple, Optional[DirectOutput]] = {}
        self._drafts: Dict[bool, Optional[DirectDrafts]] = {}
        self._sources: Optional[AttendedSources] = None
        self._seen: Tuple[Optional[Tensor], int] = (None, -1)

    @classmethod
    def of(cls, network: DecoderNetwork, rows: RowTable) -> Optional["DirectSteps"]:
        """``None`` where other code than compiled code takes the steps."""
        runner = network.runner
        if not isinstance(runner, CompiledRunner) or not network.compiled.takes_addresses:
            return None
        return cls(network, runner, rows)

    def step(self, tokens: int, n_new: int, features: int, parents: Optional[int] = None) -> None:
        """:meth:`DecoderSession.step` between addresses; see :meth:`Transformer.step_at`."""
        self._runner.step_at(self._rows, tokens, n_new, features, parents)

    def prepare(self, n_new: int) -> None:
        """Let :attr:`transformer` take a step of ``n_new`` tokens of each row next."""
        self._runner.prepare(self._rows, n_new)

    def commit(self, n: Union[int, Tensor]) -> None:
        """:meth:`DecoderSession.commit` of the first tokens of the last step."""
        self._rows.commit(n)

    def extend_rows_to(self, shortest: int, longest: int) -> None:
        """See :meth:`RowTable.extend_to`; for compiled code that has committed tokens itself."""
        self._rows.extend_to(shortest, longest)

    def drafts(self, rough: bool = False) -> Optional[DirectDrafts]:
        """Find what computes sequential heads, which the model has to have.

        Returns:
            ``None`` if some of it was not compiled.
        """
        if rough not in self._drafts:
            self._drafts[rough] = self._network.output.direct_drafts(rough)
        return self._drafts[rough]

    def sources(self) -> AttendedSources:
        """The sources of the rows of now, to which sequential heads attend.

        Returns:
            the same object as long as all lies where it lay
        """
        rows, cache = self._rows, self._network.caches.sources
        storage, version = self._seen
        if storage is not cache.storage or version != rows.version:
            last_layer = len(self._network.weights.layers) - 1
            memory = (rows.row_source, rows.source_lengths, rows.lengths)
            self._sources = AttendedSources(cache_structure(cache), last_layer, *memory)
            self._seen = (cache.storage, rows.version)
        assert self._sources is not None
        return self._sources

    def output(self, first: int, last: int, rough: bool = False) -> Optional[DirectOutput]:
        """Find what computes heads ``first ... last - 1``; see :meth:`DecoderSession.project`.

        Returns:
            ``None`` if some of it was not compiled.
        """
        key = (first, last, rough)
        if key not in self._outputs:
            self._outputs[key] = self._network.output.direct(first, last, rough)
        return self._outputs[key]
