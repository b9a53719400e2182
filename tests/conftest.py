"""One tiny corpus and two tiny models, trained once through fairseq's own commands."""

import gc
import multiprocessing
import os
import random
import shutil
import tempfile

# NumPy's threads wait for each other when tests of other processes use the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import HealthCheck, settings

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.tools.export import export
from tests.support import (
    aligned_models,
    command_line,
    composed_once,
    in_parallel,
    language_models,
    made_once,
    smoke,
)
from tests.support.words import write_words

# No test depends on the speed of the machine, which other programs may use.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")
torch.set_num_threads(1)
composed_once.install()
if not torch.cuda.is_available():
    # torch keeps each seed for accelerators, with a formatted stack, and fairseq sets one per step.
    torch.manual_seed = torch.default_generator.manual_seed
    torch.cuda.manual_seed = lambda seed: None
if "forkserver" in multiprocessing.get_all_start_methods():
    multiprocessing.set_forkserver_preload(["torch", "fairseq"])
# Commands in processes of their own: torch's threads wait without using a core that other tests
# need.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


# pytest-xdist, which is loaded earlier, is called after it.
@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Whole directories are tested by all cores."""
    in_parallel.use_all_cores(config)


def pytest_configure(config):
    """Make a directory for what all processes of the run share, unless they have one."""
    if made_once.OF_THE_RUN not in os.environ:
        place = os.environ[made_once.OF_THE_RUN] = tempfile.mkdtemp()
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))
        config.add_cleanup(lambda: os.environ.pop(made_once.OF_THE_RUN))


def pytest_collection_modifyitems(items):
    """Mark the tests of the smoke test, and begin with the longest tests.

    At the end, one process would run them while the others have nothing left to do.
    """
    for item in items:
        if item.nodeid.startswith(smoke.TESTS):
            item.add_marker(pytest.mark.smoke)
    items.sort(key=lambda item: item.get_closest_marker("sanitizers") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Garbage collection skips the modules of the tests, for which it takes half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def made():
    """A function of a name and of what fills a directory, once in all processes of the run."""
    return made_once.in_run


@pytest.fixture(scope="session")
def corpus(made):
    """Sentences of letters, to be reversed: a binarised data directory. Some are empty."""
    return made("corpus", binarise_letters) / "bin"


def binarise_letters(directory):
    draw = random.Random(0)
    for split, size in (("train", 600), ("valid", 30), ("test", 29)):
        lines = [
            [draw.choice("abcdefghij") for _ in range(draw.randint(1, 8))] for _ in range(size)
        ]
        if split == "test":
            lines[3], lines[7] = [], ["a"] * 30
        write_words(directory / f"{split}.en", lines)
        write_words(directory / f"{split}.de", [line[::-1] for line in lines])
    command_line.preprocess(
        "-s", "en", "-t", "de", "--joined-dictionary", "--destdir", directory / "bin",
        *(f for s in ("train", "valid", "test") for f in (f"--{s}pref", directory / s)),
    )  # fmt: skip


@pytest.fixture(scope="session")
def baseline(corpus, made):
    """A stock transformer trained with fairseq-train and the stock task."""

    def train(directory):
        command_line.train(
            corpus, directory, "--task", "translation", "--arch", "transformer",
            "--criterion", "label_smoothed_cross_entropy", updates=150,
        )  # fmt: skip

    return made("baseline", train) / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def blockwise(corpus, baseline, made):
    """Heads on the frozen baseline, warm-started as the README says."""

    def train(directory):
        command_line.train(
            corpus, directory, "--task", "translation", "--arch", "blockwise_transformer",
            "--block-size", 3, "--identity-first-head", "--freeze-base",
            "--finetune-from-model", baseline, "--criterion", "random_sub_loss",
            updates=60,
        )  # fmt: skip

    return made("blockwise", train) / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def aligned(made):
    """A function: the data and the checkpoint of a transformer_align, by options of training."""
    data = made("data with alignments", aligned_models.binarise) / "bin"

    def checkpoint(*options):
        name = " ".join(["aligned", *options])
        directory = made(name, lambda own: aligned_models.train(data, own, *options))
        return data, directory / "checkpoint_last.pt"

    return checkpoint


@pytest.fixture(scope="session")
def language_model(corpus, made):
    """The corpus with the dictionary of a language model of its targets, and the checkpoint."""
    place = made("language model", lambda own: language_models.train(corpus, own))
    return place / "bin", place / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def bundle(made):
    """A bundle of the bundled model."""

    def fill(directory):
        export(fairseq_fastdec.load(MODEL), directory / "model.fastdec")

    return made("bundle", fill) / "model.fastdec"


@pytest.fixture
def nothing_compiled(monkeypatch):
    """As where the package was installed without a compiler."""
    monkeypatch.setattr(loading, "library", lambda: None)
