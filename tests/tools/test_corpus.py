"""What scripts share: batches and text as fairseq-generate has them, models."""

import re
import sys
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq.tasks import FairseqTask

from benchmarks.compare.methods import Settings, configure
from fairseq_fastdec.tools.corpus import (
    Corpus,
    best_translations,
    load_models,
    on_device,
    uses_cuda,
)
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


def test_the_models_greatest_lengths_hold(cfg):
    """Sentence 7 has 30 words."""
    model = SimpleNamespace(max_positions=lambda: (20, 20))
    skipping = Corpus(cfg("--skip-invalid-size-inputs-valid-test"))
    left = sum(ids(skipping.batches(range(29), [model])), [])
    assert sorted(left) == [number for number in range(29) if number != 7]
    with pytest.raises(Exception, match="Size of sample #7 is invalid"):
        Corpus(cfg()).batches(range(29), [model])


@pytest.mark.parametrize("task", ["translation", "translation_double_token"])
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


def test_unknown_words_of_references_are_marked(cfg):
    """As in fairseq-generate: a hypothesis' own unknown words are no match for them."""
    data = Corpus(cfg())
    words = data.task.target_dictionary
    data.dataset.tgt = [torch.tensor([words.index("a"), words.unk(), words.eos()])]
    assert data.reference(0) == "a <<unk>>"
    assert data.target_tokens(data.dataset.tgt[0]) == "a <unk>"


def test_forced_prefixes(cfg):
    sample = {"target": torch.tensor([[4, 5, 6]])}
    for size in (1, 2):
        forced = Corpus(cfg("--prefix-size", size)).prefix(sample)
        assert forced.tolist() == [[4, 5][:size]]
    assert Corpus(cfg()).prefix(sample) is None


def test_an_ensemble_in_half_precision(cfg, baseline):
    configuration = cfg(path=f"{baseline}:{baseline}")
    configuration.common.fp16 = True
    models = load_models(configuration, Corpus(configuration).task)
    assert [next(model.parameters()).dtype for model in models] == [torch.float16] * 2


def test_models_are_ready_for_inference(cfg):
    configuration = cfg()
    data = Corpus(configuration)
    (model,) = load_models(configuration, data.task)
    assert not any(module.training for module in model.modules())
    assert data.task.only_decodes


def test_a_checkpoint_without_some_weight_is_no_model(cfg, baseline, tmp_path):
    state = torch.load(baseline, weights_only=True)
    del state["model"]["decoder.layers.0.fc1.weight"]
    path = tmp_path / "less.pt"
    torch.save(state, path)
    configuration = cfg(path=path)
    with pytest.raises(ValueError, match=f"--path {path}: cannot be loaded .*give a complete"):
        load_models(configuration, Corpus(configuration).task)


@pytest.mark.parametrize("there, cpu", [(True, False), (True, True), (False, False), (False, True)])
def test_a_gpu_is_used_unless_the_user_asks_for_the_cpu(monkeypatch, there, cpu):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(utils, "move_to_cuda", lambda batch: f"{batch} on a GPU")
    configuration = SimpleNamespace(common=SimpleNamespace(cpu=cpu))
    assert uses_cuda(configuration) is (there and not cpu)
    expected = "batch on a GPU" if there and not cpu else "batch"
    assert on_device("batch", configuration) == expected


def test_without_a_path_there_is_no_model(cfg):
    configuration = cfg()
    configuration.common_eval.path = None
    with pytest.raises(ValueError, match="--path: name the checkpoint"):
        load_models(configuration, None)


def test_the_best_hypothesis_of_each_sentence_is_the_translation():
    best, second = {"tokens": torch.tensor([4, 2])}, {"tokens": torch.tensor([5, 2])}
    asked = []

    def inference_step(*arguments, prefix_tokens):
        asked.append((*arguments, prefix_tokens))
        return [[best, second], [second]]

    task = SimpleNamespace(inference_step=inference_step)
    given = ("generator", ["model"], {"id": 0})
    assert best_translations(task, *given, prefix="forced") == [best["tokens"], second["tokens"]]
    assert asked == [(*given, "forced")]


def test_the_user_directory_is_imported(cfg, tmp_path):
    directory = tmp_path / "directory_of_a_user"
    directory.mkdir()
    (directory / "__init__.py").touch()
    configuration = cfg()
    configuration.common.user_dir = str(directory)
    Corpus(configuration)
    assert "directory_of_a_user" in sys.modules


def test_a_translation_is_its_tokens_and_their_text(cfg, monkeypatch):
    """Subwords are joined before the text is detokenised."""
    for name in ("bpe", "tokenizer"):
        decoder = SimpleNamespace(decode=lambda tokens, name=name: f"{name}({tokens})")
        monkeypatch.setattr(FairseqTask, f"build_{name}", lambda *_, decoder=decoder: decoder)
    assert Corpus(cfg()).translation("a b") == ("a b", "tokenizer(bpe(a b))")


class Loaded:
    """A model, and what was done to it."""

    def __init__(self):
        self.done = []

    def half(self):
        self.done.append("half")

    def cuda(self):
        self.done.append("cuda")

    def prepare_for_inference_(self, cfg):
        self.done.append(cfg)


@pytest.mark.parametrize("fp16, gpu", [(False, False), (True, False), (False, True), (True, True)])
def test_models_are_prepared_where_and_as_they_are_to_run(cfg, monkeypatch, fp16, gpu):
    models = [Loaded(), Loaded()]
    loading = iter(models)
    monkeypatch.setattr(
        checkpoint_utils, "load_model_ensemble", lambda *_, **__: ([next(loading)], None)
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    configuration = cfg(path="a.pt:b.pt")
    configuration.common.update(fp16=fp16, cpu=False)
    assert load_models(configuration, SimpleNamespace()) == models
    expected = [*["half"] * fp16, *["cuda"] * gpu, configuration]
    assert [model.done for model in models] == [expected, expected]


@pytest.mark.parametrize("error", [OSError("no a.pt there"), ValueError("a.pt is of a stranger")])
def test_an_error_that_names_its_file_stays(cfg, monkeypatch, error):
    with pytest.raises(type(error), match=f"^{error}$"):
        loaded_with(error, cfg, monkeypatch)


@pytest.mark.parametrize(
    "error, reason",
    [
        (OSError("disk"), "OSError: disk"),
        (KeyError("a.pt"), "KeyError: 'a.pt'"),
        (RuntimeError("a.pt is bad\nsay weights_only. Or"), "RuntimeError: a.pt is bad"),
        (RuntimeError("Bad. Say weights_only. Or\nnot"), "RuntimeError: Bad"),
    ],
)
def test_other_errors_are_told_in_a_line_with_the_file(cfg, monkeypatch, error, reason):
    """Without torch's advice to load the file unprotected."""
    expected = re.escape(f"--path a.pt: cannot be loaded ({reason}); give a complete checkpoint")
    with pytest.raises(ValueError, match=f"^{expected}"):
        loaded_with(error, cfg, monkeypatch)


def loaded_with(error, cfg, monkeypatch):
    def load(*_, **__):
        raise error

    monkeypatch.setattr(checkpoint_utils, "load_model_ensemble", load)
    load_models(cfg(path="a.pt"), SimpleNamespace())
