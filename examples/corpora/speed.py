#!/usr/bin/env python3
"""Compare corpus translation with several divisions of the cores, and with CTranslate2.

    python examples/corpora/speed.py                          # all tables, about ten minutes
    python examples/corpora/speed.py --beams 1 --divisions 2x1 --engines nothing --lines 1000000
    python examples/corpora/speed.py --divisions 1x1 2x1 --engines ours tokenising --lines 20000

The model is the bundled one, in int8. Input and output are segmented text, since CTranslate2's
translate_file would tokenise in one thread. "tokenising" is this package with plain text, tokenised
and segmented by its workers. The time is measured from the first chunk, when models are loaded, to
the complete output. Run nothing else on the machine.

"Beside decoding" is the share of CPU time of coordinator and workers, from when the workers are
ready to their end, that is not spent in the task's inference_step.
"""

import argparse
import functools
import itertools
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig

from examples.common import arguments, commands
from examples.common.en_de import EN_DE, MODEL
from examples.common.table import markdown
from examples.engine.methods import prepare_bundled
from fairseq_fastdec.corpora.arguments import parse_args as parse_translation
from fairseq_fastdec.corpora.chunks import Chunk, ChunkStore, Translated, chunks_of
from fairseq_fastdec.corpora.coordinator import Coordinator
from fairseq_fastdec.corpora.output_lines import TRANSLATED, OutputRules
from fairseq_fastdec.corpora.pool import LocalPool, places, start_workers
from fairseq_fastdec.corpora.progress_bar import LineBar
from fairseq_fastdec.corpora.text_files import TextInput
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

OURS, TOKENISING, NOTHING, CTRANSLATE2 = "ours", "tokenising", "nothing", "CTranslate2"


def main() -> None:
    """Prepare, measure methods in turns, and print the tables."""
    args = parse_args()
    if args.one is not None:
        print(json.dumps(measured(args)))
        return
    args.workdir.mkdir(parents=True, exist_ok=True)
    prepare(args.workdir, args.lines)
    engines = args.engines
    methods = [
        f"{engine} {division} {tokens}"
        for engine in engines
        for division in args.divisions
        for tokens in args.max_tokens
    ]
    for beam in args.beams:
        results: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
        for _ in range(args.rounds):
            for method in methods:
                results[method].append(in_own_process(args, method, beam))
        title = f"\nbeam {beam}, {args.lines} lines, int8"
        print(table(title, results, args.lines), flush=True)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--lines", type=positive, default=6000)
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--beams", type=positive, nargs="+", default=[1, 5], help="1 is greedy")
    parser.add_argument(
        "--divisions", nargs="+", default=["1x1", "2x1", "1x2"], metavar="WORKERSxTHREADS"
    )
    parser.add_argument(
        "--max-tokens", type=int, nargs="+", default=[1024], help="source tokens per batch"
    )
    parser.add_argument(
        "--engines", nargs="+", choices=[OURS, TOKENISING, NOTHING, CTRANSLATE2],
        default=[OURS, CTRANSLATE2],
        help="tokenising: ours, including tokenisation and segmentation; nothing: ours, with "
        "workers that return each line unchanged",
    )  # fmt: skip
    parser.add_argument("--workdir", type=Path, default=Path("work/corpora_speed"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(work: Path, n_lines: int) -> None:
    """Write the repeated test set in subwords, and the model."""
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(MODEL / "bpe.codes")))
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang="en", target_lang="de"))
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()
    segmented = [bpe.encode(tokenizer.encode(line)) for line in lines]
    for name, of_test in (("text", segmented), ("raw", lines)):
        again = itertools.islice(itertools.cycle(of_test), n_lines)
        atomic_files.write_lines(work / name, again)
    if not commands.finished(work):
        prepare_bundled(work)
        commands.mark_finished(work)


def in_own_process(args: argparse.Namespace, method: str, beam: int) -> dict[str, float]:
    """The result of :func:`measured` for a method, in a separate process."""
    words = [sys.executable, Path(__file__).resolve(), "--one", method, "--beams", beam]
    words += ["--workdir", args.workdir]
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(args: argparse.Namespace) -> dict[str, float]:
    """Measure the seconds of a method, and for ours CPU times."""
    engine, words, max_tokens = args.one.split()
    (beam,) = args.beams
    division = [int(number) for number in words.split("x")]
    if engine == CTRANSLATE2:
        return of_ctranslate2(args.workdir, *division, int(max_tokens), beam)
    return of_ours(args.workdir, *division, int(max_tokens), beam, engine)


