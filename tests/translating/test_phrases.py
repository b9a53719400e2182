"""Constraints, forbidden phrases and glossaries of calls, with checkpoints and bundles."""

import asyncio

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.decoding.generator import DecodingGenerator
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.glossary import Glossary
from tests.support.lexical_tables import write_table

LINES = ["Open the file in the editor.", "", "Print the current page.", "Close the document."]
WANTED = ["Schreibprogramm", None, ["Blatt", "der aktuellen"], None]
UNWANTED = [None, None, None, ["Sie", "das Dokument"]]
TERMS = {"editor": "Schreibprogramm", "current page": "Blatt", "PAGE": "Seite", "text": "Wort"}


@pytest.fixture(scope="module")
def checkpoint():
    return fairseq_fastdec.load(MODEL, beam=5)


@pytest.fixture(scope="module")
def path(checkpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "model.fastdec"
    export(checkpoint, path)
    return path


@pytest.fixture(params=["checkpoint", "bundle"])
def either(request, checkpoint, path):
    return checkpoint if request.param == "checkpoint" else fairseq_fastdec.load(path)


@pytest.fixture(params=["checkpoint", "bundle"])
def model(request, path):
    return MODEL if request.param == "checkpoint" else path


def as_list(given):
    return [given] if isinstance(given, str) else given or []


def test_all_calls(either):
    """A translation has its phrases, and is the same in every call and batch."""
    given = dict(constraints=WANTED, forbidden=UNWANTED)
    plain, found = either.translate(LINES), either.translate(LINES, **given)
    for translation, wanted, unwanted in zip(found, WANTED, UNWANTED):
        assert all(phrase in translation for phrase in as_list(wanted))
        assert not any(phrase in translation for phrase in as_list(unwanted))
    assert [one != other for one, other in zip(plain, found)] == [True, False, True, True]
    streamed = either.translate_stream(LINES, **given)
    assert [result.text for _, result in streamed] == found
    for line, wanted, unwanted, expected in zip(LINES, WANTED, UNWANTED, found):
        own = dict(constraints=wanted, forbidden=unwanted)
        assert either.translate(line, **own) == expected
        assert asyncio.run(either.translate_async(line, **own)) == expected
    (result,) = either.translate([LINES[0]], constraints=WANTED[:1], details=True, nbest=3)
    assert all("Schreibprogramm" in own.text for own in result)


def test_a_checkpoint_in_torch(monkeypatch):
    """Whole batches have the same translations."""
    compiled = fairseq_fastdec.load(MODEL, beam=3)
    given = dict(constraints=WANTED, forbidden=UNWANTED)
    expected = compiled.translate(LINES, **given)
    monkeypatch.setattr(DecodingGenerator, "decodes_compiled", lambda self: False)
    assert fairseq_fastdec.load(MODEL, beam=3).translate(LINES, **given) == expected


def test_a_glossary(model, tmp_path):
    file = tmp_path / "terms.tsv"
    file.write_text("".join(f"{one}\t{other}\n" for one, other in TERMS.items()), encoding="utf-8")
    translator = fairseq_fastdec.load(model, beam=5, glossary=file)
    plain = fairseq_fastdec.load(model, beam=5)
    # Terms do not restrict a given target.
    pair = LINES[0], "Öffnen Sie die Datei."
    assert translator.score(*pair) == plain.score(*pair)
    assert asyncio.run(translator.score_async(*pair)) == plain.score(*pair)
    found = translator.translate(LINES)
    assert "Schreibprogramm" in found[0] and "Blatt" in found[2]
    assert found[3] == plain.translate(LINES[3])
    for given in (TERMS, Glossary.given(TERMS), file, str(file)):
        assert plain.translate(LINES, glossary=given) == found
    assert translator.translate(LINES, glossary=None) == plain.translate(LINES)
    other = translator.translate(LINES[0], glossary={"file": "Akte"}, constraints="Schreibprogramm")
    assert "Akte" in other and "Schreibprogramm" in other


def test_only_phrases_that_can_be_written(either):
    for text, problem in (("日本", "vocabulary lacks"), ("\t", None)):
        given = dict(constraints=text)
        if problem is None:
            assert either.translate(LINES[0], **given) == either.translate(LINES[0])
            continue
        with pytest.raises(ValueError, match=f"constraints '{text}': .*{problem}"):
            either.translate(LINES[0], **given)
        with pytest.raises(ValueError, match=f"forbidden '{text}': .*{problem}"):
            either.translate(LINES[0], forbidden=text)


def test_an_output_without_room(either):
    with pytest.raises(fairseq_fastdec.SentenceError, match="too long: constraints: 3[0-9] tokens"):
        either.translate(LINES[0], constraints="Datei " * 30, max_len_a=0, max_len_b=20)


def test_wrong_calls(either):
    with pytest.raises(ValueError, match="constraints: must be one for each of 4 sentences"):
        either.translate(LINES, constraints=["Datei"])
    with pytest.raises(TypeError, match="forbidden: must be strings"):
        either.translate(LINES[0], forbidden=[3])
    with pytest.raises(ValueError, match="'Datei': contains a forbidden phrase"):
        either.translate(LINES[0], constraints="Datei", forbidden="Datei")
    with pytest.raises(ValueError, match="constraints: fewer than texts"):
        list(either.translate_stream(LINES, constraints=WANTED[:2]))
    with pytest.raises(ValueError, match="glossary 7: must be a path, or a dict"):
        either.translate(LINES[0], glossary=7)
    with pytest.raises(ValueError, match="glossary nowhere: No such file"):
        either.translate(LINES[0], glossary="nowhere")
    with pytest.raises(ValueError, match="glossary: an empty translation"):
        either.translate(LINES[0], glossary={"file": " "})
    with pytest.raises(ValueError, match="only with decoding beam"):
        either.translate(LINES[0], constraints="Datei", decoding="greedy", beam=1)


def test_a_glossary_that_cannot_be_used(model, tmp_path):
    with pytest.raises(ValueError, match="constraints, glossary: only with decoding beam"):
        fairseq_fastdec.load(model, decoding="greedy", beam=1, glossary=TERMS)
    file = tmp_path / "terms.tsv"
    file.write_text("page\tBlatt\nfile\t日本\n", encoding="utf-8")
    with pytest.raises(ValueError, match="terms.tsv, line 2: the translation '日本': .*lacks"):
        fairseq_fastdec.load(model, beam=5, glossary=file)


def test_a_shortlist_has_the_tokens_of_constraints(tmp_path):
    table = write_table(tmp_path / "table", [("Datei", "file", 1.0), ("die", "the", 1.0)])
    translator = fairseq_fastdec.load(MODEL, beam=5, shortlist=table)
    (found,) = translator.translate(LINES[:1], constraints=["Seite drucken"])
    assert "Seite drucken" in found
    assert translator.translate(LINES[0], constraints="Seite drucken") == found
    assert "Seite" not in translator.translate(LINES[0])
