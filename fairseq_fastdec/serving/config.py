"""The options of the service, and the TOML file that has them."""

import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from .scheduler import POLICIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class ModelOptions:
    """A model, and how it decodes. ``None`` is the translator's default.

    Attributes:
        path: a bundle, or a checkpoint.
        source: the language code of requests; by default the model's.
        target: likewise.
    """

    path: str
    source: Optional[str] = None
    target: Optional[str] = None
    decoding: Optional[str] = None
    beam: Optional[int] = None
    engine_precision: Optional[str] = None
    batch_size: Optional[int] = None
    max_wait_ms: Optional[int] = None
    policy: Optional[str] = None

    def decoding_options(self) -> dict[str, Any]:
        """Those for ``open_translator`` that are given, besides path and languages."""
        options = asdict(self)
        return {
            name: value
            for name, value in options.items()
            if value is not None and name not in ("path", "source", "target")
        }


@dataclass(frozen=True)
class ServerOptions:
    """The server's address and limits.

    Attributes:
        api_keys: one of these must be in a request; empty for an open server.
        max_chars: characters of all texts of a request together.
        max_texts: texts of a request.
        max_queue: sentences that may wait for one model.
        timeout_seconds: how long a request may take, and how long its body may take to arrive.
        threads: of each model, and with Ray of each replica; ``None`` for the default.
    """

    host: str = "127.0.0.1"
    port: int = 5000
    api_keys: tuple[str, ...] = ()
    max_chars: int = 100_000
    max_texts: int = 1000
    max_body_bytes: int = 4 << 20
    max_queue: int = 2000
    timeout_seconds: int = 60
    threads: Optional[int] = None


@dataclass(frozen=True)
class ServiceConfig:
    """All options of the service."""

    models: tuple[ModelOptions, ...]
    server: ServerOptions = field(default_factory=ServerOptions)


def read(path: str) -> ServiceConfig:
    """Read a configuration file.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is not TOML, or has an unknown key or a wrong value; names the key.
    """
    with open(path, "rb") as file:
        try:
            content = tomllib.load(file)
        except ValueError as error:
            raise ValueError(f"--config {path}: not TOML: {error}") from error
    _check_keys(path, content, {"models", "server"})
    tables = content.get("models", [])
    if not isinstance(tables, list) or not tables:
        raise ValueError(f"--config {path}: no model; add [[models]] with a path")
    # Paths are relative to the file.
    folder = Path(path).parent
    models = []
    for number, table in enumerate(tables, start=1):
        options = _options(ModelOptions, f"{path}: models {number}", table)
        if "path" not in options:
            raise ValueError(f"--config {path}: models {number}: no path")
        options["path"] = str(folder / options["path"])
        models.append(ModelOptions(**options))
    server = _options(ServerOptions, f"{path}: server", content.get("server", {}))
    return ServiceConfig(tuple(models), ServerOptions(**server))


def _options(kind: type, place: str, table: Any) -> dict[str, Any]:
    """The checked values of a table for a dataclass."""
    if not isinstance(table, dict):
        raise ValueError(f"--config {place}: must be a table")
    _check_keys(place, table, {option.name for option in fields(kind)})
    options = dict(table)
    for name, value in table.items():
        annotation = kind.__annotations__[name]
        if annotation == tuple[str, ...]:
            if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
                raise ValueError(f"--config {place}: {name} {value!r}: must be a list of strings")
            options[name] = tuple(value)
        elif annotation in (int, Optional[int]):
            if type(value) is not int or value < 1:
                raise ValueError(
                    f"--config {place}: {name} {value!r}: must be a whole number of at least 1"
                )
        elif not isinstance(value, str):
            raise ValueError(f"--config {place}: {name} {value!r}: must be a string")
        elif name == "policy" and value not in POLICIES:
            raise ValueError(
                f"--config {place}: policy {value!r}: choose from {', '.join(POLICIES)}"
            )
    return options


def _check_keys(place: str, table: dict[str, Any], known: set[str]) -> None:
    for name in table:
        if name not in known:
            raise ValueError(
                f"--config {place}: {name}: unknown; choose from {', '.join(sorted(known))}"
            )