def of_ours(
    work: Path, n_workers: int, n_threads: int, max_tokens: int, beam: int, engine: str
) -> dict[str, float]:
    """Measure this package: seconds, and CPU times of decoding, workers and coordinator."""
    given = [work / "checkpoint.pt", "--data", work / "data", "-s", "en", "-t", "de", "--cpu"]
    source = work / ("raw" if engine == TOKENISING else "text")
    given += ["--input", source, "--output", "-", "--engine-precision", "int8"]
    if engine == TOKENISING:
        given += ["--bpe-codes", MODEL / "bpe.codes"]
    else:
        given += ["--bpe", "none", "--tokenizer", "none"]
    given += ["--decoding", "greedy"] if beam == 1 else ["--beam", beam]
    given += ["--max-tokens", max_tokens]
    model = parse_translation([str(word) for word in given]).model
    decoding = multiprocessing.get_context("fork").Value("d", 0.0)

    def load(_: Any) -> Any:
        if engine == NOTHING:
            return Echo()
        return _timed(model.translator(OutputRules(), None), decoding)

    with tempfile.TemporaryDirectory(dir=work) as directory:
        store = ChunkStore(Path(directory))
        bar = LineBar(None, False)
        pool = start_workers(load, places(n_workers, n_threads, 0), store, bar.update)
        _wait_for_workers(pool)
        decoding.value = 0.0
        own, began = time.process_time(), time.perf_counter()
        text = TextInput([str(source)])
        coordinator = Coordinator(
            functools.partial(chunks_of, text, 512), store, lambda _: pool, lambda: bar
        )
        coordinator.complete(Path(directory) / "output.txt")
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "decoding": decoding.value,
        "workers": used.ru_utime + used.ru_stime,
        "coordinator": time.process_time() - own,
    }


def _wait_for_workers(pool: LocalPool) -> None:
    while not all(worker.is_ready for worker in pool._workers):
        pool.results()


class Echo:
    """Returns lines unchanged."""

    def prepare(self) -> None:
        """Do nothing."""

    def use_threads(self, n_threads: int) -> None:
        """Do nothing."""

    def translate(self, chunk: Chunk, progress: Callable[[int], Any]) -> Translated:
        """Return the lines unchanged."""
        progress(chunk.n_lines)
        return Translated(chunk.source, {TRANSLATED: chunk.n_lines})


def _timed(translator: Any, decoding: Any) -> Any:
    """Make a translator add the CPU time of its decoding threads to a shared number."""
    plain: Callable = translator.translate

    @functools.wraps(plain)
    def translate(*given: Any) -> Any:
        began, own = time.process_time(), time.thread_time()
        result = plain(*given)
        with decoding.get_lock():
            decoding.value += time.process_time() - began - (time.thread_time() - own)
        return result

    translator.translate = translate
    return translator


def of_ctranslate2(
    work: Path, n_workers: int, n_threads: int, max_tokens: int, beam: int
) -> dict[str, float]:
    """Measure the seconds of CTranslate2's translate_file."""
    import ctranslate2
    from ctranslate2.converters import FairseqConverter

    model = work / "ctranslate2"
    if not model.exists():
        converter = FairseqConverter(
            str(work / "checkpoint.pt"), str(work / "data"), source_lang="en", target_lang="de"
        )
        converter.convert(str(model))
    translator = ctranslate2.Translator(
        str(model), compute_type="int8", inter_threads=n_workers, intra_threads=n_threads
    )
    translator.translate_batch([["a"]])
    began = time.perf_counter()
    translator.translate_file(
        str(work / "text"), str(work / "theirs.txt"), max_batch_size=max_tokens,
        batch_type="tokens", beam_size=beam, max_decoding_length=200,
    )  # fmt: skip
    return {"seconds": time.perf_counter() - began}


def table(title: str, results: dict[str, list[dict[str, float]]], n_lines: int) -> str:
    """A table of lines per second, the speed relative to the first method, and the share of time
    beside decoding.
    """
    first = statistics.median(round["seconds"] for round in next(iter(results.values())))
    rows = []
    for method, rounds in results.items():
        seconds = statistics.median(round["seconds"] for round in rounds)
        shares = [
            1 - round["decoding"] / (round["workers"] + round["coordinator"])
            for round in rounds
            if "decoding" in round
        ]
        own = [1e6 * round.get("coordinator", 0) / n_lines for round in rounds]
        rows.append(
            {
                "workers x threads, source tokens": method,
                "lines/s": f"{n_lines / seconds:.0f}",
                "beside the first": f"{first / seconds:.2f}x",
                "beside decoding": f"{100 * statistics.median(shares):.1f} %" if shares else "",
                "coordinator, µs a line": f"{statistics.median(own):.1f}" if shares else "",
                "seconds": " ".join(f"{round['seconds']:.2f}" for round in rounds),
            }
        )
    return markdown(title, rows)


if __name__ == "__main__":
    main()
