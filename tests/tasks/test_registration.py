"""A task of one's own gets --decoding in one line, as docs/models.md shows."""

import pytest
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_fastdec.decoding import DecodingOptions
from fairseq_fastdec.tasks import FastDecoding, register_fastdec
from fairseq_fastdec.tasks.registration import STOCK
from tests.support import command_line, snippets, tiny
from tests.support.command_line import hypotheses

PAGE = snippets.ROOT / "docs" / "models.md"


@pytest.mark.parametrize("name", STOCK)
def test_fairseqs_tasks(name):
    """They have --decoding under their own names."""
    own, stock = TASK_REGISTRY[name], STOCK[name]
    assert issubclass(own, FastDecoding) and issubclass(own, stock.task)
    assert not issubclass(stock.task, FastDecoding)
    if stock.options is not None:
        options = TASK_DATACLASS_REGISTRY[name]
        assert issubclass(options, DecodingOptions) and issubclass(options, stock.options)


def test_a_name_that_no_task_has():
    with pytest.raises(
        ValueError, match=r"^register_fastdec\('translate'\): there is no such task"
    ):
        register_fastdec("translate")


@pytest.fixture
def page_runs():
    """The Python code of the page, run once: fairseq registers a name once."""
    if "tagged_translation" not in TASK_REGISTRY:
        (block,) = snippets.blocks(PAGE, "python")
        exec(compile(block, str(PAGE), "exec"), {"__name__": "tagged_translation"})


def test_the_task_of_the_page(page_runs, corpus, baseline):
    """Its generator is fairseq's with more said to it, which ours is told, too."""
    arguments = [
        corpus, "--path", baseline, "--cpu", "--beam", 1, "--num-workers", 0, "--no-progress-bar",
        "--batch-size", 8, "--unnormalized",
    ]  # fmt: skip
    theirs = command_line.run(command_line.generate_cli, *arguments, "--task", "tagged_translation")
    ours = command_line.run(
        command_line.generate_cli, *arguments, "--task", "tagged_translation",
        "--decoding", "greedy", "--user-dir", command_line.PLUGIN,
    )  # fmt: skip
    assert hypotheses(ours) == hypotheses(theirs)
    plain = command_line.generate(corpus, baseline, "--decoding", "greedy", "--batch-size", 8)
    assert hypotheses(plain) != hypotheses(ours)


def test_a_task_for_an_older_fairseq():
    """Its ``build_model`` takes one argument."""

    @register_task("with_options", dataclass=TranslationConfig)
    class WithOptions(TranslationTask):
        def build_model(self, cfg):
            return cfg

    own = register_fastdec("with_options")
    assert TASK_REGISTRY["with_options"] is own
    options = TASK_DATACLASS_REGISTRY["with_options"](decoding="greedy")
    words = tiny.dictionary(3)
    task = own(options, words, words)
    assert options.left_pad_source and task.build_model("model", from_checkpoint=True) == "model"
