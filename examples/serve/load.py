#!/usr/bin/env python3
"""Load a translation server: Poisson arrivals, latencies and throughput.

    python examples/serve/load.py http://127.0.0.1:5000 --rates 1 2 4 --seconds 30

Works with any server with LibreTranslate's interface. README.md explains the table.
"""

import argparse
import asyncio
import json
import math
import random
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

import httpx

SENTENCES = (
    "Save the document before you close the window.",
    "Click the button to open the file.",
    "The selected cells are deleted.",
    "You can change the colour of the text in the dialog.",
)
HEADINGS = ("load", "requests", "failed", "per second", "p50 ms", "p95 ms", "p99 ms")


class LoadResult(NamedTuple):
    """The result of one load.

    Attributes:
        rate: requests sent per second, on average.
        requests: the number of requests sent.
        failed: the number of requests with another status than 200, or no answer.
        throughput: answers with status 200 per second.
        p50, p95, p99: quantiles of their latency in milliseconds; NaN if there are none.
    """

    rate: float
    requests: int
    failed: int
    throughput: float
    p50: float
    p95: float
    p99: float


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least a fraction ``part`` of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else math.nan


class Clients:
    """Clients with one connection each; a single client with many connections would be slow."""

    def __init__(self, url: str, timeout: float) -> None:
        context = httpx.create_ssl_context()
        self._new = partial(httpx.AsyncClient, base_url=url, timeout=timeout, verify=context)
        self._idle: list[httpx.AsyncClient] = []

    async def post(self, fields: dict) -> httpx.Response:
        """Send a request with an idle client."""
        client = self._idle.pop() if self._idle else self._new()
        try:
            return await client.post("/translate", json=fields)
        finally:
            self._idle.append(client)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._idle:
            await client.aclose()


async def load(
    clients: Clients, fields: dict, texts: Sequence[str], rate: float, seconds: float
) -> LoadResult:
    """Send requests at random times, independent of earlier answers.

    Args:
        fields: the fields of each request, except its text.
        rate: requests per second; intervals are distributed exponentially.
    """
    draw = random.Random(0)
    latencies: list[float] = []
    tasks = []

    async def ask(text: str, due: float) -> None:
        try:
            answer = await clients.post({"q": text, **fields})
        except httpx.HTTPError:
            return
        if answer.status_code == 200:
            # Measured from the planned time: a late client must not hide a slow server.
            latencies.append(time.perf_counter() - due)

    start = due = time.perf_counter()
    while (due := due + draw.expovariate(rate)) < start + seconds:
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(ask(draw.choice(texts), due)))
    await asyncio.gather(*tasks)
    elapsed = time.perf_counter() - start
    quantiles = (1000 * quantile(latencies, part) for part in (0.5, 0.95, 0.99))
    n_failed = len(tasks) - len(latencies)
    return LoadResult(rate, len(tasks), n_failed, len(latencies) / elapsed, *quantiles)


async def run(args: argparse.Namespace) -> list[LoadResult]:
    """Run all loads one after another."""
    texts = SENTENCES
    if args.sentences:
        lines = args.sentences.read_text(encoding="utf-8").splitlines()
        texts = tuple(line for line in lines if line.strip())
    fields = {"source": args.source, "target": args.target, "format": "text"}
    if args.api_key:
        fields["api_key"] = args.api_key
    clients = Clients(args.url, args.timeout)
    try:
        return [await load(clients, fields, texts, rate, args.seconds) for rate in args.rates]
    finally:
        await clients.close()


def table(results: Sequence[LoadResult]) -> str:
    """The results in Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS)]
    for result in results:
        times = (f"{value:.0f}" for value in (result.p50, result.p95, result.p99))
        counts = (str(result.requests), str(result.failed))
        rows.append((f"{result.rate:g}", *counts, f"{result.throughput:.1f}", *times))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(results: Mapping[str, Sequence[LoadResult]], path: Path) -> None:
    """Draw latency against load.

    Args:
        results: by the name of the server.

    Raises:
        ImportError: without matplotlib.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for number, (name, found) in enumerate(results.items()):
        rates = [result.rate for result in found]
        for quantile_name, style in (("p50", "o-"), ("p95", "o--")):
            values = [getattr(result, quantile_name) for result in found]
            label = f"{name}, {quantile_name}" if name else quantile_name
            axes.plot(rates, values, style, color=f"C{number}", label=label)
    axes.set(xlabel="requests per second", ylabel="latency in ms", yscale="log")
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: Optional[Sequence[str]] = None) -> list[LoadResult]:
    """Load a server, print the table, and return it."""
    parser = argparse.ArgumentParser(description="Load a translation server.")
    add = parser.add_argument
    add("url", help="such as http://127.0.0.1:5000")
    add("--rates", type=float, nargs="+", default=[1, 2, 4, 8], help="requests per second")
    add("--seconds", type=float, default=30, help="seconds per rate (default: 30)")
    add("--sentences", type=Path, help="text file whose lines are sent (default: four sentences)")
    add("--source", default="en")
    add("--target", default="de")
    add("--api-key")
    add("--timeout", type=float, default=60, help="seconds to wait for an answer (default: 60)")
    add("--json", type=Path, metavar="FILE", help="write the results")
    add("--plot", type=Path, metavar="FILE", help="draw latency against load, with matplotlib")
    args = parser.parse_args(arguments)
    results = asyncio.run(run(args))
    print(table(results))
    if args.json:
        text = json.dumps([result._asdict() for result in results], indent=2)
        args.json.write_text(text + "\n", encoding="utf-8")
    if args.plot:
        plot({"": results}, args.plot)
    return results


if __name__ == "__main__":
    main()
