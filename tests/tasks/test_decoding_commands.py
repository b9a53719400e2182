"""Commands that only decode release models, and nobody else does."""

import pytest
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel

from fairseq_fastdec.packing import own_weights
from fairseq_fastdec.tools.distillation import command as distillation
from tests.support.command_line import generate, hypotheses, interactive, train, validate

GREEDY = ("--decoding", "greedy")


@pytest.fixture
def released(monkeypatch):
    """Asks how many weights have been released since it was asked last."""
    made = []

    class Counted(own_weights.OwnWeights):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr("fairseq_fastdec.packing.prepared_model.OwnWeights", Counted)

    def count():
        number = sum(own.n_released for own in made)
        made.clear()
        return number

    return count


def test_fairseq_generate(corpus, baseline, released):
    printed = generate(corpus, baseline, *GREEDY)
    assert released() == 6 + 10  # of a layer each; the output layer is shared
    assert hypotheses(generate(corpus, baseline, *GREEDY, "--keep-model")) == hypotheses(printed)
    assert released() == 0
    stock = generate(corpus, baseline, "--beam", 1)
    assert hypotheses(stock) == hypotheses(printed)
    assert released() == 0


def test_a_language_model(language_model, baseline, released):
    data, lm = language_model
    given = [*GREEDY, "--lm-path", lm, "--lm-weight", 0.8]
    printed = generate(data, baseline, *given)
    # Of a layer each; and of two layers and the output layer.
    assert released() == 6 + 10 + 2 * 6 + 1
    assert hypotheses(generate(data, baseline, *given, "--keep-model")) == hypotheses(printed)
    assert released() == 0


def test_fairseq_interactive(corpus, baseline, tmp_path, released):
    printed = interactive(corpus, baseline, ["a b c"], tmp_path, *GREEDY)
    assert hypotheses(printed) == {0: "c b a"}
    assert released() == 16


def test_our_tools(corpus, baseline, tmp_path, released):
    options = ["--path", str(baseline), "--gen-subset", "test", "--cpu", "--num-workers", "0"]
    options += ["-s", "en", "-t", "de", "--no-progress-bar", *GREEDY]
    distillation.main([str(corpus), "--destdir", str(tmp_path / "out"), *options])
    assert released() == 16


def test_the_hub_keeps_its_models(corpus, baseline, released):
    hub = TransformerModel.from_pretrained(
        str(baseline.parent), baseline.name, str(corpus), tokenizer=None, bpe=None,
        task="translation",
    )  # fmt: skip
    translated = hub.translate("a b c", decoding="greedy")
    assert hub.translate("a b c", decoding="greedy", engine_precision="int8") == translated
    assert hub.translate("a b c", beam=1) == translated
    assert released() == 0


def test_training_keeps_its_model(corpus, tmp_path, released):
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    train(
        corpus, tmp_path, "--task", "translation", "--arch", "transformer",
        "--criterion", "cross_entropy", "--eval-bleu", "--eval-bleu-args",
        '{"decoding": "greedy", "max_len_b": 5}', updates=2,
    )  # fmt: skip
    assert released() == 0
    bleu = ("--task", "translation", "--eval-bleu", *GREEDY)
    validate(corpus, tmp_path / "checkpoint_last.pt", *bleu)
    assert released() == 0


def test_without_a_method_of_ours_it_means_nothing(corpus, baseline):
    with pytest.raises(
        ValueError, match="^--keep-model True: does not apply to --decoding fairseq"
    ):
        generate(corpus, baseline, "--keep-model")


@pytest.mark.parametrize("n_shards", [1, 2])
def test_shards_that_fairseq_generate_ignores(corpus, baseline, caplog, n_shards):
    printed = generate(corpus, baseline, *GREEDY, "--num-shards", n_shards, "--shard-id", 0)
    assert len(hypotheses(printed)) == 29
    told = [text for text in caplog.messages if "--num-shards 2: fairseq-generate ignores" in text]
    assert len(told) == n_shards - 1


def test_shards_of_our_own_tools_are_no_news(corpus, baseline, tmp_path, caplog):
    options = ["--path", str(baseline), "--gen-subset", "test", "--cpu", "--num-workers", "0"]
    options += ["--no-progress-bar", "--num-shards", "2", "--shard-id", "0", *GREEDY]
    distillation.main([str(corpus), "--destdir", str(tmp_path / "out"), *options])
    assert "--num-shards" not in caplog.text


@pytest.mark.parametrize(
    "flags, is_warned", [([], False), (["--beam", 5], True), (["--beam=5"], True)]
)
def test_a_beam_without_effect_is_told(corpus, baseline, caplog, flags, is_warned):
    generate(corpus, baseline, "--decoding", "greedy", *flags)
    assert ("--beam 5: has no effect, since --decoding greedy" in caplog.text) == is_warned
