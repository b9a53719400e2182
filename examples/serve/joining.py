#!/usr/bin/env python3
"""Compare continuous batching with static batches of waiting sentences.

    python examples/serve/joining.py BUNDLE
    python examples/serve/joining.py BUNDLE --beam 5 --seconds 60
    python examples/serve/joining.py BUNDLE --ctranslate2 DIRECTORY    # the same model, converted

Sentences arrive at random (a Poisson process) at 50, 80 and 95 % of the rate at which the engine
translates them offline. Several values of --batch-size are compared. Static batches decode with the
same search and threads: a batch takes waiting sentences up to the largest --batch-size, and answers
when the last one is done. CTranslate2 also decodes such batches, in int8 by default
(--compute-type). All ways take turns of --seconds / 7, each after a new measurement of the rate,
since the speed of a shared machine varies; the table has the medians of the turns' percentiles.
"""

import argparse
import asyncio
import random
import statistics
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

import fairseq_fastdec
from examples.common.engine_batches import EngineBatches
from examples.common.figures import write_figures
from examples.common.table import markdown
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.translating.scheduler import CAPACITY
from fairseq_fastdec.translating.translator import SentenceJob

LOADS = (0.5, 0.8, 0.95)
# Rounds of measurements with a single client.
ROUNDS = 7
# Turns of each way at a load, and the number of sentences that measure the rate before a turn.
TURNS = 7
RATED = 500
Translate = Callable[[str], Awaitable[str]]


