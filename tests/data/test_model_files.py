"""Checkpoints, dictionaries and codes are found by their names, or an error names what is not."""

import pytest

from fairseq_fastdec.data.model_files import bpe_of, checkpoints_of, codes_in, data_of


def touch(folder, *names):
    for name in names:
        (folder / name).write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    "names, found",
    [
        (["checkpoint.pt", "checkpoint_best.pt", "other.pt"], "checkpoint.pt"),
        (["checkpoint_best.pt", "checkpoint_last.pt"], "checkpoint_best.pt"),
        (["model7.pt", "notes.txt"], "model7.pt"),
    ],
)
def test_the_checkpoint_of_a_directory(names, found, tmp_path):
    touch(tmp_path, *names)
    path = str(tmp_path / found)
    assert (
        checkpoints_of(tmp_path) == checkpoints_of(str(tmp_path)) == checkpoints_of(path) == [path]
    )
    assert checkpoints_of([tmp_path, path]) == [path, path]


def test_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^path .*: has no checkpoint \(looked for chec"):
        checkpoints_of(tmp_path)
    with pytest.raises(FileNotFoundError, match="^path .*/none.pt: no such file or directory; gi"):
        checkpoints_of(tmp_path / "none.pt")
    touch(tmp_path, "a.pt", "b.pt")
    with pytest.raises(
        ValueError, match="^path .*: has 2 checkpoints, .* give one of the files, su"
    ):
        checkpoints_of(tmp_path)
    with pytest.raises(ValueError, match=r"^path \[\]: give at least one"):
        checkpoints_of([])


def test_dictionaries(tmp_path):
    with pytest.raises(FileNotFoundError, match="^data .*: has no dictionaries .* give data=DIR"):
        data_of(str(tmp_path / "checkpoint.pt"), None)
    with pytest.raises(FileNotFoundError, match=r"^data .*: has no dictionaries .*txt\)$"):
        data_of("checkpoint.pt", tmp_path)
    touch(tmp_path, "dict.en.txt")
    assert data_of(str(tmp_path / "checkpoint.pt"), None) == str(tmp_path)
    assert data_of("checkpoint.pt", tmp_path) == str(tmp_path)


@pytest.mark.parametrize(
    "name, text, bpe",
    [
        ("bpe.codes", "#version: 0.2\na b</w>\n", "subword_nmt"),
        ("code", "a b</w>\n", "subword_nmt"),
        ("bpecodes", "e n</w> 1423551\n", "fastbpe"),
        ("sentencepiece.bpe.model", "\x00", "sentencepiece"),
    ],
)
def test_codes(name, text, bpe, tmp_path):
    (tmp_path / "empty").mkdir()
    folders = [str(tmp_path / "empty"), str(tmp_path)]
    assert codes_in(folders) is None
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert codes_in(folders) == (str(path), bpe) and bpe_of(str(path)) == bpe


def test_several_checkpoints_of_a_directory(tmp_path):
    """The layout of the ensembles of WMT'19."""
    touch(tmp_path, *(f"model{number}.pt" for number in range(1, 5)), "bpecodes")
    paths = [str(tmp_path / f"model{number}.pt") for number in (1, 2)]
    joined = ":".join(paths)
    with pytest.raises(ValueError, match=f"or an ensemble of several: {joined}, or a list in Py"):
        checkpoints_of(tmp_path)
    assert checkpoints_of(joined) == checkpoints_of(paths) == checkpoints_of([joined]) == paths
    touch(tmp_path, "a:b.pt")
    assert checkpoints_of(tmp_path / "a:b.pt") == [str(tmp_path / "a:b.pt")]


@pytest.mark.parametrize("path", ["", [""], ["a.pt", ""], "a.pt:", ":a.pt", ":"])
def test_an_empty_path_is_not_the_current_directory(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "checkpoint.pt", "a.pt", "dict.en.txt")
    with pytest.raises(ValueError, match="^path '.*': is empty; give a checkpoint"):
        checkpoints_of(path)
    with pytest.raises(ValueError, match="^data '': is empty; give the directory"):
        data_of("a.pt", "")
