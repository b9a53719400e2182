"""What the engines decode and count, in this process, on the tiny model."""

import sys
import threading

import pytest
import torch

from fairseq_fastdec.benchmark import ctranslate2_engine
from fairseq_fastdec.benchmark.methods import Division, Method, Settings
from fairseq_fastdec.benchmark.worker import Worker
from fairseq_fastdec.engine.session import DecoderSession
from tests import command_line, skips


@pytest.fixture()
def worker(corpus, baseline, tmp_path):
    """A function that loads a method and its batches."""

    def load(spec, batch_size=1, dtype="fp32", sentences=None, path=baseline, n_workers=1):
        settings = Settings((str(corpus), "--path", str(path)), "cpu", dtype, n_workers, sentences)
        division = Division(n_workers, 1)
        loaded = Worker(Method.parse("x: " + spec), settings, division, tmp_path)
        loaded.warm_up(batch_size)
        return loaded

    return load


# CTranslate2 translates an empty source sentence by an empty one, without asking the model.
EMPTY = 3


def tokens(result):
    return {number: translation.tokens for number, translation in result.translations.items()}


def of_words(result):
    return {number: text for number, text in tokens(result).items() if number != EMPTY}


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
    assert loaded.engine.beam_width == width


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
    prepare = DecoderSession._prepare
    monkeypatch.setattr(
        DecoderSession, "_prepare", lambda session: prepared.append(prepare(session))
    )
    loaded = worker(f"--decoding {decoding}")
    assert len(prepared) == 1
    assert loaded.decode(1).seconds > 0 and loaded.decode(1).seconds > 0
    assert len(prepared) == 1


def test_latencies_are_known_where_sentences_are_alone(worker):
    result = worker("--decoding greedy").decode(1)
    assert result.latencies.keys() == result.translations.keys()
    assert sum(result.latencies.values()) == pytest.approx(result.seconds)
    assert min(result.latencies.values()) > 0
    sixteen_and_one = worker("--decoding greedy", 16, sentences=17).decode(16)
    assert len(sixteen_and_one.latencies) == 1


def test_only_the_first_sentences(worker):
    for options in ("--decoding greedy", "--decoding streaming"):
        result = worker(options, 4, sentences=5).decode(4)
        assert sorted(result.translations) == [0, 1, 2, 3, 4]
    assert len(worker("--decoding greedy", 4, sentences=99).sentences) == 29


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_precision(worker, dtype):
    loaded = worker("--decoding greedy", 8, dtype)
    types = {"fp16": torch.float16, "bf16": torch.bfloat16}
    assert {p.dtype for p in loaded.engine.models[0].parameters()} == {types[dtype]}
    assert len(loaded.decode(8).translations) == 29


@pytest.mark.parametrize("width", [1, 3])
def test_ctranslate2_finds_what_fairseq_finds(worker, width):
    skips.needs("ctranslate2")
    peer = worker(f"--engine ctranslate2 --beam {width}", 8)
    own = worker(f"--decoding fairseq --beam {width}", 8).decode(8)
    result = peer.decode(8)
    assert tokens(result)[EMPTY] == ""
    different = [n for n, text in of_words(own).items() if tokens(result)[n] != text]
    # With wider beams fairseq and CTranslate2 stop by different rules.
    assert len(different) <= (0 if width == 1 else 2)
    if width == 1:
        n_more = len(tokens(own)[EMPTY].split())
        assert result.tokens == own.tokens - n_more
    assert result.invocations is None and peer.engine.beam_width == width


@pytest.mark.parametrize("batch_size", [1, 8])
def test_ctranslate2_translates_batches_side_by_side(worker, monkeypatch, batch_size):
    skips.needs("ctranslate2")
    alone = worker("--engine ctranslate2 --beam 1", batch_size).decode(batch_size)
    loaded = worker("--engine ctranslate2 --beam 1", batch_size, n_workers=2)
    assert loaded.engine._translator.num_translators == 2
    at_once, together = [], threading.Barrier(2)
    translate = loaded.engine._translate

    def met(job):
        # Nobody would come to meet the first where batches are translated one by one.
        if len(at_once) < 2:
            at_once.append(job)
            together.wait(30)
        return translate(job)

    monkeypatch.setattr(loaded.engine, "_translate", met)
    result = loaded.decode(batch_size)
    assert tokens(result) == tokens(alone) and result.tokens == alone.tokens
    assert result.latencies.keys() == alone.latencies.keys()
    if batch_size == 1:
        # Of each sentence by itself: two at a time, they sum up to more than the round took.
        assert all(0 < seconds <= result.seconds for seconds in result.latencies.values())


def test_a_converted_model_serves_all_methods(worker, monkeypatch, tmp_path):
    skips.needs("ctranslate2")
    first = worker("--engine ctranslate2 --beam 1", 8).decode(8)
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(ctranslate2_engine, "new_process", None)
    again = worker("--engine ctranslate2 --beam 1 --compute-type float32", 8).decode(8)
    assert tokens(again) == tokens(first)


@pytest.mark.parametrize(
    "options", ["--max-len-b 3", "--max-len-a 0.5 --max-len-b 2", "--min-len 9"]
)
def test_ctranslate2_keeps_fairseqs_limits(worker, options):
    skips.needs("ctranslate2")
    peer = worker(f"--engine ctranslate2 --beam 1 {options}")
    own = worker(f"--decoding fairseq --beam 1 {options}")
    assert of_words(peer.decode(1)) == of_words(own.decode(1))


@pytest.mark.parametrize(
    "options, message",
    [
        ("--prefix-size 2", "--prefix-size: not possible with --engine ctranslate2"),
        ("--sampling", "--sampling: not possible"),
        ("--compute-type int3", "int3"),
    ],
)
def test_ctranslate2_refuses(worker, options, message):
    skips.needs("ctranslate2")
    with pytest.raises(ValueError, match=message):
        worker(f"--engine ctranslate2 --beam 1 {options}")


def test_ctranslate2_takes_one_stock_model(worker, baseline, blockwise):
    skips.needs("ctranslate2")
    with pytest.raises(ValueError, match="an ensemble"):
        worker("--engine ctranslate2", path=f"{baseline}:{baseline}")
    with pytest.raises(ValueError, match="'blockwise_transformer' .* not supported"):
        worker("--engine ctranslate2", path=blockwise)


def test_without_ctranslate2(worker, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ImportError, match="pip install 'fairseq_fastdec.bench.'"):
        worker("--engine ctranslate2 --beam 1")


def test_a_method_can_have_another_task_and_checkpoint(worker, corpus, tmp_path):
    double = "--task translation_double_token"
    command_line.train(
        corpus, tmp_path, *double.split(), "--arch", "double_token_transformer",
        "--criterion", "label_smoothed_cross_entropy", updates=2,
    )  # fmt: skip
    loaded = worker(f"{double} --beam 2 --max-len-b 9 --path '{tmp_path}/checkpoint_last.pt'", 8)
    plain = worker("--decoding greedy --max-len-b 9", 8)
    result, other = loaded.decode(8), plain.decode(8)
    assert loaded.engine.beam_width == 2
    assert list(result.translations) == list(other.translations)  # the same batches, in order
    assert result.invocations < other.invocations
    assert [loaded.corpus.reference(n) for n in range(29)] == [
        plain.corpus.reference(n) for n in range(29)
    ]
