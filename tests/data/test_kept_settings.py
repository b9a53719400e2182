"""Settings that are kept beside results."""

import pytest

from fairseq_fastdec.data.kept_settings import check_settings


def test_settings_are_kept_and_compared(tmp_path):
    path = tmp_path / "settings.json"
    check_settings(path, {"a": 1, "b": ["x", 2], "c": None}, "--destdir")
    check_settings(path, {"c": None, "b": ["x", 2], "a": 1}, "--destdir")
    for other in ({"a": 1, "b": ["y", 2], "c": None}, {"a": 1, "b": ["x", 2], "c": None, "d": 0}):
        with pytest.raises(ValueError, match="made with [bd] = .*; choose another --destdir"):
            check_settings(path, other, "--destdir")


def test_nan_is_the_same_setting(tmp_path):
    for _ in range(2):
        check_settings(tmp_path / "settings.json", {"a": float("nan"), "b": [float("nan")]}, "--x")


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_damaged_settings_are_named(tmp_path, content):
    path = tmp_path / "settings.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: damaged; delete it if .*another --destdir$"):
        check_settings(path, {"a": 1}, "--destdir")
