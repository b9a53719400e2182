"""Which runs of the tests take all cores, and what their processes share."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import in_parallel, made_once, skips
from tests.support.at_once import at_once

HERE = Path(__file__).resolve().parent
# pytest's own, where nothing is given.
DEFAULTS = dict(
    capture="fd", keyword="", lf=False, stepwise=False, usepdb=False, trace=False,
    collectonly=False, numprocesses=None, dist="no", tx=[],
)  # fmt: skip


@pytest.fixture
def started(monkeypatch):
    """A function of arguments and options; returns what pytest-xdist reads then."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(in_parallel, "_cores", lambda: 20)

    def start(*args, plugins=("xdist",), **options):
        config = SimpleNamespace(
            option=SimpleNamespace(**{**DEFAULTS, **options}),
            pluginmanager=SimpleNamespace(hasplugin=lambda name: name in plugins),
            invocation_params=SimpleNamespace(dir=HERE.parent),
            args=list(args),
        )
        in_parallel.use_all_cores(config)
        return config.option

    return start


@pytest.mark.parametrize("args", [["tests"], [str(HERE)], ["tests/engine", "tests/data"]])
def test_directories_take_all_cores(started, args):
    option = started(*args)
    assert (option.numprocesses, option.dist) == (in_parallel.MOST_PROCESSES, "worksteal")
    assert os.environ["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    "args, options",
    [
        (["tests/test_style.py"], {}),
        (["tests/data", "tests/test_style.py::test_style"], {}),
        (["tests"], dict(keyword="beam")),
        (["tests"], dict(lf=True)),
        (["tests"], dict(capture="no")),
        (["tests"], dict(usepdb=True)),
        (["tests"], dict(plugins=())),
    ],
)
def test_a_few_tests_and_debuggers_stay_in_one_process(started, args, options):
    assert started(*args, **options).numprocesses is None
    assert "OMP_NUM_THREADS" not in os.environ


@pytest.mark.parametrize("given", [dict(numprocesses=0), dict(dist="each", tx=["popen"])])
def test_what_is_given_is_not_changed(started, given):
    assert vars(started("tests", **given)) == {**DEFAULTS, **given}


def test_threads_that_are_given_stay(started, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    started("tests")
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_this_run_has_these_options(pytestconfig):
    """They are pytest's and pytest-xdist's own names; others would be asked for in vain."""
    skips.needs("xdist")
    assert all(hasattr(pytestconfig.option, name) for name in set(DEFAULTS) - {"lf", "stepwise"})


def test_a_directory_is_filled_once(tmp_path):
    filled = []

    def fill(directory):
        filled.append(directory)
        (directory / "file").write_text(str(len(filled)))

    places = [made_once.directory(tmp_path, "name", fill) for _ in range(2)]
    assert places[0] == places[1] == tmp_path / "name" and len(filled) == 1
    assert (places[0] / "file").read_text() == "1"


def test_after_an_error_it_is_filled_again(tmp_path):
    def fail(directory):
        (directory / "half").touch()
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        made_once.directory(tmp_path, "name", fail)
    place = made_once.directory(tmp_path, "name", lambda directory: (directory / "own").touch())
    assert [path.name for path in place.iterdir()] == ["own"]


def test_another_process_waits(tmp_path):
    """The directory is not seen before it is full."""

    def fill(directory):
        for number in range(50):
            (directory / str(number)).touch()

    def count():
        return len(list(made_once.directory(tmp_path, "name", fill).iterdir()))

    assert at_once(count, count) == [50, 50]
