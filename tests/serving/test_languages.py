"""Names of languages."""

import pytest

from fairseq_fastdec.serving.languages import name_of


@pytest.mark.parametrize(
    "code, name",
    [("de", "German"), ("zh-Hans", "Chinese"), ("pt_XX", "Portuguese"), ("tlh", "tlh")],
)
def test_names(code, name):
    assert name_of(code) == name
