"""A profile of the engine: one method, batch size and precision."""

import argparse
import time
from dataclasses import dataclass
from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from ...decoding import build_generator
from ...decoding.generator import DecodingGenerator
from ...decoding.options import DecodingOptions
from ...engine import DecoderSession
from ...engine.kernels.best_token import BestToken
from ...engine.kernels.drafts import CompiledDrafter
from ...engine.kernels.heads import CompiledHeads
from ...engine.kernels.kept_product import KeptProduct
from ...engine.kernels.verification import Verification
from ...engine.session.step_runners import CompiledRunner
from .stopwatch import Stopwatch

PARTS = (
    "encoder",
    "all layers, compiled",
    "embedding",
    "self-attention, products",
    "self-attention, rest",
    "cross-attention, products",
    "cross-attention, rest",
    "feed-forward",
    "prediction heads",
    "output layer",
    "softmax",
    "moving rows",
    "search",
)
BYTES_OF_WEIGHT = {"fp32": 4, "bf16": 2, "int8": 1}


@dataclass
class Case:
    """A method with its sizes and its precision.

    Attributes:
        block_size: so many tokens of a sentence go into every invocation, whatever the prediction
            heads think of them (default: what the method's options say).
    """

    decoding: str
    beam: int
    precision: str
    batch_size: int
    source_length: int
    target_length: int
    block_size: Optional[int] = None


@dataclass
class Profile:
    """Milliseconds a decoder invocation.

    Attributes:
        parts: by :data:`PARTS`; they sum up to ``total``.
        floor: reading the weights once at the memory's speed.
    """

    parts: Dict[str, float]
    total: float
    floor: float

    @property
    def without_encoder(self) -> float:
        """The total of what comes with every invocation, and not with every sentence."""
        return self.total - self.parts["encoder"]


def profile(
    model: nn.Module, dictionary: Any, case: Case, bandwidth: float, repeats: int
) -> Profile:
    """Decode a batch of random sentences, all to the same length, and see where time goes.

    Args:
        model: one that the engine can run.
        bandwidth: bytes a second.
        repeats: how many times; the fastest counts.

    Raises:
        ValueError: for a case that the model cannot be decoded in.
    """
    generator = _generator(model, dictionary, case)
    stopwatch = _watch(generator)
    sample = {"net_input": _sources(dictionary, case)}
    try:
        best = _fastest(generator, stopwatch, model, sample, repeats)
    finally:
        stopwatch.release()
    steps = generator.statistics.decoder_invocations / repeats
    parts = {part: best.get(part, 0.0) / steps * 1e3 for part in PARTS}
    floor = _weights(model) * BYTES_OF_WEIGHT[case.precision] / bandwidth * 1e3
    return Profile(parts, sum(parts.values()), floor)


def _fastest(
    generator: DecodingGenerator, stopwatch: Stopwatch, model: nn.Module, sample: Any, repeats: int
) -> Dict[str, float]:
    """The seconds of each part, in the fastest repetition."""
    generator.generate([model], sample)
    generator.statistics.decoder_invocations = 0
    best: Dict[str, float] = {}
    for _ in range(repeats):
        stopwatch.seconds.clear()
        generator.generate([model], sample)
        if not best or sum(stopwatch.seconds.values()) < sum(best.values()):
            best = dict(stopwatch.seconds)
    return best


def memory_bandwidth(n_bytes: int = 1 << 28) -> float:
    """Bytes a second that the processor reads from memory, with as many threads as torch uses."""
    data = torch.ones(n_bytes // 4)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        data.sum()
        best = min(best, time.perf_counter() - start)
    return n_bytes / best


def _generator(model: nn.Module, dictionary: Any, case: Case) -> DecodingGenerator:
    # The parts of a step that is replayed as a whole cannot be told apart.
    options = DecodingOptions(
        decoding=case.decoding,
        engine_precision=case.precision,
        cuda_graphs="off",
        decoding_block_size=case.block_size,
        proposal_confidence=None if case.block_size is None else 0.0,
    )
    options.check()
    length = case.target_length - 1  # fairseq's limits do not count EOS
    args = argparse.Namespace(beam=case.beam, min_len=length, max_len_a=0, max_len_b=length)
    return build_generator([model], dictionary, args, options)


def _sources(dictionary: Any, case: Case) -> Dict[str, Tensor]:
    shape = (case.batch_size, case.source_length)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), shape, generator=generator)
    tokens[:, -1] = dictionary.eos()
    return {"src_tokens": tokens, "src_lengths": torch.full(shape[:1], case.source_length)}


def _watch(generator: DecodingGenerator) -> Stopwatch:
    """Everything inside the generator that has a name of its own in :data:`PARTS`."""
    stopwatch = Stopwatch()
    (session,) = generator.session.members
    stopwatch.watch(generator, "translate", "search")
    for method in ("log_probs", "scores", "ranking_scores"):
        stopwatch.watch(generator.session, method, "softmax")
    for method, part in (
        ("add", "encoder"),
        ("select", "moving rows"),
        ("begin_drafts", "prediction heads"),
        ("extend_drafts", "prediction heads"),
        ("draft_logits", "prediction heads"),
        ("project", "output layer"),
        ("logits", "output layer"),
    ):
        stopwatch.watch(session, method, part)
    # One call of compiled code has no parts that could be told apart; its answer here is that it
    # did nothing, and the parts are called one by one.
    stopwatch.replace(Verification, "run", lambda *_: None)
    # Searches on the host call these themselves: the best token with its softmax, and heads.
    for owner, method, part in (
        (CompiledDrafter, "chains_at", "prediction heads"),
        (CompiledDrafter, "trees_at", "prediction heads"),
        (CompiledHeads, "compute_at", "prediction heads"),
        (BestToken, "choose_at", "output layer"),
        (KeptProduct, "compute_at", "output layer"),
    ):
        stopwatch.watch(owner, method, part)
    _watch_layers(session, stopwatch)
    return stopwatch


def _watch_layers(session: DecoderSession, stopwatch: Stopwatch) -> None:
    session.reset(1)  # prepares the weights
    runner = session.network.runner
    if isinstance(runner, CompiledRunner):
        for method in ("step", "step_at"):
            stopwatch.watch(runner, method, "all layers, compiled")
    for method, part in (
        ("embed", "embedding"),
        ("self_attention", "self-attention, rest"),
        ("cross_attention", "cross-attention, rest"),
    ):
        stopwatch.watch(session.forward_pass, method, part)
    for layer in session.weights.layers:
        for name in ("self_qkv", "self_out"):
            stopwatch.watch(layer, name, "self-attention, products")
        for name in ("cross_query", "cross_out"):
            stopwatch.watch(layer, name, "cross-attention, products")
        stopwatch.watch(layer, "feed_forward", "feed-forward")


def _weights(model: nn.Module) -> int:
    """The number of weights that a step multiplies with."""
    attentions = ("encoder_attn.k_proj", "encoder_attn.v_proj")  # once a sentence, not a step
    products = {
        name: module
        for name, module in model.decoder.named_modules()
        if isinstance(module, nn.Linear) and not name.endswith(attentions)
    }
    return sum(module.weight.numel() for module in products.values())