class StaticBatches:
    """Threads that decode waiting sentences in batches, one batch after another."""

    def __init__(
        self, translator: Any, decoders: list[Callable[[list[SentenceJob]], list[str]]], most: int
    ) -> None:
        """
        Args:
            decoders: one function per thread, which translates a batch.
            most: the maximum number of sentences per batch.
        """
        self._translator, self._most = translator, most
        self._waiting: list[tuple[SentenceJob, Callable[[str], None]]] = []
        self._changed = threading.Condition()
        self._is_open = True
        self._threads = [threading.Thread(target=self._run, args=(own,)) for own in decoders]
        for thread in self._threads:
            thread.start()

    async def translate(self, text: str) -> str:
        """Translate a sentence in the next batch."""
        job, loop = self._translator.job(text, {}), asyncio.get_running_loop()
        translated = loop.create_future()

        def done(translation: str) -> None:
            loop.call_soon_threadsafe(translated.set_result, translation)

        with self._changed:
            self._waiting.append((job, done))
            self._changed.notify()
        return await translated

    def close(self) -> None:
        """End the threads."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self, decode: Callable[[list[SentenceJob]], list[str]]) -> None:
        while True:
            with self._changed:
                while self._is_open and not self._waiting:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch = self._waiting[: self._most]
                del self._waiting[: self._most]
            for (_, done), text in zip(batch, decode([job for job, _ in batch])):
                done(text)


def ctranslate2_batches(
    args: argparse.Namespace, translator: Any
) -> Callable[[list[SentenceJob]], list[str]]:
    """Decodes whole batches with CTranslate2. Thread-safe."""
    import ctranslate2

    model = ctranslate2.Translator(
        args.ctranslate2,
        inter_threads=args.threads,
        intra_threads=1,
        compute_type=args.compute_type,
    )
    codec = translator.codec

    def decode(batch: list[SentenceJob]) -> list[str]:
        # CTranslate2 adds the end mark.
        sources = [codec.words(codec.source, job.sentence.tokens.tolist()).split() for job in batch]
        found = model.translate_batch(sources, beam_size=args.beam or 1, max_decoding_length=200)
        return [codec.text(" ".join(result.hypotheses[0])) for result in found]

    return decode


async def latencies(translate: Translate, lines: list[str], rate: float, seed: int) -> list[float]:
    """The latency of each sentence in seconds, if ``rate`` sentences arrive per second."""
    taken: list[float] = []

    async def one(line: str) -> None:
        started = time.perf_counter()
        await translate(line)
        taken.append(time.perf_counter() - started)

    drawn, tasks, begin, due = random.Random(seed), [], time.perf_counter(), 0.0
    for line in lines:
        due += drawn.expovariate(rate)
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        tasks.append(asyncio.create_task(one(line)))
    await asyncio.gather(*tasks)
    return taken


async def saturated(translate: Translate, lines: list[str]) -> float:
    """Sentences per second if all of them are queued at once."""
    started = time.perf_counter()
    await asyncio.gather(*(translate(line) for line in lines))
    return len(lines) / (time.perf_counter() - started)


def main() -> None:
    """Measure, print, and write JSON."""
    args = parse_args()
    options = {} if args.beam is None else {"beam": args.beam}
    schedules = {n: fairseq_fastdec.load(args.model, **options) for n in args.batch_size}
    lines = args.input.read_text(encoding="utf-8").splitlines()
    loading.measured(args.threads)
    for batch_size, own in schedules.items():
        own.schedule(threads=args.threads, batch_size=batch_size)
    most = max(schedules)
    translator = schedules[most]
    recipe = translator.job(lines[0], {}).recipe
    engines: list[Any] = [EngineBatches(recipe, args.threads) for _ in range(args.threads)]
    static = {"static batches": StaticBatches(translator, engines, most)}
    if args.ctranslate2:
        others = [ctranslate2_batches(args, translator)] * args.threads
        static["CTranslate2"] = StaticBatches(translator, others, most)
    ways: dict[str, Translate] = {
        f"joining {n}": own.translate_async for n, own in schedules.items()
    }
    ways.update({name: batches.translate for name, batches in static.items()})
    translator.translate(lines[:200])
    offline = offline_rate(translator, lines)
    found: dict[str, Any] = {"offline": offline}
    for name, translate in ways.items():
        found[name] = {"saturated": asyncio.run(saturated(translate, lines))}
    turns: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, translate in ways.items():
            turns.setdefault(name, []).append(asyncio.run(in_turn(translate, lines[:50])))
        started = time.perf_counter()
        for line in lines[:50]:
            translator.translate(line)
        turns.setdefault("direct call", []).append((time.perf_counter() - started) / 50)
    alone = {name: statistics.median(seconds) for name, seconds in turns.items()}
    found["alone"] = alone
    rows = []
    for load in LOADS:
        taken: dict[str, list[Any]] = {name: [] for name in ways}
        for turn in range(TURNS):
            for name, translate in ways.items():
                rate = load * offline_rate(translator, lines[:RATED])
                n = min(int(rate * args.seconds / TURNS), 20 * len(lines))
                arriving = [lines[(turn * n + i) % len(lines)] for i in range(n)]
                seconds = asyncio.run(latencies(translate, arriving, rate, turn))
                taken[name].append(1e3 * np.percentile(seconds, [50, 95, 99]))
        row = {"load": f"{load:.0%}"}
        for name, percentiles in taken.items():
            p50, p95, p99 = np.median(percentiles, axis=0)
            found[name][f"{load}"] = {"p50": p50, "p95": p95, "p99": p99}
            row[f"{name}, p50 / p95 / p99 ms"] = f"{p50:.1f} / {p95:.1f} / {p99:.1f}"
        rows.append(row)
        print(row, flush=True)
    for batches in static.values():
        batches.close()
    for own in schedules.values():
        own.close()
    title = (
        f"Offline {offline:.0f} sentences a second; saturated: "
        + ", ".join(f"{name} {found[name]['saturated']:.0f}" for name in ways)
        + "; one client, ms a sentence: "
        + ", ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in alone.items())
    )
    print("\n" + markdown(title, rows))
    if args.output:
        write_figures(args.output, found)


def offline_rate(translator: Any, lines: list[str]) -> float:
    """Sentences per second of one call of ``translate``."""
    started = time.perf_counter()
    translator.translate(lines)
    return len(lines) / (time.perf_counter() - started)


async def in_turn(translate: Translate, lines: list[str]) -> float:
    """The mean seconds per sentence for one client, which waits for each answer."""
    started = time.perf_counter()
    for line in lines:
        await translate(line)
    return (time.perf_counter() - started) / len(lines)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", metavar="BUNDLE")
    parser.add_argument(
        "--ctranslate2", metavar="DIRECTORY", help="directory of the converted model"
    )
    parser.add_argument("--compute-type", default="int8", help="compute type of CTranslate2")
    parser.add_argument("--input", type=Path, default=Path("examples/en_de/data/test.en"))
    parser.add_argument("--beam", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[CAPACITY])
    parser.add_argument("--seconds", type=float, default=20, help="duration of each load and way")
    parser.add_argument("--output", type=Path, help="JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
