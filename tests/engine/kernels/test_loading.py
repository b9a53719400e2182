"""The compiled code is found and trusted, or decoding goes on without it."""

import ctypes
import logging
import re
import shutil
import struct
from ctypes import c_int
from pathlib import Path

import pytest
import torch

import fairseq_fastdec
from fairseq_fastdec.engine import DecoderSession
from fairseq_fastdec.engine.kernels import loading, structures
from tests.support import tiny
from tests.support.compiled import compiled

TASK = tiny.task(20)


def test_only_kernels_ask_whether_anything_was_compiled():
    """Everybody else asks their factories, so one patch turns compiled code off everywhere."""
    package = Path(fairseq_fastdec.__file__).parent
    others = set(package.rglob("*.py")) - set((package / "engine" / "kernels").iterdir())
    asking = re.compile(r"kernels\.loading|kernels import .*\bloading\b")
    assert [path for path in others if asking.search(path.read_text(encoding="utf-8"))] == []


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """The library is looked for in an empty folder."""
    monkeypatch.setattr(loading, "__file__", str(tmp_path / "loading.py"))
    return tmp_path / f"_engine{loading.EXTENSION_SUFFIXES[0]}"


def test_without_a_library_there_is_none(elsewhere):
    assert loading.library.__wrapped__() is None


@pytest.fixture()
def not_built(elsewhere, monkeypatch):
    """As after an installation without a compiler."""
    monkeypatch.setattr(loading, "library", loading.library.__wrapped__)
    loading.warn_if_not_built.cache_clear()
    yield
    loading.warn_if_not_built.cache_clear()


def test_models_that_miss_compiled_code_are_told_once(not_built, caplog):
    for seed in (0, 1):
        DecoderSession(tiny.build_model(TASK, seed=seed)).reset(9)
    (said,) = [record.message for record in caplog.records if "compile" in record.message]
    assert "Install a C++ compiler" in said and "the package again" in said
    assert "--no-deps DIRECTORY, with the directory of its sources" in said


@pytest.mark.parametrize(
    "options", [dict(dtype=torch.float64), dict(dtype=torch.bfloat16)], ids=["fp64", "bf16"]
)
def test_models_that_compiled_code_is_not_for_miss_nothing(not_built, caplog, options):
    DecoderSession(tiny.build_model(TASK, **options)).reset(9)
    assert not [record for record in caplog.records if "compile" in record.message]


def test_a_library_that_cannot_be_loaded_is_not_called_missing(not_built, elsewhere, caplog):
    elsewhere.write_bytes(b"")
    loading.warn_if_not_built()
    assert not caplog.records


def copied(elsewhere):
    built = Path(structures.__file__).parent / elsewhere.name
    shutil.copy(built, elsewhere)
    return elsewhere


@compiled
@pytest.mark.parametrize("structure", range(len(structures.ALL)))
def test_a_library_of_other_sources_is_not_used(structure, elsewhere, monkeypatch, caplog):
    """Each of the structures that are shared with it tells."""
    copied(elsewhere)
    assert loading.library.__wrapped__() is not None
    everything = list(structures.ALL)
    everything[structure] = type("Longer", (ctypes.Structure,), dict(_fields_=[("x", 999 * c_int)]))
    monkeypatch.setattr(structures, "ALL", tuple(everything))
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "built from other sources; decoding is slower without" in caplog.text


@compiled
@pytest.mark.parametrize("left", [0, 10, 63, 64, 4096, 0.5, 0.9, -1])
def test_a_library_that_was_cut_short_is_not_used(left, elsewhere, monkeypatch, caplog):
    """It would be mapped, and reading what is missing ends the process (SIGBUS)."""
    content = copied(elsewhere).read_bytes()
    elsewhere.write_bytes(content[: int(left * len(content)) if 0 < left < 1 else left])
    if left in (0, 10):
        # Of these the system's loader knows.
        monkeypatch.undo()
        with pytest.raises((OSError, ValueError)):
            loading.Library(elsewhere)
        return
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "cut short" in caplog.text and "Install the package again" in caplog.text


@compiled
def test_a_library_without_its_last_segment_is_not_used(elsewhere):
    """Also one that was stripped of the table of sections, which is at the end of others."""
    content = bytearray(copied(elsewhere).read_bytes())
    (sections,) = struct.unpack_from("<Q", content, 40)
    struct.pack_into("<Q", content, 40, 0)  # where the table begins
    struct.pack_into("<H", content, 60, 0)  # and how many there are
    elsewhere.write_bytes(content[:sections])
    loading.check_complete(elsewhere)
    elsewhere.write_bytes(content[:5000])
    with pytest.raises(ValueError, match="cut short"):
        loading.check_complete(elsewhere)


def test_a_library_for_another_machine_is_not_used(elsewhere, caplog):
    elsewhere.write_bytes(b"\x7fELF of another kind")
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "Install the package again" in caplog.text
