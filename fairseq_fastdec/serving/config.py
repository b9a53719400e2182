"""The options of the service, and the TOML file that sets them."""

import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from ..translating.scheduler import POLICIES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# The options of a model that are paths.
PATHS = {"path", "memory_source", "memory_target", "glossary", "lm_path"}


@dataclass(frozen=True)
class ModelOptions:
    """A model and its decoding options. ``None`` stands for the translator's default.

    Attributes:
        path: a bundle or a checkpoint.
        source, target: the language codes in requests; by default those of the model.
        memory_source, memory_target: the files of a translation memory.
        glossary: the file of a glossary.
        lm_path: the checkpoint of a language model; bundles have their own.
        lm_weight: of the language model.
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
    memory_source: Optional[str] = None
    memory_target: Optional[str] = None
    glossary: Optional[str] = None
    lm_path: Optional[str] = None
    lm_weight: Optional[float] = None

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: for an empty string. An empty path would be the current directory.
        """
        _check_texts(asdict(self))

    def decoding_options(self) -> dict[str, Any]:
        """The given options of ``open_translator`` other than the path and the languages."""
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
        api_keys: the valid API keys; if empty, requests need none.
        max_chars: the maximum number of characters of a request, over all texts.
        max_texts: the maximum number of texts of a request.
        max_body_bytes: the maximum size of a request's body.
        max_queue: the maximum number of sentences that wait for one model.
        timeout_seconds: the time limit of a translation, and of the arrival of a request's body.
        threads: decoding threads of each model, or with Ray of each replica; ``None`` for the
            default.
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

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: for an empty API key, which requests without a key would match, for one that
                is not text, for an empty address, which stands for all addresses of the machine,
                and for a port that does not exist.
        """
        _check_texts({"host": self.host})
        if not all(key.strip() for key in self.api_keys):
            raise ValueError("api_key: must not be empty; remove it to accept all requests")
        for key in self.api_keys:
            try:
                key.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"api_key {key!r}: is not UTF-8") from error
        if self.port > 65535:
            raise ValueError(f"port {self.port}: must be at most 65535")

    def address(self) -> str:
        """The URL of the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True)
class ServiceConfig:
    """All options of the service."""

    models: tuple[ModelOptions, ...]
    server: ServerOptions = field(default_factory=ServerOptions)


def read(path: str) -> ServiceConfig:
    """Read a configuration file.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not TOML, or has an unknown key or an invalid value; the message names
            the key.
    """
    with open(path, encoding="utf-8-sig") as file:
        try:
            content = tomllib.loads(file.read())
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
        for name in PATHS & options.keys():
            options[name] = str(folder / options[name])
        models.append(ModelOptions(**options))
    server = _options(ServerOptions, f"{path}: server", content.get("server", {}))
    return ServiceConfig(tuple(models), ServerOptions(**server))


def _options(kind: type, place: str, table: Any) -> dict[str, Any]:
    """Check the values of a table against the fields of a dataclass."""
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
        elif annotation == Optional[float]:
            if type(value) not in (int, float):
                raise ValueError(f"--config {place}: {name} {value!r}: must be a number")
        elif not isinstance(value, str):
            raise ValueError(f"--config {place}: {name} {value!r}: must be a string")
        elif not value:
            raise ValueError(f"--config {place}: {name} {value!r}: must not be empty")
        elif name == "policy" and value not in POLICIES:
            raise ValueError(
                f"--config {place}: policy {value!r}: choose from {', '.join(POLICIES)}"
            )
    return options


def _check_texts(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value == "":
            raise ValueError(f"{name} {value!r}: must not be empty")


def _check_keys(place: str, table: dict[str, Any], valid: set[str]) -> None:
    for name in table:
        if name not in valid:
            raise ValueError(
                f"--config {place}: {name}: unknown; choose from {', '.join(sorted(valid))}"
            )
