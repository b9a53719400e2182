"""The sentences of calls, and what is given for each."""

import pytest

from fairseq_fastdec.translating.sentences import Sentence, sentences_of, stream_of, strings_of


def test_one_sentence():
    assert sentences_of(" a ") == [Sentence("a")]
    (found,) = sentences_of("a", drafts=["x", " "], constraints="b c", forbidden=["d", "e"])
    assert found == Sentence("a", ["x"], ("b c",), ("d", "e"))


def test_several():
    given = dict(drafts=["x", None, []], constraints=None, forbidden=[None, "d", ["e"]])
    found = sentences_of(["a", "", "b"], **given)
    assert found == [
        Sentence("a", ["x"]),
        Sentence("", None, (), ("d",)),
        Sentence("b", [], (), ("e",)),
    ]
    assert sentences_of([], drafts=[]) == []
    with pytest.raises(ValueError, match="forbidden: must be one for each of 1 sentences"):
        sentences_of(["a"], forbidden="a")
    with pytest.raises(ValueError, match="drafts: must be one for each of 2 sentences"):
        sentences_of(["a", "b"], drafts=["a"])


@pytest.mark.parametrize("given", [1, [None], b"a", [b"a"]])
def test_only_strings(given):
    with pytest.raises(TypeError, match="drafts: must be strings"):
        strings_of("drafts", given)


def test_a_stream_is_read_as_it_is_used():
    texts = iter(["a", "b", "c"])
    stream = stream_of(texts, drafts=iter(["x", None, "z"]), constraints=None)
    assert next(stream) == Sentence("a", ["x"]) and list(texts) == ["b", "c"]


@pytest.mark.parametrize(
    "texts, drafts, problem", [("ab", [None], "fewer"), ("a", [None, "x"], "more")]
)
def test_streams_of_different_lengths(texts, drafts, problem):
    with pytest.raises(ValueError, match=f"drafts: {problem} than texts"):
        list(stream_of(texts, drafts=drafts))
