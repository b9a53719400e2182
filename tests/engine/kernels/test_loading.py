"""The compiled code is found and trusted, or decoding goes on without it."""

import logging
import shutil
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fairseq_fastdec.decoding import generator
from fairseq_fastdec.engine import kernels
from fairseq_fastdec.engine.kernels import loading
from tests.support import tiny
from tests.support.against_fairseq import our_generator
from tests.support.compiled import compiled
from tests.support.trained_models import TASK

PLACE = Path(loading.__file__).parent


@compiled
def test_costs_of_threads_are_measured_once(monkeypatch):
    """A checkpoint and a bundle can use different numbers of threads in turn."""
    measured = []
    monkeypatch.setattr(loading, "_n_measured", 1)
    library = SimpleNamespace(measure_costs=measured.append)
    monkeypatch.setattr(loading, "library", lambda: library)
    for n in (1, 2, 4, 2, 4, 3):
        assert loading.measured(n) == n
    assert measured == [2, 4]


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
    generator._say.cache_clear()
    yield
    generator._say.cache_clear()


def test_one_line_of_the_log_says_what_is_missing(not_built, caplog):
    with caplog.at_level(logging.INFO):
        for seed in (0, 1):
            built = our_generator([tiny.build_model(TASK, seed=seed)], "greedy")
            assert not built.decodes_compiled()
    (said,) = [record.message for record in caplog.records if "compile" in record.message]
    assert "torch decodes" in said
    assert "install a C++ compiler" in said and "the package again" in said
    assert "--no-deps DIRECTORY, with the directory of its sources" in said


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_that_compiled_code_is_not_for(caplog, dtype):
    generator._say.cache_clear()
    with caplog.at_level(logging.INFO):
        model = tiny.build_model(TASK, dtype=dtype)
        assert not our_generator([model], "greedy").decodes_compiled()
    assert f"torch decodes, since the model's weights are {str(dtype)[6:]}" in caplog.text


def copied(elsewhere):
    built = PLACE / elsewhere.name
    shutil.copy(built, elsewhere)
    return elsewhere


@compiled
def test_a_library_in_another_place_is_loaded(elsewhere):
    copied(elsewhere)
    loading.check_complete(elsewhere)


@compiled
@pytest.mark.parametrize("left", [0, 10, 63, 64, 4096, 0.5, 0.9, -1])
def test_a_library_that_was_cut_short_is_not_used(left, elsewhere, caplog):
    """It would be mapped, and reading what is missing ends the process (SIGBUS)."""
    content = copied(elsewhere).read_bytes()
    elsewhere.write_bytes(content[: int(left * len(content)) if 0 < left < 1 else left])
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "Install the package again" in caplog.text
    # The system's loader knows of the shortest ones.
    assert left in (0, 10) or "truncated" in caplog.text


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
    with pytest.raises(ValueError, match="truncated"):
        loading.check_complete(elsewhere)


def test_a_library_for_another_machine_is_not_used(elsewhere, caplog):
    elsewhere.write_bytes(b"\x7fELF of another kind")
    with caplog.at_level(logging.WARNING):
        assert loading.library.__wrapped__() is None
    assert "Install the package again" in caplog.text


@compiled
def test_an_instruction_set_from_the_environment(monkeypatch):
    for name in loading.library().instruction_sets():
        monkeypatch.setenv("FASTDEC_ISA", name)
        assert loading.library.__wrapped__().instruction_set_in_use() == name
        assert f"compiled code ({name})" in kernels.description()
    loading.library().use_instruction_set(loading.library().instruction_sets()[-1])


@compiled
@pytest.mark.parametrize("name", ["avx1024", "AVX2", "amx generic"])
def test_an_instruction_set_that_the_processor_does_not_have(name, monkeypatch):
    monkeypatch.setenv("FASTDEC_ISA", name)
    with pytest.raises(ValueError, match=f"^FASTDEC_ISA={name}: must be one of generic"):
        loading.library.__wrapped__()
