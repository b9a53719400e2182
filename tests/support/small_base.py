"""Replaces the transformer base of examples by a tiny network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compare import command
from benchmarks.compare.methods import Division, Method, Settings
from benchmarks.compare.worker import Worker
from benchmarks.profile_engine.command import arguments_of, random_dictionary, random_model
from examples.common import random_base
from fairseq_fastdec.tools.corpus import DecodedText

TYPES, N_SENTENCES = 60, 3
SIZES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {
        "embed_dim": 16, "ffn_embed_dim": 32, "layers": 2, "attention_heads": 2,
    }.items()
}  # fmt: skip


def use(monkeypatch: Any) -> None:
    """Make examples use the tiny network instead of a transformer base."""

    def tiny_model(arch: str, task: Any, **given: Any) -> Any:
        return random_model(arch, task, **{**SIZES, **given})

    def tiny_arguments(arch: str, **given: Any) -> Any:
        return arguments_of(arch, **{**SIZES, **given})

    dictionary = random_dictionary(TYPES)
    monkeypatch.setattr(random_base, "random_dictionary", lambda _: dictionary)
    monkeypatch.setattr(random_base, "random_model", tiny_model)
    monkeypatch.setattr(random_base, "arguments_of", tiny_arguments)
    monkeypatch.setattr(random_base, "N_SENTENCES", N_SENTENCES)


def parsed(words: Sequence[Any]) -> tuple[Any, Settings, tuple[Method, ...]]:
    """Parse an example's command of ``benchmarks.compare``: options, settings, methods."""
    args, rest = command.parse_args([str(word) for word in words[3:]])
    settings = Settings((args.data, *rest), args.device, args.dtype, args.threads, args.sentences)
    return args, settings, tuple(Method.parse(spec) for spec in args.methods)


def decode(settings: Settings, method: Method, work: Path) -> tuple[list[DecodedText], Worker]:
    """Translate with a method, one sentence at a time; return translations and worker."""
    worker = Worker(method, settings, Division(1, 1), work)
    worker.warm_up(1)
    return list(worker.decode(1).translations.values()), worker
