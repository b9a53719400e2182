"""The lists of languages are those of transformers."""

import importlib

import pytest

from fairseq_fastdec.importing import published_languages
from tests.support import huggingface as tiny


@pytest.mark.parametrize(
    "module, name, expected",
    [
        ("m2m_100.tokenization_m2m_100", "M2M_100", lambda codes: codes["m2m100"]),
        ("m2m_100.tokenization_m2m_100", "WMT_21", lambda codes: codes["wmt21"]),
        ("nllb.tokenization_nllb", "NLLB_200", list),
        ("mbart.tokenization_mbart", "MBART_25", list),
        ("mbart50.tokenization_mbart50", "MBART_50", list),
    ],
)
def test_lists(module, name, expected):
    tiny.transformers()
    codes = importlib.import_module(f"transformers.models.{module}").FAIRSEQ_LANGUAGE_CODES
    assert getattr(published_languages, name) == expected(codes)
