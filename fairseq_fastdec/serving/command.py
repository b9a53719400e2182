"""The command line of ``python -m fairseq_fastdec serve``, and the server process."""

import argparse
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from ..engine import kernels
from ..processes import cores
from ..processes.errors import end_with, errors_in_one_line
from ..translating.bundle_file import is_bundle
from ..translating.command_line import (
    NO_OPTIONS,
    add_glossary_option,
    add_lm_path,
    add_lm_weight,
    add_memory_options,
    positive,
    program,
)
from ..translating.opening import load
from ..translating.registry import any_joining
from ..translating.scheduler import POLICIES, split_options
from .config import ModelOptions, ServerOptions, ServiceConfig, read

if TYPE_CHECKING:
    from .app import LanguagePair

logger = logging.getLogger(__name__)

# Options of the server; the others belong to the model.
OF_SERVER = ("host", "port", "max_chars", "max_queue", "timeout_seconds", "threads")


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Serve until SIGTERM or an interrupt. Input errors are reported in one line."""
    name = program("serve")
    args = _parser(name).parse_args(arguments)
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401

        from . import app, slow_clients  # noqa: F401
    except ModuleNotFoundError as error:
        end_with(
            f"{name}: the package {error.name} is not installed: "
            "pip install 'fastdec-runtime[serve]'"
        )
    with errors_in_one_line(name, spelling=NO_OPTIONS):
        serve(config_of(args), args.ray)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(name, description="Translate over HTTP.")
    add = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="a bundle or a checkpoint")
    add("--config", metavar="FILE", help="a TOML file with models and options, instead of MODEL")
    add("--ray", action="store_true", help="translate on all machines of a Ray cluster: that of "
        "RAY_ADDRESS, or else of this machine")  # fmt: skip
    server = ServerOptions()
    add("--host", help=f"the address to listen on (default: {server.host})")
    add("--port", type=positive, metavar="N", help=f"the port (default: {server.port})")
    add("--api-key", action="append", metavar="KEY", help="accept only requests with this key; "
        "repeatable; the variable FASTDEC_API_KEYS adds keys, separated by commas")  # fmt: skip
    add("--max-chars", type=positive, metavar="N", help=f"the maximum number of characters "
        f"of a request (default: {server.max_chars})")  # fmt: skip
    add("--max-queue", type=positive, metavar="N",
        help=f"how many sentences may wait (default: {server.max_queue})")  # fmt: skip
    add("--timeout-seconds", type=positive, metavar="N",
        help=f"the time limit of a request (default: {server.timeout_seconds})")  # fmt: skip
    add("--threads", type=positive, metavar="N", help="decoding threads")
    group = parser.add_argument_group("decoding")
    add = group.add_argument
    add("--source", metavar="LANG", help="the source language (default: the model's)")
    add("--target", metavar="LANG", help="the target language (default: the model's)")
    add("--decoding", metavar="METHOD", help="the method, such as greedy, blockwise or beam")
    add("--beam", type=positive, metavar="K", help="the beam size")
    add("--engine-precision", metavar="NAME", help="fp32, bf16 or int8")
    add("--batch-size", type=positive, metavar="N", help="sentences decoded together, at most")
    add("--max-wait-ms", type=positive, metavar="N", help="how long a sentence may wait for others")
    add("--policy", choices=POLICIES, help="which waiting sentence is decoded next")
    add_memory_options(group)
    add_glossary_option(group)
    add_lm_path(group)
    add_lm_weight(group)
    return parser


def config_of(args: argparse.Namespace) -> ServiceConfig:
    """The configuration of a command line: its options, or those of its ``--config`` file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: for options that cannot be combined.
    """
    given = {name: value for name, value in vars(args).items() if value is not None}
    del given["ray"]
    if (args.config is None) == (args.model is None):
        raise ValueError("give either MODEL or --config FILE")
    if args.config is not None:
        others = sorted(given.keys() - {"config"})
        if others:
            flag = others[0].replace("_", "-")
            raise ValueError(f"--{flag}: not possible with --config; set it in the file")
        if not args.config:
            raise ValueError("--config '': must not be empty")
        config = read(args.config)
    else:
        server: dict[str, Any] = {name: given.pop(name) for name in OF_SERVER if name in given}
        keys = tuple(given.pop("api_key", ()))
        model = ModelOptions(given.pop("model"), **given)
        config = ServiceConfig((model,), ServerOptions(api_keys=keys, **server))
    words = (word.strip() for word in os.environ.get("FASTDEC_API_KEYS", "").split(","))
    more = [word for word in words if word]
    server_options = {**vars(config.server), "api_keys": (*config.server.api_keys, *more)}
    return ServiceConfig(config.models, ServerOptions(**server_options))


def serve(config: ServiceConfig, on_ray: bool = False) -> None:
    """Open the models, and answer requests until SIGTERM or an interrupt.

    Args:
        on_ray: translate on the machines of a Ray cluster.

    Raises:
        OSError: if a file is missing, or if the address is in use.
        ValueError: for an invalid option.
    """
    from .app import create_app

    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    with contextlib.ExitStack() as opened:
        # On a signal uvicorn answers the accepted requests, and then raises the signal again.
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, lambda *_: sys.exit(0))
            opened.callback(signal.signal, number, before)
        listener = opened.enter_context(bound(config.server))
        if on_ray:
            from . import ray_serve

            ray_serve.connect()
        pairs: list[LanguagePair] = []
        for model in config.models:
            pairs.append(_open(model, config.server, on_ray))
            opened.callback(pairs[-1].translator.close)
        app = create_app(pairs, config.server)
        # Otherwise the garbage collector would search the models again and again, which blocks.
        gc.freeze()
        logger.info("%s; %s", kernels.description(), cores.description())
        logger.info("listening on %s", config.server.address())
        server_of(app, config.server).run([listener])


def bound(options: ServerOptions) -> socket.socket:
    """A socket that is bound to the server's address, but does not listen yet.

    Raises:
        OSError: if the address is in use or does not belong to this machine; the message names it.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host, options.port))
    except OSError as error:
        listener.close()
        place = f"--host {options.host} --port {options.port}"
        raise OSError(f"{place}: cannot listen: {error.strerror}") from error
    return listener


