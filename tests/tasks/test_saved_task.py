"""Checkpoints have the names and options of fairseq's tasks."""

from argparse import Namespace
from dataclasses import fields

import pytest
import torch
from fairseq.models.transformer import TransformerModel
from fairseq.tasks.translation import TranslationConfig

from fairseq_fastdec.tasks.saved_task import stock_task
from tests.support import skips, stock_commands, tiny
from tests.support.command_line import generate, hypotheses, train

SENTENCES = ["a b c d", "j i"]
WITHOUT_THE_PLUGIN = """
import sys
from fairseq.models.transformer import TransformerModel
folder, data, *sentences = sys.argv[1:]
hub = TransformerModel.from_pretrained(
    folder, "checkpoint_last.pt", data, tokenizer=None, bpe=None
)
assert not any(name.startswith("fairseq_fastdec") for name in sys.modules)
print(*hub.translate(sentences, beam=2), sep="\\n")
"""


@pytest.mark.skipif(tiny.OLD_FAIRSEQ, reason=skips.STOCK_0_12_2)
def test_fairseq_without_the_plugin_loads_what_it_trained(corpus, baseline, tmp_path, caplog):
    options = ["--arch", "transformer", "--decoding", "greedy", "--finetune-from-model", baseline]
    train(corpus, tmp_path, *options, updates=2)
    task = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["cfg"]["task"]
    assert task["_name"] == "translation"
    assert set(task) == {option.name for option in fields(TranslationConfig)}

    theirs = stock_commands.python(WITHOUT_THE_PLUGIN, tmp_path, corpus, *SENTENCES).splitlines()
    hub = TransformerModel.from_pretrained(
        str(tmp_path), "checkpoint_last.pt", str(corpus), tokenizer=None, bpe=None
    )
    assert hub.translate(SENTENCES, decoding="beam", beam=2) == theirs

    # Our commands go on with it, and decode it.
    with caplog.at_level("INFO"):
        train(corpus, tmp_path, *options, updates=4)
    assert "Loaded checkpoint" in caplog.text
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 4
    assert len(hypotheses(generate(corpus, tmp_path / "checkpoint_last.pt"))) == 29


def test_tasks_without_a_dataclass():
    own = Namespace(task="multilingual_translation_fastdec", data="d", decoding="greedy")
    assert stock_task(own) == Namespace(task="multilingual_translation", data="d")
    assert own.decoding == "greedy"


def test_tasks_that_fairseq_does_not_have():
    """Nothing in fairseq decodes two tokens a step, and a name with our ending may be a user's."""
    for name in (
        "translation_double_token",
        "semisupervised_translation",
        "not_registered_fastdec",
    ):
        options = {"_name": name, "data": "d"}
        assert stock_task(options) is options
    assert stock_task(Namespace(data="d")) == Namespace(data="d")
