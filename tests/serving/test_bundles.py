"""Requests to a service of a bundle."""

from tests.support.services import app_with, translate


def test_equal_sentences_with_other_constraints(bundle):
    """Each has its own translation and alignment."""
    given = dict(q=["Open the editor."] * 2, constraints=["Schreibprogramm", None])
    answer = translate(app_with(bundle), alignment="hard", **given).json()
    expected = bundle.translate(given["q"], constraints=given["constraints"], decoding="beam")
    assert answer["translatedText"] == expected and expected[0] != expected[1]
    lengths = [len(own["targetTokens"]) for (own,) in answer["alignment"]]
    assert lengths == [len(own["alignment"]) for (own,) in answer["alignment"]]
    assert "".join(answer["alignment"][0][0]["targetTokens"]).count("Schrei") == 1


def test_alignments_of_a_bundle(bundle):
    line = "Click the Save button."
    expected = bundle.translate(line, details=True, alignment=True)
    (found,) = translate(app_with(bundle), q=line, alignment="hard").json()["alignment"]
    assert [*map(tuple, found["alignment"])] == expected.alignment
    assert tuple(found["sourceTokens"]) == expected.source_tokens
    assert tuple(found["targetTokens"]) == expected.tokens
