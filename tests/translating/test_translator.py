"""Sentences that arrive one by one get the translations that they get alone."""

import asyncio
import gc
import itertools
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec import SentenceError, Translation
from fairseq_fastdec.checkpoints.codec import TaskCodec
from fairseq_fastdec.checkpoints.translator import CheckpointTranslator
from fairseq_fastdec.tools.export import content_of
from fairseq_fastdec.translating import translator as translating
from fairseq_fastdec.translating.errors import QueueFull
from fairseq_fastdec.translating.translator import STREAM_BUFFER
from tests.support import tiny
from tests.support.forked import exit_status
from tests.support.together import all_at_once

LINES = [
    "Click the Save button.",
    "Don't close the document!",
    "The quick brown fox, e.g. in “LibreOffice Writer”, jumps over 1,000 lazy dogs.",
    "x",
    "Format - Cells - Numbers",
    "Choose Tools - Options, and then select the fonts that you want to use in new documents.",
]
METHODS = {
    "greedy": {"decoding": "greedy"},
    "int8": {"decoding": "greedy", "engine_precision": "int8"},
    "blockwise": {"decoding": "blockwise"},
    "lookahead": {"decoding": "lookahead"},
    "auto": {"decoding": "auto"},
    "jacobi": {"decoding": "jacobi"},
    "beam": {"decoding": "beam", "beam": 5},
    "bans": {"beam": 4, "no_repeat_ngram_size": 2, "lenpen": 0.5},
    "variable_beam": {"decoding": "variable_beam", "beam": 5},
    "nbest": {"beam": 4, "nbest": 3},
}
# What no running batch can take.
ALONE = {
    "fairseq": {"decoding": "fairseq", "beam": 2},
    "streaming": {"decoding": "streaming", "beam": 3},
}


@pytest.mark.parametrize("name", {**METHODS, **ALONE})
def test_as_alone(translator, name):
    options = {**METHODS, **ALONE}[name]
    n = 4 if name in METHODS else 1
    lines = LINES * n
    # A list is translated by a generator, in batches.
    expected = translator.translate(LINES, **options)
    assert [translator.translate(line, **options) for line in LINES] == expected
    assert all_at_once(translator, lines, **options) == expected * n
    detailed = [translator.translate(line, details=True, **options) for line in LINES] * n
    assert all_at_once(translator, lines, details=True, **options) == detailed
    if name in ALONE:  # in batches, whose scores round differently
        detailed = translator.translate(LINES, details=True, **options)
    assert list(translator.translate_stream(iter(lines), **options)) == list(enumerate(detailed))
    found = sorted(translator.translate_stream(lines, in_order=False, **options))
    assert found == list(enumerate(detailed))
    assert translator.queued() == (0, 0)


