"""The languages of binarised data."""

from types import SimpleNamespace

import pytest

from fairseq_fastdec.fairseq_patches.languages import infer_languages


def test_languages(corpus, tmp_path):
    args = SimpleNamespace(data=f"{corpus}:{tmp_path}", source_lang=None, target_lang=None)
    infer_languages(args)
    assert (args.source_lang, args.target_lang) == ("en", "de")
    infer_languages(SimpleNamespace(data="nowhere", source_lang="en", target_lang="de"))
    with pytest.raises(ValueError, match="has no binarised data"):
        infer_languages(SimpleNamespace(data=str(tmp_path), source_lang=None, target_lang="de"))
