"""The methods to compare, and their common settings."""

import argparse
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from fairseq import options

from fairseq_fastdec.tools.corpus import to_config
from fairseq_fastdec.translating.command_line import check_places, positive

PROGRAM = "python -m benchmarks.compare"
FAIRSEQ, CTRANSLATE2 = "fairseq", "ctranslate2"
# Each engine's option for the number of batches that are decoded in parallel.
WORKERS_OPTIONS = {FAIRSEQ: "--processes", CTRANSLATE2: "--inter-threads"}
BEST = "best"
# The largest number of processes that "best" tries, since each has a model in memory.
MOST_PROCESSES = 4

DEFAULT_METHODS = (
    "fairseq, beam 1: --decoding fairseq --beam 1",
    "greedy: --decoding greedy",
    "lookahead: --decoding lookahead",
    "CTranslate2, beam 1: --engine ctranslate2 --beam 1",
    "CTranslate2 int8, beam 1: --engine ctranslate2 --compute-type int8 --beam 1",
    "fairseq, beam 5: --decoding fairseq --beam 5",
    "beam 5: --decoding beam --beam 5",
    "streaming, beam 5: --decoding streaming --beam 5",
    "CTranslate2, beam 5: --engine ctranslate2 --beam 5",
)


@dataclass(frozen=True)
class Division:
    """The division of a method's threads among workers.

    Attributes:
        workers: the number of batches that are decoded in parallel, in processes or in
            CTranslate2's inter threads, which share one model.
        threads: the threads of each worker.
    """

    workers: int
    threads: int

    def __str__(self) -> str:
        return f"{self.workers} x {self.threads}"


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    Attributes:
        arguments: options of fairseq-generate.
        engine: ``fairseq`` (with this plugin) or ``ctranslate2``.
        compute_type: a type of CTranslate2; ``None`` for that of ``--dtype``.
        workers: see :class:`Division`; ``"best"`` for the fastest number.
        in_torch: whether this plugin decodes without its compiled code.
    """

    name: str
    arguments: tuple[str, ...]
    engine: str = FAIRSEQ
    compute_type: Optional[str] = None
    workers: Union[int, str] = BEST
    in_torch: bool = False

    @classmethod
    def parse(cls, spec: str, workers: Optional[dict[str, Union[int, str]]] = None) -> "Method":
        """Parse ``NAME: OPTIONS``.

        Args:
            workers: the default number by engine, for methods without the option (default: best).

        Raises:
            ValueError: for another format, an unknown engine, or an option of another engine.
        """
        name, _, words = spec.partition(":")
        if not name.strip() or not words.strip():
            raise ValueError(
                f"--method {spec!r}: give a name, a colon and options of fairseq-generate, such "
                "as 'beam 4: --decoding beam --beam 4'"
            )
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        parser.add_argument("--engine", choices=(FAIRSEQ, CTRANSLATE2), default=FAIRSEQ)
        parser.add_argument("--compute-type")
        parser.add_argument("--torch", action="store_true")
        for option in WORKERS_OPTIONS.values():
            parser.add_argument(option, type=number_of_workers)
        try:
            args, arguments = parser.parse_known_args(shlex.split(words))
        except (argparse.ArgumentError, ValueError) as error:
            raise ValueError(f"--method {spec!r}: {error}") from error
        if args.compute_type is not None and args.engine != CTRANSLATE2:
            raise ValueError(
                f"--method {spec!r}: --compute-type is for --engine ctranslate2; use --dtype"
            )
        if args.torch and args.engine != FAIRSEQ:
            raise ValueError(f"--method {spec!r}: --torch is for --engine {FAIRSEQ}; remove it")
        given = {FAIRSEQ: args.processes, CTRANSLATE2: args.inter_threads}
        for engine, option in WORKERS_OPTIONS.items():
            if engine != args.engine and given[engine] is not None:
                raise ValueError(
                    f"--method {spec!r}: {option} is for --engine {engine}; "
                    f"use {WORKERS_OPTIONS[args.engine]}"
                )
        n_workers = given[args.engine] or (workers or {}).get(args.engine, BEST)
        kind = args.engine, args.compute_type, n_workers, args.torch
        return cls(name.strip(), tuple(arguments), *kind)

    def n_processes(self, division: Division) -> int:
        """The number of processes of the workers; those of CTranslate2 are threads."""
        return division.workers if self.engine == FAIRSEQ else 1

    def divisions(self, settings: "Settings") -> tuple[Division, ...]:
        """The divisions of the threads to measure; the fastest is reported.

        Raises:
            ValueError: for a number of workers that the threads or the device do not allow.
        """
        n, option = settings.threads, WORKERS_OPTIONS[self.engine]
        if isinstance(self.workers, str):  # BEST
            most = n if self.engine == CTRANSLATE2 else MOST_PROCESSES
            if settings.device != "cpu":
                most = 1
            numbers = {1, max(w for w in range(1, min(n, most) + 1) if n % w == 0)}
        elif settings.device != "cpu" and self.workers != 1:
            raise ValueError(
                f"{option} {self.workers}: on a GPU a method has one worker; remove it"
            )
        elif n % self.workers:
            raise ValueError(
                f"{option} {self.workers}: does not divide --threads {n} evenly; change one of them"
            )
        else:
            numbers = {self.workers}
        return tuple(Division(workers, n // workers) for workers in sorted(numbers))


def number_of_workers(text: str) -> Union[int, str]:
    """Parse ``best`` or a whole number of at least 1."""
    if text == BEST:
        return BEST
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or {BEST}") from error


@dataclass(frozen=True)
class Settings:
    """The common settings of all methods.

    Attributes:
        arguments: the data directory and options of fairseq-generate.
        dtype: ``fp32``, ``fp16`` or ``bf16``.
        threads: the threads of a method, over all workers.
        sentences: the number of sentences to decode, from the first on; ``None`` for all.
        counts_flops: whether operations are counted, in an additional round.
        reference_text: a file with a reference per line; ``None`` for the data's targets.
    """

    arguments: tuple[str, ...]
    device: str
    dtype: str
    threads: int
    sentences: Optional[int] = None
    counts_flops: bool = False
    reference_text: Optional[Path] = None


def configure(settings: Settings, method: Optional[Method] = None) -> Any:
    """The configuration of fairseq-generate for a method, or for the common settings.

    Raises:
        OSError: if the data directory cannot be read.
        SystemExit: argparse's, for options that do not exist.
        ValueError: for options that are not possible here; the message names the flag.
    """
    parser = options.get_generation_parser()
    parser.prog = f"{PROGRAM}: {method.name}" if method else PROGRAM
    parser.usage = f"options as for fairseq-generate; see {PROGRAM} --help"
    arguments = [*settings.arguments, *(method.arguments if method else ())]
    args = options.parse_args_and_arch(parser, arguments)
    check_places(args, _out_of_place(args))
    args.cpu = settings.device == "cpu"
    args.fp16 = settings.dtype == "fp16"
    return to_config(args)


def _out_of_place(args: argparse.Namespace) -> dict[str, tuple[bool, str]]:
    return {
        "--fp16": (args.fp16, "use --dtype fp16"),
        "--bf16": (args.bf16, "use --dtype bf16"),
        "--cpu": (args.cpu, "use --device cpu"),
        "--batch-size": (args.batch_size is not None, "give it for all methods, outside --method"),
        "--scoring": (args.scoring != "bleu", "remove it: BLEU is always sacrebleu's"),
        "--num-shards": (args.num_shards > 1, "use --sentences"),
        "--results-path": (args.results_path is not None, "use --output"),
    }


def check_methods(settings: Settings, methods: tuple[Method, ...]) -> None:
    """Check the command line before anything is loaded.

    Raises:
        SystemExit: argparse's, for options that do not exist.
        ValueError: for duplicate names, and for methods with different sentences or batches.
    """
    if settings.counts_flops and settings.device != "cpu":
        raise ValueError("--flops: cannot count replayed CUDA graphs; use --device cpu")
    names = [method.name for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"--method {name!r}: two methods have this name; rename one")
    shared = configure(settings)
    for method in methods:
        try:
            method.divisions(settings)
            cfg = configure(settings, method)
            if cfg.dataset != shared.dataset:
                raise ValueError(
                    "an option changes the sentences or the batches; give it for all methods, "
                    "outside --method"
                )
            if cfg.common_eval.path is None:
                raise ValueError("--path: give the checkpoint, here or for all methods")
        except ValueError as error:
            raise ValueError(f"--method {method.name!r}: {error}") from error
