"""Glyphs for every script that there is a font for, and letters in the right order."""

import sys

import pytest

from tests.support import skips

skips.needs("matplotlib")

from fairseq_fastdec.tools.visualize import fonts  # noqa: E402

DEVANAGARI = "\u0939\u093f"
# In the STIX fonts that come with matplotlib, but not in its DejaVu Sans.
ONLY_IN_STIX = "\u2ad9"


def test_the_default_font_has_european_and_semitic_letters(caplog):
    assert fonts.families("Größe▁@@ Ελλάδα мир שלום مرحبا …✗⋮") == [fonts.DEFAULT_FAMILY]
    assert "no installed font" not in caplog.text


def test_another_font_helps_out(caplog):
    families = fonts.families("a" + ONLY_IN_STIX)
    assert families[0] == fonts.DEFAULT_FAMILY and len(families) == 2
    assert "no installed font" not in caplog.text


def test_glyphs_that_no_font_has_are_named(monkeypatch, caplog):
    fonts.families("")  # the default font is found before the list is emptied
    monkeypatch.setattr(fonts, "_add_new_fonts", lambda: None)
    monkeypatch.setattr(fonts.font_manager.fontManager, "ttflist", [])
    assert fonts.families("a" + DEVANAGARI) == [fonts.DEFAULT_FAMILY]
    assert "install a font" in caplog.text and DEVANAGARI[0] in caplog.text


@pytest.mark.parametrize(
    "token, shown",
    [
        ("Größe@@", "Größe@@"),
        ("a\x00\x1f", "a\ufffd\ufffd"),
        ("a\x7f", "a\ufffd"),
        ("\u2028", "\ufffd"),
    ],
)
def test_control_characters_get_signs(token, shown):
    assert fonts.drawable(token) == shown


def test_svg_keeps_the_subword_mark_on_its_side():
    assert fonts.for_svg("של@@") == "\u200fשל@@\u200f"
    assert fonts.for_svg("▁בית") == "\u200f▁בית\u200f"
    assert fonts.for_svg("Größe@@") == "Größe@@"
    assert fonts.for_svg("0.50") == "0.50"


class TestWithoutRaqm:
    """matplotlib before 3.11."""

    @pytest.fixture(autouse=True)
    def old(self, monkeypatch):
        monkeypatch.setattr(fonts.ft2font, "__libraqm_version__", None, raising=False)

    def test_letters_are_put_in_visual_order(self):
        skips.needs("bidi")
        skips.needs("arabic_reshaper")
        assert fonts.for_png("של@@") == "@@לש"
        assert fonts.for_png("Größe") == "Größe"
        assert fonts.for_png("مر")[0] == "\ufeae"  # the final form of ra, joined to its mim

    def test_without_the_libraries_there_is_a_warning(self, monkeypatch, caplog):
        monkeypatch.setitem(sys.modules, "arabic_reshaper", None)
        fonts._warn_of_reversed_labels.cache_clear()
        assert fonts.for_png("של") == "של"
        assert "python-bidi" in caplog.text
