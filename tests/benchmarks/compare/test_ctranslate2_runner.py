"""CTranslate2 as a runner of the benchmark, on the tiny model."""

import sys
import threading

import pytest

from benchmarks.compare import ctranslate2_runner
from tests.support import skips

# CTranslate2 translates an empty source sentence by an empty one, without asking the model.
EMPTY = 3


def tokens(result):
    return {number: translation.tokens for number, translation in result.translations.items()}


def of_words(result):
    return {number: text for number, text in tokens(result).items() if number != EMPTY}


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
    assert result.invocations is None and peer.runner.beam_width == width


@pytest.mark.parametrize("batch_size", [1, 8])
def test_ctranslate2_translates_batches_side_by_side(worker, monkeypatch, batch_size):
    skips.needs("ctranslate2")
    alone = worker("--engine ctranslate2 --beam 1", batch_size).decode(batch_size)
    loaded = worker("--engine ctranslate2 --beam 1", batch_size, n_workers=2)
    assert loaded.runner._translator.num_translators == 2
    at_once, together = [], threading.Barrier(2)
    translate = loaded.runner._translate

    def met(job):
        # Nobody would come to meet the first where batches are translated one by one.
        if len(at_once) < 2:
            at_once.append(job)
            together.wait(120)
        return translate(job)

    monkeypatch.setattr(loaded.runner, "_translate", met)
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
    monkeypatch.setattr(ctranslate2_runner, "new_process", None)
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
    with pytest.raises(ImportError, match="pip install 'fastdec-runtime.bench.'"):
        worker("--engine ctranslate2 --beam 1")
