"""What fairseq's generators and ours decode and count in the benchmark, on the tiny model."""

import pytest
import torch

from fairseq_fastdec.packing.weights import NetworkWeights
from tests.support import command_line


def tokens(result):
    return {number: translation.tokens for number, translation in result.translations.items()}


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize(
    "options, width",
    [
        ("--decoding fairseq --beam 3", 3),
        ("--decoding lookahead", 1),
        ("--decoding streaming --beam 2", 2),
    ],
)
def test_translations_are_those_of_fairseq_generate(
    worker, corpus, baseline, options, width, batch_size
):
    loaded = worker(options, batch_size)
    printed = command_line.generate(corpus, baseline, "--batch-size", batch_size, *options.split())
    assert tokens(loaded.decode(batch_size)) == command_line.hypotheses(printed)
    assert loaded.runner.beam_width == width


def test_fairseqs_own_decoder_calls_are_counted(worker):
    alone, batched, ours = (
        worker(options, size).decode(size)
        for options, size in (
            ("--decoding fairseq --beam 1", 1),
            ("--decoding fairseq --beam 1", 16),
            ("--decoding greedy", 1),
        )
    )
    assert alone.invocations == alone.row_invocations == alone.tokens
    assert (ours.invocations, ours.row_invocations) == (alone.tokens, alone.tokens)
    assert batched.invocations < batched.row_invocations
    assert batched.tokens == alone.tokens


def test_no_round_learns_from_the_one_before(worker):
    """The n-gram pool of lookahead would know every translation the second time."""
    loaded = worker("--decoding lookahead")
    first, second = (loaded.decode(1).invocations for _ in range(2))
    assert first == second


@pytest.mark.parametrize("decoding", ["greedy", "streaming"])
def test_weights_are_prepared_once_and_not_while_the_clock_runs(worker, monkeypatch, decoding):
    prepared = []
    of = NetworkWeights.of
    monkeypatch.setattr(
        NetworkWeights,
        "of",
        lambda *arguments, **named: prepared.append(arguments) or of(*arguments, **named),
    )
    loaded = worker(f"--decoding {decoding}")
    assert len(prepared) == 2  # the encoder and the decoder
    assert loaded.decode(1).seconds > 0 and loaded.decode(1).seconds > 0
    assert len(prepared) == 2


def test_latencies_are_known_where_sentences_are_alone(worker):
    result = worker("--decoding greedy").decode(1)
    assert result.latencies.keys() == result.translations.keys()
    assert sum(result.latencies.values()) == pytest.approx(result.seconds)
    assert min(result.latencies.values()) > 0
    sixteen_and_one = worker("--decoding greedy", 16, sentences=17).decode(16)
    assert len(sixteen_and_one.latencies) == 1


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision(worker, dtype):
    loaded = worker("--decoding greedy", 8, dtype)
    types = {"fp16": torch.float16, "bf16": torch.bfloat16}
    assert {p.dtype for p in loaded.runner.models[0].parameters()} == {types[dtype]}
    assert len(loaded.decode(8).translations) == 29
