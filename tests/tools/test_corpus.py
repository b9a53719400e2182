"""What scripts share: batches and text as fairseq-generate has them, models."""

import pytest
import torch

from fairseq_fastdec.tools.benchmark.methods import Settings, configure
from fairseq_fastdec.tools.corpus import Corpus, load_models
from tests.support import command_line


@pytest.fixture()
def cfg(corpus, baseline):
    """A function that gives the configuration of fairseq-generate with some options."""

    def make(*options, path=baseline):
        arguments = (str(corpus), "--path", str(path), *(str(option) for option in options))
        return configure(Settings(arguments, "cpu", "fp32", 1))

    return make


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


@pytest.mark.parametrize("limits", [{"batch_size": 16}, {"batch_size": 1}, {"max_tokens": 40}])
def test_batches_are_those_of_fairseq_generate(cfg, limits):
    configuration = cfg()
    configuration.dataset.update(limits)
    corpus = Corpus(configuration)
    plain = corpus.task.get_batch_iterator(
        corpus.dataset,
        max_tokens=limits.get("max_tokens"),
        max_sentences=limits.get("batch_size"),
        required_batch_size_multiple=8,
    ).next_epoch_itr(shuffle=False)
    batches = ids(corpus.batches(range(len(corpus)), []))
    assert batches == ids(plain)
    assert sorted(sum(batches, [])) == list(range(29))


@pytest.mark.parametrize("task", ["translation_fastdec", "translation_double_token"])
def test_part_of_shuffled_training_data(cfg, task):
    configuration = cfg("--gen-subset", "train", "--task", task)
    configuration.dataset.batch_size = 16
    batches = list(Corpus(configuration).batches(range(100, 141), []))
    assert sorted(sum(ids(batches), [])) == list(range(100, 141))
    lengths = [batch["net_input"]["src_lengths"].max().item() for batch in batches]
    assert lengths == sorted(lengths)


def test_sources_and_references_are_text(cfg, corpus, baseline):
    data = Corpus(cfg("--post-process", "letter"))
    printed = command_line.generate(corpus, baseline, "--batch-size", 8)
    for number in range(len(data)):
        assert f"\nS-{number}\t{data.source(number)}\n" in "\n" + printed
        assert data.reference(number) == data.source(number).replace(" ", "")[::-1]


def test_forced_prefixes(cfg):
    sample = {"target": torch.tensor([[4, 5, 6]])}
    assert Corpus(cfg("--prefix-size", 2)).prefix(sample).tolist() == [[4, 5]]
    assert Corpus(cfg()).prefix(sample) is None


def test_an_ensemble_in_half_precision(cfg, baseline):
    configuration = cfg(path=f"{baseline}:{baseline}")
    configuration.common.fp16 = True
    models = load_models(configuration, Corpus(configuration).task)
    assert [next(model.parameters()).dtype for model in models] == [torch.float16] * 2


def test_without_a_path_there_is_no_model(cfg):
    configuration = cfg()
    configuration.common_eval.path = None
    with pytest.raises(ValueError, match="--path: name the checkpoint"):
        load_models(configuration, None)
