"""What the command lines of scripts share."""

import argparse
from types import SimpleNamespace

import pytest

from fairseq_fastdec.data.languages import infer_languages
from fairseq_fastdec.tools.command_line import positive


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
