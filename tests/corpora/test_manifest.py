"""What the output depends on."""

import shutil

import pytest

from fairseq_fastdec.corpora.arguments import parse_args
from fairseq_fastdec.corpora.manifest import Manifest
from tests.support.settings import assert_files_count_by_content

OUTPUT = {"on_error": "stop", "format": "plain"}


@pytest.fixture
def settings(corpus, baseline):
    """A function that gives the settings of a command line."""

    def make(*arguments, path=baseline, data=corpus):
        given = [path, "--data", data, "-s", "en", "-t", "de", *arguments]
        return parse_args(list(map(str, given))).model.settings()

    return make


def test_settings_are_kept_and_compared(tmp_path):
    manifest = Manifest(tmp_path)
    assert manifest.chunk_size is None and manifest.finished is None
    manifest.check({"a": [1, (2, None)], "chunk_size": 7, **OUTPUT})
    again = Manifest(tmp_path)
    assert again.chunk_size == 7
    again.check({"chunk_size": 7, "a": (1, [2, None]), **OUTPUT})
    with pytest.raises(ValueError, match=r"made with a = \[1, \[2, None\]\], but now it is 3"):
        again.check({"chunk_size": 7, "a": 3, **OUTPUT})


def test_a_line_that_stopped_it_may_be_kept_from_then_on(tmp_path):
    Manifest(tmp_path).check(OUTPUT)
    Manifest(tmp_path).check({**OUTPUT, "on_error": "empty"})
    for other in ("stop", "keep-source"):
        with pytest.raises(ValueError, match=f"on_error = empty, but now it is {other}"):
            Manifest(tmp_path).check({**OUTPUT, "on_error": other})


def test_the_end_is_noted(tmp_path):
    manifest = Manifest(tmp_path)
    manifest.check(OUTPUT)
    manifest.finish({"size": 5, "counts": {}})
    again = Manifest(tmp_path)
    assert again.finished == {"size": 5, "counts": {}}
    again.check(OUTPUT)
    again.finish(None)
    assert Manifest(tmp_path).finished is None
    Manifest(tmp_path).check(OUTPUT)


@pytest.mark.parametrize(
    "content",
    [
        '{"settings": ', '{"settings": null}', '{"settings": [1]}', "{}", '{"finished": 3}',
        '{"settings": {}, "finished": 3}', '{"settings": {}, "finished": {"size": 1}}',
        '{"settings": {}, "finished": {"size": 1, "counts": {"translated": "x"}}}',
        '{"settings": {"chunk_size": "x"}}', '{"settings": {"chunk_size": 0}}',
    ],
)  # fmt: skip
def test_a_damaged_manifest_is_named(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(
        ValueError, match="manifest.json: damaged; delete it .*choose another --out"
    ):
        Manifest(tmp_path)


def test_the_same_content_elsewhere_is_the_same(settings, corpus, baseline, tmp_path):
    shutil.copytree(corpus, tmp_path / "data")
    shutil.copy(baseline, tmp_path / "other.pt")
    moved = settings(path=tmp_path / "other.pt", data=tmp_path / "data")
    assert moved == settings()


def test_how_much_is_done_at_once_does_not_count(settings):
    assert settings("--batch-size", 3, "--max-tokens", 99, "--keep-model") == settings()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--beam", 4], ["--decoding", "greedy"], ["--engine-precision", "int8"], ["--fp16"],
        ["--seed", 2], ["--tokenizer", "moses"], ["--lenpen", 2],
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_other_options_are_others(settings, arguments):
    assert settings(*arguments) != settings()


def test_files_count_by_their_content(settings, corpus, baseline, tmp_path):
    assert_files_count_by_content(settings, corpus, baseline, tmp_path)
