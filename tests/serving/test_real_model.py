"""A real model behind the HTTP interface."""

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import fairseq_fastdec
from fairseq_fastdec.serving.app import LanguagePair, create_app
from fairseq_fastdec.serving.command import open_translator
from fairseq_fastdec.serving.config import ServerOptions
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.registry import METHODS, OF_WHOLE_BATCHES, any_joining
from tests.support.documents import Parsed
from tests.support.services import call, translate
from tests.support.split_text import split

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "en_de" / "model"
TEXT = "Click the button. The file is open.\n\nSave the document!"


@pytest.fixture(scope="module")
def translator():
    opened = open_translator(str(MODEL), threads=2)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def app(translator):
    assert (translator.source_lang, translator.target_lang) == ("en", "de")
    return create_app([LanguagePair("en", "de", translator)], ServerOptions())


def test_translations_are_the_models(app):
    model = fairseq_fastdec.load(str(MODEL))
    first, second, third = model.translate(
        ["Click the button.", "The file is open.", "Save the document!"]
    )
    answer = translate(app, q=TEXT)
    assert answer.json() == {"translatedText": f"{first} {second}\n\n{third}"}
    html = translate(app, q="<p>Click the button. <b>The file is open.</b></p>", format="html")
    assert html.json() == {"translatedText": f"<p>{first} <b>{second}</b></p>"}


def test_inline_tags(translator):
    """A sentence with tags has the translation of the sentence without them."""
    assert translator.aligns
    app = create_app([LanguagePair("en", "de", translator, aligns=True)], ServerOptions())
    text = "Click the <b>Save</b> button to close <a href='x'>the <i>document</i></a>."
    found = translate(app, q=f"<p>{text}</p><p>Print it.</p>", format="html").json()
    found = found["translatedText"]
    plain = [re.sub("<[^>]*>", "", own) for own in (text, "Print it.")]
    expected = translator.translate(plain)
    assert re.sub("<[^>]*>", "", found) == "".join(expected)
    assert re.search("<b>Speichern,?</b>", found)
    assert re.search("<a href='x'>das <i>Dokument</i></a>", found)


def test_placeholders(translator):
    app = create_app([LanguagePair("en", "de", translator, aligns=True)], ServerOptions())
    text = "The file {name} is open. Print <b> %d pages.\nSave it."
    found = translate(app, q=text, format="placeholders").json()["translatedText"]
    expected = translate(app, q="The file is open. Print <b> pages.\nSave it.").json()
    without = found.replace("{name}", "").replace("%d", "")
    assert "".join(without.split()) == "".join(expected["translatedText"].split())
    assert found.count("{name}") == found.count("%d") == found.count("\n") == 1
    for fields in (dict(draft="x"), dict(alignment="hard")):
        assert translate(app, q=text, format="placeholders", **fields).status_code == 400


@pytest.mark.parametrize("form", ["html", "placeholders", ["html", "placeholders"]], ids=str)
def test_alternatives_with_tags(translator, form):
    """Each is well-formed, and has the text that it has without them."""
    app = create_app([LanguagePair("en", "de", translator, aligns=True)], ServerOptions())
    text = "<p>Click the <b>Save</b> button. <i>Close {name}.</i></p>"
    given = dict(alternatives=2, format=form)
    answer = translate(app, q=text, **given).json()
    plain = text if form == "placeholders" else re.sub("<[^>]*>", "", text)
    plain = plain if form == "html" else plain.replace(" {name}", "")
    expected = translate(app, q=plain, alternatives=2).json()
    assert len(answer["alternatives"]) == len(expected["alternatives"]) == 2
    for own, other in zip(
        [answer["translatedText"], *answer["alternatives"]],
        [expected["translatedText"], *expected["alternatives"]],
    ):
        if form != "placeholders":
            assert Parsed(own).tags == {("p",), ("b",), ("i",)}
            own = re.sub("<[^>]*>", "", own)
        if form != "html":
            assert own.count("{name}") == 1
            own = own.replace("{name}", "")
        assert "".join(own.split()) == "".join(other.split())
    assert translate(app, q=[text], **given).json()["alternatives"] == [answer["alternatives"]]


def test_a_form_repeats_the_format(translator):
    app = create_app([LanguagePair("en", "de", translator, aligns=True)], ServerOptions())
    fields = {"q": "Open <b>{0}</b> now.", "source": "en", "target": "de"}
    fields["format"] = ["html", "placeholders"]
    answer = call(app, "POST", "/translate", data=fields)
    assert answer.json() == call(app, "POST", "/translate", json=fields).json()
    assert answer.json()["translatedText"].count("<b>{0}</b>") == 1


