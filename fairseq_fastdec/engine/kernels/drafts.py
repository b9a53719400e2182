"""Sequential prediction heads: chains and trees of proposals in one call of compiled code."""

import ctypes
import math
from typing import Callable, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from . import loading, problems, structures
from .best_token import BestToken
from .blocks import RowBlocks
from .loading import Library
from .packed import Packed
from .top_k import FEW_SCORES, TopK
from .transformer import LayerNorm, is_readable, norm_structure


class DraftParameters(NamedTuple):
    """The parts and sizes of sequential heads, as compiled code needs them.

    Attributes:
        n_heads, head_dim: of the attention to the sources, whose queries come scaled.
        activation: of the feed-forward network, a name of :data:`.structures.EPILOGUES`.
        embed: fp32 ``[V, E]``; linears, norms: by their names in :class:`.structures.Draft`, all
            but ``narrow``, which only heads with an output rank have.
    """

    n_heads: int
    head_dim: int
    activation: str
    embed: Tensor
    embed_scale: float
    linears: Mapping[str, Optional[Packed]]
    norms: Mapping[str, LayerNorm]


class AttendedSources(NamedTuple):
    """The sources that the rows of a call attend to.

    Attributes:
        cache: their keys and values; layer: whose of them.
        row_source: the slot of each row's source, int64 ``[R]``; source_lengths: int64 ``[S]``.
        past: the lengths of the rows, int64 ``[R]``.
    """

    cache: structures.Cache
    layer: int
    row_source: Tensor
    source_lengths: Tensor
    past: Tensor


class Flags(NamedTuple):
    """Rules about ends, bool ``[steps, R]`` each; ``None`` where they restrict nothing."""

    no_end: Optional[Tensor] = None
    only_end: Optional[Tensor] = None

    def addresses(self, n: int) -> Tuple[Optional[int], Optional[int]]:
        """Where the n numbers of each lie."""
        if self.no_end is None and self.only_end is None:
            return None, None
        no_end, only_end = (
            None if flags is None else problems.address(flags, n, "rules about ends", torch.bool)
            for flags in self
        )
        return no_end, only_end


class ChainRequest(NamedTuple):
    """A request for chains of proposals behind R rows.

    Attributes:
        features, next_tokens, proposals: the addresses of fp32 ``[R, C]``, int64 ``[R]`` and of the
            result, int64 ``[R, n]`` in the memory of ``[R, n_steps]``. Who calls this answers for
            their sizes.
        n_steps: the most tokens of a chain.
        best: chooses the tokens; bound to the output layer.
        confidence: steps are taken as long as chains are, in the mean, at least as probable; those
            that have ended are not. 0 for all steps.
    """

    sources: AttendedSources
    features: int
    next_tokens: int
    n_steps: int
    best: BestToken
    flags: Flags
    proposals: int
    confidence: float = 0.0


