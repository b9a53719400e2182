"""Parameters are read from all kinds of files, and damaged files raise errors of one line."""

import json
import random

import pytest
import torch

from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.tensors import read_tensors
from tests.support import skips
from tests.support.malicious import Malicious

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4, dtype=torch.float16)}


def save_safetensors(state, path):
    skips.needs("safetensors").torch.save_file(state, path)


SAVERS = {"model.safetensors": save_safetensors, "pytorch_model.bin": torch.save}
skips.needs("safetensors.torch")


def shards(directory, name):
    """Write a file for each parameter, and the index."""
    names = [name.replace(".", f"-{number}-of-2.") for number in (1, 2)]
    for (key, tensor), shard in zip(STATE.items(), names):
        SAVERS[name]({key: tensor}, directory / shard)
    index = directory / f"{name}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict(zip(STATE, names))}))
    return index, names


def check(read):
    assert set(read) == set(STATE)
    for name, tensor in read.items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, STATE[name].float())


def message(directory):
    """The message of the error, which has one line and names a file of the directory."""
    with pytest.raises((UnreadableModel, OSError)) as error:
        read_tensors(directory)
    told = str(error.value)
    assert "\n" not in told and str(directory) in told, told
    return told


@pytest.mark.parametrize("name", SAVERS)
def test_one_file(tmp_path, name):
    SAVERS[name](STATE, tmp_path / name)
    check(read_tensors(tmp_path))


@pytest.mark.parametrize("name", SAVERS)
def test_shards(tmp_path, name):
    shards(tmp_path, name)
    check(read_tensors(tmp_path))


def test_a_pickle_from_before_torch_1_6(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    torch.save(STATE, path, _use_new_zipfile_serialization=False)
    check(read_tensors(tmp_path))


def test_safetensors_are_preferred(tmp_path):
    torch.save({"old": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    save_safetensors(STATE, tmp_path / "model.safetensors")
    check(read_tensors(tmp_path))


def test_a_directory_without_parameters(tmp_path):
    assert "has no model.safetensors and no pytorch_model.bin" in message(tmp_path)


@pytest.mark.parametrize("name", SAVERS)
def test_a_missing_shard(tmp_path, name):
    _, (_, second) = shards(tmp_path, name)
    (tmp_path / second).unlink()
    assert second in message(tmp_path)


def test_a_parameter_that_is_in_no_shard(tmp_path):
    index, names = shards(tmp_path, "model.safetensors")
    index.write_text(json.dumps({"weight_map": {"c": names[0], "b": names[1]}}))
    assert f"{index}: c is not in {names[0]}" in message(tmp_path)


@pytest.mark.parametrize(
    "shard", ["../../etc/passwd", "/etc/passwd", "..", "", ".", "a/b", "a\0b", "a\nb", 5, None, []]
)
@pytest.mark.parametrize("name", SAVERS)
def test_an_index_that_leads_elsewhere(tmp_path, name, shard):
    index, _ = shards(tmp_path, name)
    index.write_text(json.dumps({"weight_map": {"a.weight": shard}}))
    assert "is not a file of the directory" in message(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"weight_map": 3}', "[" * 10**5, "\xff"])
def test_a_damaged_index(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_text(content, encoding="latin-1")
    assert "model.safetensors.index.json" in message(tmp_path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_run_code(tmp_path, zipped):
    ran = tmp_path / "ran"
    content = {"a": torch.ones(1), "b": Malicious(f"touch {ran}")}
    path = tmp_path / "pytorch_model.bin"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    assert "could run code" in message(tmp_path)
    assert not ran.exists()


@pytest.mark.parametrize("name", SAVERS)
def test_parameters_that_are_not_floating_point(tmp_path, name):
    SAVERS[name]({"a": torch.ones(2, dtype=torch.int8)}, tmp_path / name)
    assert "a is torch.int8" in message(tmp_path)


@pytest.mark.parametrize("content", [[torch.ones(1)], {"a": 3}, {5: torch.ones(1)}, torch.ones(1)])
def test_pickles_of_something_else(tmp_path, content):
    torch.save(content, tmp_path / "pytorch_model.bin")
    assert "pytorch_model.bin" in message(tmp_path)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**8, 9, 0])
def test_headers_of_other_lengths(tmp_path, length):
    path = tmp_path / "model.safetensors"
    save_safetensors(STATE, path)
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    assert "is damaged" in message(tmp_path)


@pytest.mark.parametrize("zipped", [True, False, None])
def test_truncated_files(tmp_path, zipped):
    path = tmp_path / ("model.safetensors" if zipped is None else "pytorch_model.bin")
    if zipped is None:
        save_safetensors(STATE, path)
    else:
        torch.save(STATE, path, _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    for length in range(0, len(content), max(len(content) // 40, 1)):
        path.write_bytes(content[:length])
        message(tmp_path)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("kind", ["safetensors", "zip", "old pickle"])
def test_damaged_files(tmp_path, kind):
    """They are read, if the damage is in the values of parameters, or refused."""
    path = tmp_path / ("model.safetensors" if kind == "safetensors" else "pytorch_model.bin")
    if kind == "safetensors":
        save_safetensors(STATE, path)
    else:
        torch.save(STATE, path, _use_new_zipfile_serialization=kind == "zip")
    content, generator, refused = path.read_bytes(), random.Random(3), 0
    for _ in range(200):
        damaged = bytearray(content)
        for _ in range(generator.choice([1, 1, 4])):
            damaged[generator.randrange(min(len(damaged), 600))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            read_tensors(tmp_path)
        except UnreadableModel as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error)
    assert refused > 50