def test_constraints(translator):
    app = create_app([LanguagePair("en", "de", translator, aligns=True)], ServerOptions())
    texts = ["Open the <b>editor</b> {0}.", "Open the editor. Close it."]
    given = dict(q=texts, format=["html", "placeholders"], constraints=["Schreibprogramm", None])
    first, second = translate(app, **given).json()["translatedText"]
    options = dict(tags=given["format"], constraints="Schreibprogramm", decoding="beam")
    assert first == translator.translate(texts[0], **options)
    assert "Schreibprogramm" in first and "Schreibprogramm" not in second
    message = translate(app, **{**given, "constraints": ["\ue000", None]}).json()["error"]
    assert "vocabulary lacks characters" in message


def test_scores_are_the_models(app, translator):
    pairs = [["Click the button.", "Klicken Sie auf die Schaltfläche."], ["x", ""]]
    fields = {"pairs": pairs, "source": "en", "target": "de"}
    answer = call(app, "POST", "/score", json=fields)
    assert answer.json() == {"scores": translator.score(*zip(*pairs))}
    fields["pairs"] = [pairs[0], ["x", "y " * 499], ["x", "~" * 1000], ["a." * 500, "x"]]
    assert call(app, "POST", "/score", json=fields).status_code == 200


def test_alternatives(app):
    answer = translate(app, q="Save the document!", alternatives=2).json()
    assert len({answer["translatedText"], *answer["alternatives"]}) == 3


def test_a_glossary(app):
    """The model decodes with beams then, also if it is greedy by default."""
    fields = dict(glossary={"file": "Textdatei"}, forbidden="Schaltfläche")
    found = translate(app, q=TEXT, **fields).json()["translatedText"]
    assert "Textdatei" in found and "Schaltfläche" not in found
    answer = translate(app, q="a", glossary={"a": "日本"})
    assert answer.status_code == 400 and "vocabulary lacks characters" in answer.json()["error"]


def test_a_text_without_ends_of_sentences(app):
    """It is longer than what the model reads, and is translated in parts."""
    answer = translate(app, q="Save the file " * 1000)
    assert answer.status_code == 200 and "Datei" in answer.json()["translatedText"]


def test_a_sentence_that_is_too_long(app, monkeypatch):
    monkeypatch.setattr("fairseq_fastdec.serving.texts.MOST_CHARS", 100_000)
    answer = translate(app, q="Save " * 5000)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("too long: ")
    assert "details=True" not in answer.json()["error"]


def test_wrong_options():
    with pytest.raises(ValueError, match="beem"):
        open_translator(str(MODEL), beem=3)


@pytest.mark.parametrize("method", METHODS)
def test_the_methods_that_messages_name_are_those_that_join(method):
    assert method in any_joining() and method not in OF_WHOLE_BATCHES
    if method == "double_token":  # of another model: tests/translating/test_pairs_that_join.py
        return
    translator = fairseq_fastdec.load(MODEL, decoding=method)
    assert translator.job("a", {}) is not None


def test_methods_that_take_whole_batches():
    with pytest.raises(ValueError, match="sentences cannot join running batches; use --decoding"):
        open_translator(str(MODEL), beam=2, sampling=True)


def test_translations_do_not_depend_on_the_load(translator, app):
    """Many requests at once, of which some are given up."""
    lines = (ROOT / "examples" / "en_de" / "everyday.en").read_text(encoding="utf-8").splitlines()
    alone = fairseq_fastdec.load(str(MODEL))
    expected = [alone.translate(line) for line in lines]

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://test", timeout=60
        ) as client:
            bodies = [{"q": line, "source": "en", "target": "de"} for line in lines * 4]
            tasks = [asyncio.ensure_future(client.post("/translate", json=body)) for body in bodies]
            await asyncio.sleep(0.01)
            for task in tasks[::5]:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)

    for number, answer in enumerate(asyncio.run(run())):
        if number % 5 or not isinstance(answer, asyncio.CancelledError):
            text = answer.json()["translatedText"]
            # A line of several sentences is translated sentence by sentence.
            if len(split(lines[number % len(lines)], "en").sentences) == 1:
                assert text == expected[number % len(lines)]
    deadline = time.monotonic() + 120
    while translator.queued() != (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_bundle_is_served_without_torch(tmp_path):
    path = tmp_path / "model.fastdec"
    export(fairseq_fastdec.load(str(MODEL)), path)
    code = (
        "import sys; from fairseq_fastdec.serving import app, command\n"
        f"translator = command.open_translator({str(path)!r}, threads=1)\n"
        "print('torch' in sys.modules or 'fairseq' in sys.modules, translator.queued())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False (0, 0)", done.stderr


def test_metrics_of_a_real_model(app):
    text = call(app, "GET", "/metrics").text
    assert 'fastdec_sentences_waiting{source="en",target="de"} 0.0' in text
