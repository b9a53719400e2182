#!/usr/bin/env python3
"""Compare the service with a server that translates one sentence after another with CTranslate2.

    python examples/serve/peers.py --json peers.json
    python examples/serve/peers.py --rates 20 50 100 200 400 --json peers.json --plot peers.svg

Both servers use the weights of the bundled model in int8, the same HTTP interface and the same
tokenisation. The second one works like LibreTranslate: four threads answer requests, and
CTranslate2 translates their sentences in turn, with one thread or with --threads; the faster
setting counts. Clients send requests of one sentence and wait for each answer; the servers take
turns. With --rates, requests arrive at random (load.py), also at the service with the other policy.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from examples.common import commands
from examples.common.en_de import EN_DE
from examples.common.figures import write_figures
from examples.serve import load
from fairseq_fastdec.translating.command_line import positive
from fairseq_fastdec.translating.scheduler import POLICIES

MODEL = EN_DE / "model"
HOST = "127.0.0.1"
SETTINGS = ("clients", "rounds", "seconds", "beam", "threads", "rates")
OURS = POLICIES[0]
# The default of waitress, LibreTranslate's server.
REQUEST_THREADS = 4


class OneByOne:
    """Translates one sentence at a time with CTranslate2."""

    def __init__(self, bundle: str, directory: str, threads: int, beam: int) -> None:
        import ctranslate2

        import fairseq_fastdec

        self._bundle = fairseq_fastdec.load(bundle)
        self._model = ctranslate2.Translator(
            directory, inter_threads=1, intra_threads=threads, compute_type="int8"
        )
        self._beam = beam
        self._threads = ThreadPoolExecutor(REQUEST_THREADS)

    async def translate_async(self, text: str) -> str:
        """Translate a sentence when it is its turn."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._of, text)

    def queued(self) -> tuple[int, int]:
        """Not tracked."""
        return 0, 0

    def _of(self, text: str) -> str:
        codec = self._bundle.codec
        # CTranslate2 adds the end mark.
        tokens = self._bundle.job(text, {}).sentence.tokens
        words = codec.words(codec.source, tokens.tolist()).split()
        (found,) = self._model.translate_batch(
            [words], beam_size=self._beam, max_decoding_length=200
        )
        return codec.text(" ".join(found.hypotheses[0]))


def serve_one_by_one(port: int, *arguments: Any) -> None:
    """Serve with :class:`OneByOne`; the target of a process."""
    from fairseq_fastdec.serving.app import LanguagePair, create_app
    from fairseq_fastdec.serving.command import server_of
    from fairseq_fastdec.serving.config import ServerOptions

    options = ServerOptions(port=port)
    pair = LanguagePair("en", "de", OneByOne(*arguments))  # type: ignore[arg-type]
    server_of(create_app([pair], options), options).run()


def serve_joining(port: int, bundle: str, threads: int, beam: int, policy: str) -> None:
    """Serve like `python -m fairseq_fastdec serve`; the target of a process."""
    from fairseq_fastdec.serving import command

    words = [bundle, "--port", port, "--threads", threads, "--policy", policy]
    command.main([str(word) for word in [*words, *(["--beam", beam] if beam > 1 else [])]])


@contextlib.contextmanager
def running(args: argparse.Namespace) -> Iterator[dict[str, int]]:
    """Run the servers, and yield their ports by name."""
    bundle, directory = str(args.workdir / "model.fastdec"), str(args.workdir / "ctranslate2")
    own = (args.threads, args.beam)
    peers: dict[str, Any] = {policy: (serve_joining, (bundle, *own, policy)) for policy in POLICIES}
    for n in sorted({1, args.threads}):
        name = f"CTranslate2, one after the other, {n} thread" + "s" * (n > 1)
        peers[name] = (serve_one_by_one, (bundle, directory, n, args.beam))
    context, processes, ports = multiprocessing.get_context("spawn"), [], {}
    try:
        for name, (target, arguments) in peers.items():
            ports[name] = commands.free_port()
            process = context.Process(target=target, args=(ports[name], *arguments))
            process.start()
            processes.append(process)
        for name, port in ports.items():
            while not is_up(port):
                if not all(process.is_alive() for process in processes):
                    raise RuntimeError(f"{name}: the server has ended")
                time.sleep(0.1)
        yield ports
    finally:
        for process in processes:
            process.terminate()
            process.join()


