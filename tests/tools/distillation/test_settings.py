"""The settings of a teacher."""

import shutil
from argparse import Namespace

import pytest
from fairseq import options, tasks

from fairseq_fastdec.tools.corpus import to_config
from fairseq_fastdec.tools.distillation import settings as settings_module
from fairseq_fastdec.tools.distillation.settings import settings_of
from tests.support.settings import assert_files_count_by_content


@pytest.fixture
def settings(corpus, baseline):
    """A function that gives the settings of a command line."""

    def make(*arguments, path=baseline, data=corpus):
        parser = options.get_generation_parser(default_task="translation")
        given = [data, "--path", path, "-s", "en", "-t", "de", *arguments]
        cfg = to_config(options.parse_args_and_arch(parser, list(map(str, given))))
        return settings_of(cfg, tasks.setup_task(cfg.task))

    return make


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
        ["--model-overrides", "{'x': 1}"],
    ],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_other_options_are_others(settings, arguments):
    assert settings(*arguments) != settings()


def test_files_count_by_their_content(settings, corpus, baseline, tmp_path):
    assert_files_count_by_content(settings, corpus, baseline, tmp_path)


@pytest.mark.parametrize(
    "positions, on_gpu, n_tokens",
    [(1024, False, 1024), (4096, False, 4096), (None, False, 1024), (1024, True, 12000)],
)
def test_how_much_is_decoded_at_once(monkeypatch, positions, on_gpu, n_tokens):
    monkeypatch.setattr(settings_module, "uses_cuda", lambda _: on_gpu)
    dataset = Namespace(max_tokens=None, batch_size=None)
    cfg = Namespace(task=Namespace(max_source_positions=positions), dataset=dataset)
    settings_module.limit_batches(cfg)
    assert cfg.dataset.max_tokens == n_tokens
    cfg.dataset = Namespace(max_tokens=None, batch_size=7)
    settings_module.limit_batches(cfg)
    assert cfg.dataset.max_tokens is None