@settings(max_examples=15)
@given(
    lines=st.lists(st.sampled_from([*LINES, "", " x "]), max_size=12),
    names=st.lists(st.sampled_from(["greedy", "beam", "blockwise", "nbest"]), min_size=1),
    cancelled=st.sets(st.integers(0, 11)),
    policy=st.sampled_from(["fcfs", "shortest"]),
    batch_size=st.sampled_from([1, 2, 32]),
)
def test_methods_mixed_with_cancellations(translator, lines, names, cancelled, policy, batch_size):
    translator.schedule(batch_size=batch_size, policy=policy)
    options = [METHODS[name] for _, name in zip(lines, itertools.cycle(names))]

    async def run():
        tasks = [
            asyncio.create_task(translator.translate_async(line, **own))
            for line, own in zip(lines, options)
        ]
        await asyncio.sleep(0)
        for number in cancelled & set(range(len(tasks))):
            tasks[number].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    for number, found in enumerate(asyncio.run(run())):
        is_cancelled = isinstance(found, asyncio.CancelledError)
        assert is_cancelled <= (number in cancelled)
        if not is_cancelled:
            assert found == translator.translate(lines[number], **options[number])
    deadline = time.monotonic() + 120
    while translator.queued() != (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("decoding", ["greedy", "beam"])
def test_a_task_that_changes_hypotheses(decoding):
    task = tiny.double_token_task("r2l", 1)
    model = tiny.build_model(task)
    own = CheckpointTranslator(task, [model], TaskCodec(task, None, None), "cpu", {"max_len_b": 10})
    expected = own.translate(["a b c", "c"], decoding=decoding)
    assert [own.translate(line, decoding=decoding) for line in ("a b c", "c")] == expected
    assert all_at_once(own, ["a b c", "c"], decoding=decoding) == expected
    own.close()
    with pytest.raises(ValueError, match="changes translations after decoding"):
        content_of(own)


def test_errors_stay_with_their_sentence(translator, bundle):
    long = "x " * 3000
    for own in (translator, bundle):
        found = [result for _, result in own.translate_stream(["x", long, "", "x"])]
        assert found[0] == found[3] == own.translate("x", details=True)
        assert found[1].text is None and found[1].error.startswith("too long: 3001 tokens")
        assert found[2] == Translation("")
        with pytest.raises(SentenceError, match="too long"):
            asyncio.run(own.translate_async(long))
        assert asyncio.run(own.translate_async(long, details=True)).error == found[1].error
        assert asyncio.run(own.translate_async("")) == ""
        with pytest.raises(ValueError, match="decodign"):
            asyncio.run(own.translate_async("x", decodign="beam"))
        with pytest.raises(ValueError, match="decodign"):
            list(own.translate_stream(["x"], decodign="beam"))


def test_a_stream_reads_little_in_advance_and_can_be_left(bundle):
    n_read = itertools.count()

    def endless():
        for _ in n_read:
            yield "x"

    stream = bundle.translate_stream(endless())
    assert [next(stream)[0] for _ in range(3)] == [0, 1, 2]
    stream.close()
    assert next(n_read) < 2000
    deadline = time.monotonic() + 120
    while bundle.queued() != (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_stream_whose_buffer_is_full_of_results(bundle, monkeypatch, in_order):
    """The first sentence is decoded while the others, which are empty, fill the buffer."""
    monkeypatch.setattr(translating, "STREAM_BUFFER", 4)
    texts = [LINES[0], "", "", "", LINES[1], "", *LINES]
    found = dict(bundle.translate_stream(texts, in_order=in_order))
    expected = bundle.translate(texts)
    assert [found[number].text for number in range(len(texts))] == expected


def test_anything_but_text(bundle):
    for text in (b"x", None, 3):
        with pytest.raises(TypeError, match="texts: sentence 0 .* is of type"):
            bundle.translate([text])
        with pytest.raises(TypeError, match="texts: sentence 0 .* is of type"):
            asyncio.run(bundle.translate_async(text))
        with pytest.raises(TypeError, match="texts: sentence 0 .* is of type"):
            list(bundle.translate_stream([text]))
    with pytest.raises(TypeError, match="texts: is a single text; give an iterable"):
        list(bundle.translate_stream("Hello"))


def test_alignments_of_all_calls(translator):
    expected = translator.translate(LINES, details=True, alignment=True)
    assert all(own.alignment for own in expected)
    assert all_at_once(translator, LINES, details=True, alignment=True) == expected
    found = translator.translate_stream(LINES, alignment=True)
    assert list(found) == list(enumerate(expected))
    with pytest.raises(ValueError, match="^alignment hard: requires details=True"):
        all_at_once(translator, LINES, alignment=True)


def test_an_event_loop_that_could_not_be_used_at_first(bundle, monkeypatch):
    def fail(*_):
        raise OSError("too many open files")

    async def run():
        with monkeypatch.context() as patched:
            patched.setattr(asyncio.get_running_loop(), "add_reader", fail)
            with pytest.raises(OSError, match="too many open files"):
                await bundle.translate_async(LINES[0])
        return await asyncio.wait_for(bundle.translate_async(LINES[0]), 120)

    assert asyncio.run(run()) == bundle.translate(LINES[0])


def test_a_forked_process_has_no_sentences(bundle):
    stream = bundle.translate_stream(LINES * 60)
    next(stream)

    def check():
        assert bundle.queued() == (0, 0)

    assert exit_status(check) == 0
    assert len(list(stream)) == 60 * len(LINES) - 1


def test_a_forked_process_cannot_continue_a_stream(bundle):
    texts = LINES * 60
    stream = bundle.translate_stream(texts, in_order=False)
    found = [next(stream)]

    def go_on():
        with pytest.raises(RuntimeError, match="belong to the process that this one was forked fr"):
            list(stream)

    assert exit_status(go_on) == 0
    found = dict([*found, *stream])
    assert [found[number].text for number in range(len(texts))] == bundle.translate(texts)


def test_options_are_checked_without_texts(translator, bundle):
    for own in (translator, bundle):
        with pytest.raises(ValueError, match="bema: not an option"):
            list(own.translate_stream([], bema=5))
        with pytest.raises(ValueError, match="bema: not an option"):
            asyncio.run(own.translate_async("", bema=5))


def test_a_stream_of_sentences_that_join_no_batch(bundle):
    """More of them than a stream reads ahead."""
    n = 2 * STREAM_BUFFER + 1
    found = list(bundle.translate_stream([""] * n + ["x"]))
    assert [number for number, _ in found] == list(range(n + 1))
    assert {found.text for _, found in found[:-1]} == {""}
    assert found[-1][1].text == bundle.translate("x")


def test_a_full_queue(bundle):
    bundle.schedule(threads=1, batch_size=1, max_queue=2)
    try:

        async def run():
            lines = [LINES[-1]] * 50
            calls = (bundle.translate_async(line) for line in lines)
            return await asyncio.gather(*calls, return_exceptions=True)

        found = asyncio.run(run())
        expected = bundle.translate(LINES[-1])
        assert any(isinstance(own, QueueFull) for own in found)
        assert all(isinstance(own, QueueFull) or own == expected for own in found)
        # Lists and streams wait for their turn instead.
        assert bundle.translate([LINES[-1]] * 20) == [expected] * 20
    finally:
        bundle.schedule()


def test_several_event_loops_and_threads(translator):
    expected = [translator.translate(line) for line in LINES]
    wrong = []

    def run():
        for _ in range(3):
            if all_at_once(translator, LINES) != expected:
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc: run it on Linux")
def test_file_descriptors_are_closed(bundle):
    def n_open():
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    all_at_once(bundle, LINES)
    before = n_open()
    for _ in range(20):
        all_at_once(bundle, LINES[:1])
        assert len(list(bundle.translate_stream(LINES[:2]))) == 2
    assert n_open() <= before


def test_after_close_a_call_starts_again(bundle):
    before = bundle.translate("x")
    bundle.close()
    assert bundle.queued() == (0, 0)
    assert asyncio.run(bundle.translate_async("x")) == before


def test_scores_that_are_not_finite(corpus, baseline):
    translator = fairseq_fastdec.load(baseline, corpus)
    with torch.no_grad():
        translator.models[0].decoder.layers[0].fc1.weight.fill_(float("nan"))
    with pytest.raises(SentenceError, match="not finite"):
        asyncio.run(translator.translate_async("a b c"))
    translator.close()


def test_words_that_the_dictionary_lacks(corpus, baseline):
    translator = fairseq_fastdec.load(baseline, corpus)
    assert asyncio.run(translator.translate_async("a zz b")) == translator.translate("a zz b")
    translator.close()


def test_without_compiled_code(corpus, baseline, nothing_compiled):
    """Each sentence is decoded alone, in torch."""
    translator = fairseq_fastdec.load(baseline, corpus)
    translator.schedule(threads=2, batch_size=4)
    assert asyncio.run(translator.translate_async("a b c")) == translator.translate("a b c")
    found = [result.text for _, result in translator.translate_stream(["a b", "", "c"])]
    assert found == [translator.translate("a b"), "", translator.translate("c")]
    assert translator.queued() == (0, 0)
