"""Imported models as files: a checkpoint, dictionaries and recorded options."""

import json
import math
from dataclasses import replace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from fairseq_fastdec.importing import writing
from fairseq_fastdec.importing.imported import UnreadableModel
from fairseq_fastdec.tasks.translation_languages import TranslationLanguagesTask
from tests.support.imported_models import FORMATS, LANGUAGES, random_model, written


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_files_of_a_model_of_one_pair(tmp_path):
    imported = replace(random_model("one pair"), files={"sentencepiece.bpe.model": b"pieces"})
    names = writing.write(imported, tmp_path / "new" / "model")
    expected = [
        "dict.en.txt", "dict.de.txt", "sentencepiece.bpe.model", "generation.json", "checkpoint.pt",
    ]  # fmt: skip
    assert names == expected and files_in(tmp_path / "new" / "model") == sorted(expected)
    assert (tmp_path / "new" / "model" / "sentencepiece.bpe.model").read_bytes() == b"pieces"


def test_dictionaries_have_the_order_of_the_embeddings(tmp_path):
    imported = random_model("one pair")
    longer = [*imported.target, "more", "Ġ#", "▁", "madeupword0000"]
    imported = replace(imported, target=longer, state=with_rows(imported.state, len(longer)))
    writing.write(imported, tmp_path)
    for name, symbols in (("en", imported.source), ("de", longer)):
        assert Dictionary.load(str(tmp_path / f"dict.{name}.txt")).symbols == symbols


def with_rows(state, n_rows):
    """The parameters with a larger target vocabulary."""
    state = dict(state)
    for name in ("decoder.embed_tokens.weight", "decoder.output_projection.weight"):
        state[name] = torch.randn(n_rows, state[name].size(1))
    return state


def test_one_dictionary_of_all_languages(tmp_path):
    written(tmp_path)
    assert files_in(tmp_path) == ["checkpoint.pt", "dict.all.txt", "generation.json"]
    assert Dictionary.load(str(tmp_path / "dict.all.txt")).symbols == random_model().source


def test_recorded_options(tmp_path):
    given = {"beam": 6, "lenpen": 0.6, "unkpen": math.inf, "unnormalized": True}
    writing.write(replace(random_model("one pair"), defaults=given), tmp_path)
    assert json.loads((tmp_path / "generation.json").read_text()) == given


@pytest.mark.parametrize("format", FORMATS)
def test_fairseq_loads_the_checkpoint(tmp_path, format):
    """With the stock task if nothing is around sentences, with its parameters and languages."""
    imported = random_model(format, "marian_transformer")
    path = writing.write(imported, tmp_path)[-1]
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / path)], {"data": str(tmp_path)}
    )
    state = model.state_dict()
    assert all(torch.equal(state[name], own) for name, own in imported.state.items())
    assert (cfg.model.arch, cfg.model.first_input) == ("marian_transformer", "pad")
    assert isinstance(task, TranslationLanguagesTask) == (format != "one pair")
    if format != "one pair":
        own = (task.languages.source_format, task.languages.target_format)
        assert own == FORMATS[format]
        names = () if format == "BART" else LANGUAGES
        assert task.languages.tokens == {name: f"__{name}__" for name in names}
    assert (task.cfg.source_lang, task.cfg.target_lang) == (
        imported.source_lang, imported.target_lang,
    )  # fmt: skip


def test_checkpoints_are_read_with_safe_loading(tmp_path):
    written(tmp_path)
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 0


def test_nothing_is_written_of_a_model_that_does_not_fit(tmp_path):
    imported = random_model("one pair")
    state = {**imported.state, "decoder.layers.0.fc1.bias": torch.zeros(3)}
    with pytest.raises(UnreadableModel, match="size mismatch"):
        writing.write(replace(imported, state=state), tmp_path / "model")
    with pytest.raises(UnreadableModel, match="has 'w1' twice"):
        writing.write(replace(imported, target=[*imported.target, "w1"]), tmp_path / "model")
    assert files_in(tmp_path) == []


def test_a_checkpoint_is_complete_or_absent(tmp_path, monkeypatch):
    def fail(state, path):
        torch_save({}, path)
        raise OSError(28, "No space left on device")

    torch_save = torch.save
    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path)
    assert files_in(tmp_path) == ["dict.all.txt", "generation.json"]