class CompiledDrafter:
    """The heads of one model, and memory for their states; for one thread at a time.

    Attributes:
        parameters: what it was made of.
    """

    def __init__(self, library: Library, parameters: DraftParameters) -> None:
        self._library = library
        self.parameters = parameters  # whose memory is read
        linears = {name: linear.structure for name, linear in parameters.linears.items()}
        dim = linears["begin"].inputs
        model = structures.Model(
            dim=dim,
            n_heads=parameters.n_heads,
            head_dim=parameters.head_dim,
            hidden=max(linears["token"].inputs, linears["fc1"].outputs),
            activation=structures.EPILOGUES.index(parameters.activation),
            tokens_per_step=1,
            embed=parameters.embed.data_ptr(),
            n_types=parameters.embed.size(0),
            embed_scale=parameters.embed_scale,
        )
        step = structures.Step(model=model, threads=library.address_of_threads(), n_new=1)
        norms = {name: norm_structure(norm) for name, norm in parameters.norms.items()}
        self._draft = structures.Draft(step=step, **linears, **norms)
        self._at_draft = ctypes.addressof(self._draft)
        self._chains = structures.DraftChains(draft=self._at_draft)
        self._at_chains = ctypes.addressof(self._chains)
        self._product = structures.Product(threads=library.address_of_threads())
        self._trees = structures.DraftTrees(
            draft=self._at_draft, product=ctypes.addressof(self._product), n_members=1
        )
        self._dim = dim
        self._scratch = self._states = self._outputs = torch.empty(0)
        self._tokens = torch.zeros(0, dtype=torch.long)
        self._scores = self._path_scores = torch.empty(0)
        self._tree_memory: Optional[_TreeMemory] = None
        self._sources: Optional[AttendedSources] = None

    @classmethod
    def of(cls, parameters: DraftParameters) -> Optional["CompiledDrafter"]:
        """``None`` for layers that are not packed, or where nothing was compiled.

        Compiled code has one size of states, of sources' keys and of queries.
        """
        library = loading.library()
        if library is None or not all(parameters.linears.values()):
            return None
        dim = parameters.linears["begin"].structure.inputs
        if parameters.n_heads * parameters.head_dim != dim:
            return None
        norms = parameters.norms.values()
        vectors = [vector for norm in norms for vector in (norm.weight, norm.bias)]
        read = [(vector, dim) for vector in vectors]
        read.append((parameters.embed, parameters.embed.numel()))
        return cls(library, parameters) if all(map(is_readable, read)) else None

    def chains_at(self, request: ChainRequest) -> int:
        """The best token of each of some heads behind each row's next token.

        Returns:
            n, how many steps were taken

        Raises:
            IndexError, ValueError: for tokens, rows and sources that are not there, and for tensors
                of other sizes or dtypes.
        """
        self.prepare_chains(request)
        n_taken = self._run(self._library.draft_chains, self._chains, 1)
        problems.check(-min(n_taken, 0))
        return n_taken

    def prepare_chains(self, request: ChainRequest) -> int:
        """Prepare the task of :meth:`chains_at`, for compiled code that runs it itself.

        Returns:
            the address of the task, which may want more scratch memory than it has
        """
        n_rows, chains = self._bind(request.sources, request.features, 1), self._chains
        chains.best = request.best.prepared(
            self._outputs.data_ptr(), n_rows, self._scores.data_ptr(), self._tokens.data_ptr()
        )
        chains.n_steps, chains.confidence = request.n_steps, request.confidence
        chains.next_tokens, chains.proposals = request.next_tokens, request.proposals
        chains.path_scores = self._path_scores.data_ptr()
        chains.no_end, chains.only_end = request.flags.addresses(request.n_steps * n_rows)
        return self._at_chains

    def trees_at(
        self,
        sources: AttendedSources,
        features: int,
        n_levels: int,
        n_proposals: int,
        width: int,
        layer: Packed,
        best: TopK,
        temperature: float,
        flags: Flags,
        blocks: RowBlocks,
        confidence: float = 0.0,
    ) -> None:
        """Make trees of the most probable paths, with the next tokens as their roots.

        Args:
            features: as of :class:`ChainRequest`.
            n_levels: the most tokens of a path behind the root.
            n_proposals: how many tokens a tree has besides the root, if there are so many.
            width: so many paths of a row go on from one level to the next.
            layer: the output layer; best: chooses from its logits, which the temperature divides.
            blocks: of the rows, which the trees become.
            confidence: only paths that are at least as probable go on.

        Raises:
            IndexError, ValueError: as :meth:`chains_at`.
        """
        n_rows, trees, product = self._bind(sources, features, width), self._trees, self._product
        n_best = min(n_proposals, layer.structure.outputs)
        if self._tree_memory is None or not self._tree_memory.fits(n_rows * width, n_best, layer):
            self._tree_memory = _TreeMemory(n_rows * width, n_best, layer, self._dim)
        self._tree_memory.place(trees, product, best)
        product.x, product.n_threads = self._outputs.data_ptr(), self._library.n_threads
        trees.n_levels, trees.n_proposals, trees.width = n_levels, n_proposals, width
        trees.temperature = temperature
        trees.least_score = math.log(confidence) if confidence else -math.inf
        trees.no_end, trees.only_end = flags.addresses(n_levels * n_rows)
        blocks.place_trees(trees)
        longest = self._run(self._library.draft_trees, trees, width)
        problems.check(-min(longest, 0))
        blocks.take_trees(longest)

    def _bind(self, sources: AttendedSources, features: int, width: int) -> int:
        """Say where a call finds what; returns R."""
        step = self._draft.step
        if sources is not self._sources:
            self._bind_sources(sources)
        n = step.n_rows * width
        if self._tokens.numel() < n:
            self._tokens = torch.zeros(n, dtype=torch.long)
            self._states, self._outputs = torch.empty(2, n, self._dim)
            self._scores, self._path_scores = torch.empty(2, n)
            step.features, self._draft.outputs = self._states.data_ptr(), self._outputs.data_ptr()
        step.n_new, step.n_threads = 1, self._library.n_threads
        self._draft.from_features = features
        return step.n_rows

    def _bind_sources(self, sources: AttendedSources) -> None:
        step, n_rows = self._draft.step, sources.past.numel()
        self._sources = None
        step.n_rows, step.n_sources = n_rows, sources.source_lengths.numel()
        step.sources, self._draft.layer = sources.cache, sources.layer
        step.past = problems.address(sources.past, n_rows, "lengths of rows")
        step.row_source = problems.address(sources.row_source, n_rows, "sources of rows")
        step.source_lengths = problems.address(
            sources.source_lengths, step.n_sources, "lengths of sources"
        )
        self._sources = sources

    def _run(self, function: Callable[..., int], task: ctypes.Structure, width: int) -> int:
        """The result of a function, which is called again if it wants more memory."""
        result = function(ctypes.byref(task))
        if abs(result) == problems.OUT_OF_SCRATCH and self._has_grown(width):
            self._draft.step.n_new = 1
            result = function(ctypes.byref(task))
        return result

    def _has_grown(self, width: int) -> bool:
        """Make room for a step of so many states of each row; whether there was less."""
        step = self._draft.step
        step.n_new, step.tokens = width, self._tokens.data_ptr()
        size = self._library.draft_scratch_size(ctypes.byref(self._draft))
        problems.check(-min(size, 0))
        if size <= self._scratch.numel():
            return False
        self._scratch = torch.empty(size)
        step.scratch, step.scratch_size = self._scratch.data_ptr(), size
        return True