def _open(model: ModelOptions, server: ServerOptions, on_ray: bool = False) -> "LanguagePair":
    from .app import LanguagePair

    if model.memory_source is not None and (on_ray or not is_bundle(model.path)):
        raise ValueError(
            f"memory_source {model.memory_source}: only for bundles, and not with --ray; export "
            "the checkpoint first, or send drafts with the requests"
        )
    options = model.decoding_options()
    if server.threads is not None:
        options["threads"] = server.threads
    translator = open_translator(model.path, max_queue=server.max_queue, **options)
    source, target = model.source or translator.source_lang, model.target or translator.target_lang
    if not source or not target:
        translator.close()
        raise ValueError(f"{model.path}: the languages are unknown; give --source and --target")
    # A model of one pair can have tokens around sentences, but none that name languages.
    languages = translator.languages if getattr(translator.languages, "tokens", None) else None
    if languages is not None:
        try:
            source, target = languages.pair(source, target)
        except ValueError:
            translator.close()
            raise
    aligns = translator.aligns
    if on_ray:
        from .ray_serve import deployed

        translator = deployed(translator, model, (source, target), server)
    return LanguagePair(source, target, translator, model.beam or 1, languages, aligns)


def open_translator(path: str, **options: Any) -> Any:
    """Open a bundle or a checkpoint whose sentences can join running batches.

    Args:
        options: options of :class:`~.scheduler.SchedulerOptions` and of ``fairseq_fastdec.load``.

    Raises:
        OSError: if a file is missing.
        ValueError: for an invalid option, and for a model or method that needs whole batches.
    """
    scheduling, decoding = split_options(options)
    translator = load(path, **decoding)
    if translator.job("a", {}) is None:
        raise ValueError(
            f"{path}: sentences cannot join running batches; use --decoding {any_joining()}, and "
            "a model that the compiled engine supports"
        )
    translator.schedule(**scheduling)
    return translator


def server_of(app: Any, options: ServerOptions) -> Any:
    """uvicorn's server for an application."""
    import uvicorn

    from .slow_clients import PatientProtocol

    return uvicorn.Server(
        uvicorn.Config(
            app,
            host=options.host,
            port=options.port,
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            # uvicorn's configuration would close the handlers of all loggers of the process.
            log_config=None,
            timeout_graceful_shutdown=options.timeout_seconds,
        )
    )
