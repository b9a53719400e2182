"""The distilled model and its bundle, loaded once for each file of tests."""

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.tools.export import export


@pytest.fixture(scope="module")
def translator():
    made = fairseq_fastdec.load(MODEL)
    yield made
    made.close()


@pytest.fixture(scope="module")
def bundle_path(translator, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "model.fastdec"
    export(translator, path)
    return path


@pytest.fixture(scope="module")
def bundle(bundle_path):
    made = fairseq_fastdec.load(bundle_path)
    yield made
    made.close()
