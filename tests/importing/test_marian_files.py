"""Marian's files of parameters: what is read, and what is refused."""

import struct
import zipfile

import numpy as np
import pytest

from fairseq_fastdec.importing import marian
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.marian_files import Quantised, read_tensors
from tests.support import marian_writing as writing
from tests.support import mutations, traces
from tests.support.marian_numpy import read

TENSORS = writing.random_tensors(writing.SSRU)


def tiny(path, **changes):
    """Write two tensors in ``.bin`` and change numbers of the header.

    Args:
        changes: fields of the first tensor.
    """
    tensors = {"a": np.ones((2, 3), "f4"), "b": np.ones((1, 2), "f4")}
    writing.write_bin(path, tensors)
    data = bytearray(path.read_bytes())
    places = {"count": 8, "length": 16, "kind": 24, "dimensions": 32, "size": 40}
    for name, value in changes.items():
        data[places[name] : places[name] + 8] = struct.pack("<Q", value)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["npz", "bin"])
def test_tensors_are_those_that_were_written(kind, tmp_path):
    path = tmp_path / f"model.{kind}"
    (writing.write_npz if kind == "npz" else writing.write_bin)(path, TENSORS)
    tensors = read_tensors(path)
    assert sorted(tensors) == sorted(TENSORS)
    for name, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, TENSORS[name])


def test_int8(tmp_path):
    path = tmp_path / "model.bin"
    writing.write_bin(path, TENSORS, is_quantised=True)
    expected, tensors = read(path), read_tensors(path)
    matrices = {name: own for name, own in tensors.items() if isinstance(own, Quantised)}
    assert "Wemb" in matrices and "decoder_l1_rnn_Wf" in matrices
    for name, matrix in matrices.items():
        assert matrix.values.shape == TENSORS[name].shape
        assert np.abs(matrix.values).max() == 127
        np.testing.assert_array_equal(matrix.dequantised(), expected[name])
        np.testing.assert_allclose(matrix.dequantised(), TENSORS[name], atol=0.02)


def test_other_orders_and_fp16(tmp_path):
    values = np.arange(6, dtype="f2").reshape(2, 3)
    np.savez(tmp_path / "a.npz", halves=values, columns=np.asfortranarray(values.astype("f4")))
    for tensor in read_tensors(tmp_path / "a.npz").values():
        np.testing.assert_array_equal(tensor, values)
    np.savez_compressed(tmp_path / "b.npz", values=values)
    np.testing.assert_array_equal(read_tensors(tmp_path / "b.npz")["values"], values)


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"count": 3}, "ends after|without a name|dimensions"),
        ({"count": 2**61}, "ends after"),
        ({"count": 2**64 - 1}, "ends after"),
        ({"length": 0}, "without a name"),
        ({"length": 1}, "without a name"),
        ({"length": 2**63}, "ends after"),
        ({"kind": 0x0404 + 4}, "'a' has the type 0x408"),
        ({"kind": 0x4102}, "'a' has the type 0x4102"),
        ({"dimensions": 0}, "'a' has 0 dimensions"),
        ({"dimensions": 2**62}, "dimensions"),
        ({"size": 8}, "'a' has 8 bytes, but needs 24"),
        ({"size": 2**64 - 1}, "ends after"),
    ],
)
def test_wrong_headers(changes, why, tmp_path):
    path = tiny(tmp_path / "model.bin", **changes)
    with pytest.raises(UnreadableModel, match=why) as error:
        read_tensors(path)
    assert str(path) in str(error.value)


