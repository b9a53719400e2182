"""Profiles the engine with one method, batch size and precision."""

import argparse
import time
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.generator import DecodingGenerator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.packing.precision import PRECISIONS

# The parts and their names in the counters of a compiled search.
PARTS = {
    "encoder": "encoder",
    "decoder layers": "decoder",
    "prediction heads": "heads",
    "output layer and choice": "choice",
    "search": "search",
}
BYTES_OF_WEIGHT = {
    name: precision.bytes_of_weight for name, precision in PRECISIONS.items() if name != "model"
}


@dataclass
class Case:
    """A method with its sizes and its precision.

    Attributes:
        block_size: feed this many tokens of each sentence in every invocation, independent of the
            heads' confidence (default: by the method's options).
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
    """Milliseconds per decoder invocation.

    Attributes:
        parts: the time of each of :data:`PARTS`; the sum is ``total``.
        floor: the time for reading the weights once from memory.
    """

    parts: dict[str, float]
    total: float
    floor: float

    @property
    def without_encoder(self) -> float:
        """The total without the encoder, which runs once per sentence."""
        return self.total - self.parts["encoder"]


def profile(
    model: nn.Module, dictionary: Any, case: Case, bandwidth: float, repeats: int
) -> Profile:
    """Decode a batch of random sentences to a fixed length, and measure the time of each part.

    Args:
        model: a model that the engine supports.
        bandwidth: bytes per second.
        repeats: the number of repetitions, of which the fastest counts.

    Raises:
        ValueError: for a case that the model or compiled code does not support.
    """
    generator = _generator(model, dictionary, case)
    best = _fastest(generator, model, {"net_input": _sources(dictionary, case)}, repeats)
    steps = generator.statistics.decoder_invocations / repeats
    parts = {part: best[name] / steps * 1e3 for part, name in PARTS.items()}
    floor = _weights(model) * BYTES_OF_WEIGHT[case.precision] / bandwidth * 1e3
    return Profile(parts, sum(parts.values()), floor)


def _fastest(
    generator: DecodingGenerator, model: nn.Module, sample: Any, repeats: int
) -> dict[str, float]:
    """The seconds of each part, in the fastest repetition."""
    statistics = generator.statistics
    generator.generate([model], sample)
    if not statistics.seconds:
        raise ValueError(
            f"--decoding {generator.name}: only compiled code measures the time of its parts, but "
            "it cannot decode this model here; see the log for the reason"
        )
    statistics.decoder_invocations = 0
    found: list[dict[str, float]] = []
    for _ in range(repeats):
        statistics.seconds.clear()
        generator.generate([model], sample)
        found.append(dict(statistics.seconds))
    return min(found, key=lambda seconds: sum(seconds.values()))


def memory_bandwidth(n_bytes: int = 1 << 28) -> float:
    """Memory bandwidth for reading in bytes per second, with torch's number of threads."""
    data = torch.ones(n_bytes // 4)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        data.sum()
        best = min(best, time.perf_counter() - start)
    return n_bytes / best


def _generator(model: nn.Module, dictionary: Any, case: Case) -> DecodingGenerator:
    options = DecodingOptions(
        decoding=case.decoding,
        engine_precision=case.precision,
        decoding_block_size=case.block_size,
        proposal_confidence=None if case.block_size is None else 0.0,
    )
    options.check()
    length = case.target_length - 1  # fairseq's limits exclude EOS
    args = argparse.Namespace(beam=case.beam, min_len=length, max_len_a=0, max_len_b=length)
    return build_generator([model], dictionary, args, options)


def _sources(dictionary: Any, case: Case) -> dict[str, Tensor]:
    shape = (case.batch_size, case.source_length)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dictionary.nspecial, len(dictionary), shape, generator=generator)
    tokens[:, -1] = dictionary.eos()
    return {"src_tokens": tokens, "src_lengths": torch.full(shape[:1], case.source_length)}


def _weights(model: Any) -> int:
    """The number of weights used in a decoding step."""
    attentions = ("encoder_attn.k_proj", "encoder_attn.v_proj")  # once per sentence, not per step
    products = {
        name: module
        for name, module in model.decoder.named_modules()
        if isinstance(module, nn.Linear) and not name.endswith(attentions)
    }
    return sum(module.weight.numel() for module in products.values())
