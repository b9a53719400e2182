"""YAML without types, aliases and deep lists."""

import pytest

from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.importing.plain_yaml import parsed


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", {}),
        ("a: yes\nb: 1.0\nc:\n", {"a": "yes", "b": "1.0", "c": ""}),
        ("a:\n  - 1\n  - [x, y]\n", {"a": ["1", ["x", "y"]]}),
        ('{"▁die": 3, "\\u2581das": 4}', {"▁die": "3", "▁das": "4"}),
        (b"word", "word"),
        ("a: 1\n---\nb: 2\n", {"a": "1"}),
        ("a: !!python/object/apply:os.system [ls]\n", {"a": ["ls"]}),
    ],
)
def test_values(text, expected):
    assert parsed(text, "vocab.yml") == expected


@pytest.mark.parametrize(
    "text, why",
    [
        ("a: [", "is not YAML"),
        (b"\xff\xfe\xff", "is not YAML"),
        ("a: &x [1]\nb: *x\n", "has YAML aliases"),
        ("a: 1\na: 2\n", "has the key 'a' twice"),
        ("? [a]\n: 1\n", "a key that is not a word"),
        ("[" * 9 + "]" * 9, "more than 8 levels"),
        ("[" * 100000, "(more than 8 levels|maximum nesting depth)"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(UnreadableModel, match=f"vocab.yml: .*{why}") as error:
        parsed(text, "vocab.yml")
    assert "\n" not in str(error.value)
