"""The site of the documents is built without a warning: pages, links, anchors and the API."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import skips

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The directory of the built site."""
    skips.needs("mkdocs")
    skips.needs("material")
    skips.needs("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    # Without -q, which also turns --strict off.
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder], cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    return folder


def test_pages_inside_and_outside_docs_are_built(site):
    for page in ("", "front_page", "contributing", "methods/greedy", "examples/en_de"):
        assert (site / page / "index.html").is_file(), page


@pytest.mark.parametrize(
    "page, link",
    [
        ("", "front_page/"),
        ("front_page", "../methods/greedy/"),
        ("methods/jacobi", "../../examples/jacobi/"),
    ],
)
def test_links_lead_from_page_to_page(site, page, link):
    assert f'href="{link}"' in (site / page / "index.html").read_text(encoding="utf-8")


def test_pictures_are_copied(site):
    assert (site / "examples" / "jacobi" / "ddgviz.png").is_file()


def test_the_api_page_has_the_docstrings(site):
    text = (site / "api" / "index.html").read_text(encoding="utf-8")
    assert "Load a translation model." in text
    assert 'id="fairseq_fastdec.decoding.methods.outputs.OutputBatch.keep"' in text
    assert ":class:" not in text
