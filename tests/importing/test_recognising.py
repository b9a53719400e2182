"""Which files are models of other programs."""

import pytest

from fairseq_fastdec.importing.recognising import HUGGING_FACE, MARIAN, read, reader_of

LAYOUTS = {
    "config.json model.safetensors": HUGGING_FACE,
    "config.json pytorch_model.bin source.spm": HUGGING_FACE,
    "model.npz vocab.yml source.spm": MARIAN,
    "opus.bpe.npz vocab.yml": MARIAN,
    "model.enpt.intgemm.alphas.bin vocab.enpt.spm": MARIAN,
    "student.intgemm8.bin vocab.spm": MARIAN,
    "model.bin vocab.spm config.json": HUGGING_FACE,
    "checkpoint.pt dict.en.txt": "",
    "checkpoint_best.pt config.json": "",
    "config.json model.safetensors optimizer.pt": HUGGING_FACE,
    "config.json pytorch_model.bin scheduler.pt": HUGGING_FACE,
    "dict.en.txt test.bin": "",
    "": "",
}


@pytest.mark.parametrize("names", LAYOUTS)
def test_directories(names, tmp_path):
    for name in names.split():
        (tmp_path / name).touch()
    assert reader_of(tmp_path) == reader_of(str(tmp_path)) == LAYOUTS[names]


@pytest.mark.parametrize(
    "name, reader",
    [("a.npz", MARIAN), ("model.bin", MARIAN), ("a.pt", ""), ("model.fastdec", "")],
)
def test_files(name, reader, tmp_path):
    (tmp_path / name).touch()
    assert reader_of(tmp_path / name) == reader
    assert reader_of(tmp_path / f"no {name}") == ""


@pytest.mark.parametrize("path", [None, 3, ["a", "b"], []])
def test_what_is_no_path(path):
    assert reader_of(path) == ""


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such file or directory"):
        read(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"not a model that can be imported \(looked for config"):
        read(tmp_path)
