"""The models of a comparison, in the formats of all engines."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

import fairseq_fastdec
from examples.common import huggingface
from examples.common.en_de import EN_DE
from examples.common.huggingface import KINDS, new_model
from fairseq_fastdec.importing import recognising, writing
from fairseq_fastdec.tools.export import export

# Random models, by their names in the table.
RANDOM = {"Opus-MT": "marian", "NLLB-200-600M": "nllb"}
STUDENT = "Firefox student"
PIECES = 400
# CTranslate2's name of each precision.
COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}
PRECISIONS = tuple(COMPUTE_TYPES)


class Model(NamedTuple):
    """A model.

    Attributes:
        bundles: by precision.
        hugging_face: a directory; ``None`` for the student.
        ctranslate2: directories by precision; empty for the student, and if it is not installed.
    """

    name: str
    bundles: dict[str, Path]
    hugging_face: Optional[Path] = None
    ctranslate2: Mapping[str, Path] = MappingProxyType({})


def random_model(name: str, directory: Path, sizes: dict[str, Any]) -> Model:
    """Make a model of a published size with random weights.

    Args:
        name: a key of :data:`RANDOM`.
        sizes: values of the config that replace the published ones, for tests.
    """
    source, kind = directory / "hugging_face", RANDOM[name]
    english, german = (
        (EN_DE / f"data/test.{language}").read_text().splitlines() for language in ("en", "de")
    )
    published = {**KINDS[kind].published, **sizes}
    if kind == "marian":
        last = published["vocab_size"] - 1
        published |= {"pad_token_id": last, "decoder_start_token_id": last}
    model = new_model(kind, source, english, german, PIECES, **published)
    model.save_pretrained(source)
    if kind == "marian":
        _fill_up(source / "vocab.json", last)
    bundles = _bundles(source, directory)
    return Model(name, bundles, source, _converted(source, directory))


def student(path: Path, directory: Path) -> Model:
    """The student of Firefox in a directory."""
    return Model(STUDENT, _bundles(path, directory))


def _fill_up(path: Path, last: int) -> None:
    """Give all types a name, the last one that of padding, which CTranslate2 expects."""
    numbers = {**json.loads(path.read_text(encoding="utf-8")), "<pad>": last}
    missing = sorted({*range(last)} - {*numbers.values()})
    numbers.update((f"madeupword{number}", number) for number in missing)
    path.write_text(json.dumps(numbers), encoding="utf-8")


def _bundles(path: Path, directory: Path) -> dict[str, Path]:
    imported = directory / "imported"
    writing.write(recognising.read(path), imported)
    bundles = {}
    for precision in PRECISIONS:
        bundles[precision] = directory / f"{precision}.bundle"
        export(fairseq_fastdec.load(imported, engine_precision=precision), bundles[precision])
    return bundles


def _converted(source: Path, directory: Path) -> dict[str, Path]:
    try:
        # Its converter imports transformers.
        huggingface.transformers(*huggingface.class_names())
        import ctranslate2
    except ImportError:
        print("CTranslate2 is not installed; its columns are left out", file=sys.stderr)
        return {}
    models = {precision: directory / f"{precision}.ctranslate2" for precision in PRECISIONS}
    for precision, path in models.items():
        converter = ctranslate2.converters.TransformersConverter(str(source))
        converter.convert(str(path), quantization=COMPUTE_TYPES[precision])
    return models