def is_up(port: int) -> bool:
    """Whether a server answers."""
    try:
        return translation(http.client.HTTPConnection(HOST, port), "Open it.") != ""
    except OSError:
        return False


def translation(connection: http.client.HTTPConnection, text: str) -> str:
    """The answer to a request."""
    body = json.dumps({"q": text, "source": "en", "target": "de"})
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())["translatedText"]


def answered(port: int, lines: list[str], args: argparse.Namespace) -> tuple[float, dict[str, str]]:
    """Load a server with clients that each wait for an answer before they send the next request.

    Returns:
        answers per second, and the translations by sentence
    """
    found: dict[str, str] = {}
    counts = [0] * args.clients
    end = time.perf_counter() + args.seconds

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection(HOST, port)
        while time.perf_counter() < end:
            line = lines[(counts[number] * args.clients + number) % len(lines)]
            found[line] = translation(connection, line)
            counts[number] += 1
        connection.close()

    started = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(args.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started), found


def prepare(work: Path) -> None:
    """Write the bundled model as a bundle, and without heads for CTranslate2."""
    from ctranslate2.converters import FairseqConverter

    import fairseq_fastdec
    from examples.common.stock import save_without_heads
    from fairseq_fastdec.tools.export import export

    work.mkdir(parents=True, exist_ok=True)
    export(fairseq_fastdec.load(MODEL, engine_precision="int8"), work / "model.fastdec")
    save_without_heads(MODEL / "checkpoint.pt", work / "checkpoint.pt")
    converter = FairseqConverter(
        str(work / "checkpoint.pt"), str(MODEL), source_lang="en", target_lang="de"
    )
    converter.convert(str(work / "ctranslate2"), quantization="int8", force=True)
    commands.mark_finished(work)


def main() -> None:
    """Prepare, measure, print, and write JSON and the plot."""
    args = parse_args()
    if not commands.finished(args.workdir):
        prepare(args.workdir)
    lines = args.sentences.read_text(encoding="utf-8").splitlines()
    loads: dict[str, list[load.LoadResult]] = {}
    texts: dict[str, dict[str, str]] = {}
    with running(args) as ports:
        rates: dict[str, list[float]] = {name: [] for name in ports if name != POLICIES[1]}
        for number in range(args.rounds + 1):
            for name, own in rates.items():
                rate, texts[name] = answered(ports[name], lines, args)
                if number:  # the first round warms up
                    own.append(rate)
                    print(f"{name}: {rate:.0f} sentences a second", flush=True)
        peer = max(rates.keys() - {OURS}, key=lambda name: statistics.median(rates[name]))
        for name in (*POLICIES, peer) if args.rates else ():
            print(name, flush=True)
            options = ["--rates", *args.rates, "--seconds", args.seconds]
            words = [f"http://{HOST}:{ports[name]}", *options, "--sentences", args.sentences]
            loads[name] = load.main([str(word) for word in words])
    ratio = statistics.median(own / other for own, other in zip(rates[OURS], rates[peer]))
    both = texts[peer].keys() & texts[OURS].keys()
    equal = sum(texts[peer][line] == texts[OURS][line] for line in both) / len(both)
    print(f"{ratio:.2f} times as many as {peer}; {equal:.1%} of the translations are equal")
    if args.json:
        document = {
            **commands.provenance(),
            "settings": {name: getattr(args, name) for name in SETTINGS},
            "sentences_per_second": rates,
            "ratio": ratio,
            "equal": equal,
            "loads": {name: [own._asdict() for own in found] for name, found in loads.items()},
        }
        write_figures(args.json, document)
    if args.plot:
        load.plot(loads, args.plot)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--clients", type=positive, default=32)
    add("--rounds", type=positive, default=5)
    add("--seconds", type=float, default=10, help="seconds per turn and per rate (default: 10)")
    add("--beam", type=positive, default=1)
    add("--threads", type=positive, default=2)
    add("--rates", type=float, nargs="+", default=[], help="requests a second")
    add("--sentences", type=Path, default=EN_DE / "data" / "test.en")
    add("--workdir", type=Path, default=Path("work/peers"))
    add("--json", type=Path, metavar="FILE")
    add("--plot", type=Path, metavar="FILE", help="latency against load, with matplotlib")
    args = parser.parse_args()
    if args.plot and not args.rates:
        parser.error("--plot: give --rates")
    return args


if __name__ == "__main__":
    main()