class _TreeMemory:
    """Memory for N states of size C, their logits, and the n best tokens of each."""

    def __init__(self, n_states: int, n_best: int, layer: Packed, dim: int) -> None:
        linear, library = layer.structure, layer.library
        self._n_states, self._n_best, self._layer = n_states, n_best, layer
        self._logits = torch.empty(n_states, linear.outputs)
        self._members = (ctypes.c_void_p * 1)(self._logits.data_ptr())
        self._quantized = torch.empty(library.product_scratch_size(n_states, linear.inputs))
        self._best_scores = torch.empty(n_states, n_best)
        self._best_tokens = torch.empty(n_states, n_best, dtype=torch.long)
        self._states = torch.empty(n_states, dim)
        self._flags = torch.empty(2, n_states, dtype=torch.bool)
        self._scratch = torch.empty(0, dtype=torch.uint8)
        self._task = structures.TopK()

    def fits(self, n_states: int, n_best: int, layer: Packed) -> bool:
        """Whether there is enough for so many, behind that output layer."""
        return n_states <= self._n_states and n_best == self._n_best and layer is self._layer

    def place(self, trees: structures.DraftTrees, product: structures.Product, best: TopK) -> None:
        """Say to a task where its parts find this memory."""
        product.linear = self._layer.structure
        product.y, product.scratch = self._logits.data_ptr(), self._quantized.data_ptr()
        task = self._task = structures.TopK.from_buffer_copy(best.structure)
        task.n_types, task.n_best, task.n_per_row = self._logits.size(1), self._n_best, self._n_best
        task.scores, task.n_members = ctypes.addressof(self._members), 1
        few = self._logits.numel() < FEW_SCORES
        task.normalize, task.n_parts = 1, 1
        task.n_threads = 1 if few else self._layer.library.n_threads
        task.n_rows = task.n_beams = self._n_states
        task.best, task.tokens = self._best_scores.data_ptr(), self._best_tokens.data_ptr()
        needed = self._layer.library.top_k_scratch_size(ctypes.byref(task))
        if needed > self._scratch.numel():
            self._scratch = torch.empty(needed, dtype=torch.uint8)
        task.scratch = self._scratch.data_ptr()
        trees.best, trees.eos = ctypes.addressof(task), task.eos
        trees.flags, trees.states = self._flags.data_ptr(), self._states.data_ptr()