def test_wrong_shapes(tmp_path):
    path = tiny(tmp_path / "model.bin")
    data = path.read_bytes()
    for shape, why in (((-1, 3), r"has the shape \[-1, 3\]"), ((2**30, 2**30), "needs")):
        path.write_bytes(data.replace(struct.pack("<2i", 2, 3), struct.pack("<2i", *shape), 1))
        with pytest.raises(UnreadableModel, match=why):
            read_tensors(path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x01" + bytes(7), b"\x02" + bytes(40)])
def test_files_of_another_kind(data, tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    with pytest.raises(UnreadableModel, match="model.bin"):
        read_tensors(path)


def test_multipliers_must_be_positive(tmp_path):
    path = tmp_path / "model.bin"
    writing.write_bin(path, {"a_W1": np.ones((2, 3), "f4")}, is_quantised=True)
    data = path.read_bytes()
    for value, why in ((0.0, "multiplier 0.0"), (np.nan, "nan"), (np.inf, "not finite")):
        path.write_bytes(data.replace(struct.pack("<f", 127), struct.pack("<f", value)))
        with pytest.raises(UnreadableModel, match=why):
            read_tensors(path)


def archive(path, compression=zipfile.ZIP_STORED, **members):
    """Write a zip."""
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


def npy(header, data=b""):
    """The bytes of an array."""
    text = str(header).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    "data, why",
    [
        (npy({"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**40)}), "bytes of"),
        (npy({"descr": "<f8", "fortran_order": False, "shape": (1,)}, bytes(8)), "type float64"),
        (npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, b"..."), "type object"),
        (npy({"descr": ">f4", "fortran_order": False, "shape": (1,)}, bytes(4)), "type >f4"),
        (npy({"descr": "<f4", "fortran_order": False, "shape": (0,)}), r"the shape \[0\]"),
        (npy({"descr": "<f4", "fortran_order": False, "shape": (-1, -1)}, bytes(4)), "the shape"),
        (npy("__import__('os')"), "not a whole .npz"),
        (b"", "not a whole .npz"),
    ],
)
def test_arrays_that_are_refused(data, why, tmp_path):
    path = archive(tmp_path / "model.npz", Wemb=data)
    with pytest.raises(UnreadableModel, match=why) as error:
        read_tensors(path)
    assert str(path) in str(error.value)


def test_archives_that_would_need_much_memory(tmp_path):
    header = npy({"descr": "<f4", "fortran_order": False, "shape": (1 << 22,)}, bytes(1 << 24))
    path = archive(tmp_path / "model.npz", zipfile.ZIP_DEFLATED, Wemb=header)
    with pytest.raises(UnreadableModel, match="compressed more than 50 times"):
        read_tensors(path)
    path = archive(tmp_path / "model.npz", zipfile.ZIP_LZMA, Wemb=b"")
    with pytest.raises(UnreadableModel, match="another compression"):
        read_tensors(path)


def test_names_that_are_repeated(tmp_path):
    path = archive(tmp_path / "model.npz", a=b"", b=b"")
    path.write_bytes(path.read_bytes().replace(b"b.npy", b"a.npy"))
    with pytest.raises(UnreadableModel, match="two tensors of one name"):
        read_tensors(tmp_path / "model.npz")
    writing.write_bin(tmp_path / "model.bin", {"a": TENSORS["Wemb"], "b": TENSORS["Wemb"]})
    data = (tmp_path / "model.bin").read_bytes()
    (tmp_path / "model.bin").write_bytes(data.replace(b"a\0b\0", b"a\0a\0"))
    with pytest.raises(UnreadableModel, match="two tensors of one name"):
        read_tensors(tmp_path / "model.bin")


@pytest.mark.parametrize("kind", ["npz", "bin", "int8"])
def test_damaged_files(kind, tmp_path):
    int8 = {"is_quantised": True} if kind == "int8" else {}
    suffix = "npz" if kind == "npz" else "bin"
    folder = writing.write_directory(tmp_path, TENSORS, suffix, **int8)
    whole = []

    def read_model():
        imported = marian.read(folder)
        if len(whole) < 20:
            traces.built(imported)
        whole.append(imported)

    refused = mutations.check(folder / f"model.{suffix}", read_model)
    assert refused > mutations.COUNT / 10
    assert refused + len(whole) == mutations.COUNT
