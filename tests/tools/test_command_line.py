"""What the command lines of the tools share."""

import argparse
import sys
from types import SimpleNamespace

import pytest

from fairseq_fastdec.data.languages import infer_languages
from fairseq_fastdec.tools.command_line import positive, program


def test_languages(corpus, tmp_path):
    args = SimpleNamespace(data=f"{corpus}:{tmp_path}", source_lang=None, target_lang=None)
    infer_languages(args)
    assert (args.source_lang, args.target_lang) == ("en", "de")
    infer_languages(SimpleNamespace(data="nowhere", source_lang="en", target_lang="de"))
    with pytest.raises(ValueError, match="holds no binarised data"):
        infer_languages(SimpleNamespace(data=str(tmp_path), source_lang=None, target_lang="de"))


def test_whole_numbers():
    assert positive("12") == 12
    for text in ("0", "-1", "1.5", "many", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="whole number of at least 1"):
            positive(text)


@pytest.mark.parametrize(
    "called, name",
    [
        ("scripts/build_shortlist.py", "build_shortlist.py"),
        ("/opt/venv/bin/fastdec-build-shortlist", "fastdec-build-shortlist"),
        ("C:/venv/Scripts/fastdec-build-shortlist.exe", "fastdec-build-shortlist"),
        ("/opt/fairseq_fastdec/__main__.py", "python -m fairseq_fastdec build-shortlist"),
        ("/opt/pytest/__main__.py", "build_shortlist.py"),
        ("", "build_shortlist.py"),
    ],
)
def test_a_program_has_the_name_that_it_was_called_by(monkeypatch, called, name):
    monkeypatch.setattr(sys, "argv", [called])
    assert program("build-shortlist") == name
