"""Values of JSON files are checked."""

from pathlib import Path

import pytest

from fairseq_fastdec.importing.fields import Fields
from fairseq_fastdec.importing.imported import UnreadableModel


def fields(value):
    return Fields(Path("config.json"), {"x": value})


@pytest.mark.parametrize(
    "read, good, bad",
    [
        (lambda own: own.count("x", least=1), [1, 5], [0, -1, 10**9, 1.0, True, "1", [], None]),
        (lambda own: own.number("x", 2.0), [1, 0.5, -1], ["1", True, 1e10, float("nan"), {}]),
        (lambda own: own.flag("x", True), [True, False], [0, 1, "true", []]),
        (lambda own: own.text("x"), ["", "a"], [1, False, [], {}]),
        (
            lambda own: own.type_number("x"),
            [0, 3, [3]],
            [-1, 1.5, True, "1", [], [1, 2], [None, 1]],
        ),
    ],
    ids=["count", "number", "flag", "text", "type_number"],
)
def test_values(read, good, bad):
    for value in good:
        expected = value[0] if isinstance(value, list) else value
        assert read(fields(value)) == expected
    for value in bad:
        with pytest.raises(UnreadableModel, match=r"config\.json: x is .*it must be") as error:
            read(fields(value))
        assert "\n" not in str(error.value)


def test_null_counts_as_missing():
    empty = fields(None)
    assert (empty.number("x", 2.0), empty.flag("x", True)) == (2.0, True)
    assert empty.text("x") is empty.type_number("x") is None
    assert empty.count("x", 7) == 7


def test_long_values_are_shortened():
    with pytest.raises(UnreadableModel) as error:
        fields("a\n" * 1000).flag("x", True)
    assert len(str(error.value)) < 200 and "\n" not in str(error.value)


def test_files(tmp_path):
    path = tmp_path / "config.json"
    assert Fields.read(path).values == {}
    with pytest.raises(FileNotFoundError, match=r"config\.json"):
        Fields.read(path, required=True)
    path.write_text('{"x": 1, "y": null}')
    assert Fields.read(path).values == {"x": 1}
