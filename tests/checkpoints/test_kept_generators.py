"""Generators are built once for each set of options, and serve one call at a time."""

from argparse import Namespace

import pytest
import torch

from fairseq_fastdec.checkpoints import kept_generators
from fairseq_fastdec.checkpoints.kept_generators import KeptGenerators, key_of
from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.trained_models import TASK


@pytest.fixture(scope="module")
def model():
    return tiny.build_model(TASK)


@pytest.fixture
def build(model):
    """A function that builds a generator, and the list of those that it has built."""

    def build_one(decoding="greedy", stats=None, **args):
        options = DecodingOptions(decoding=decoding, decoding_stats=stats)
        found = build_generator([model], TASK.target_dictionary, Namespace(beam=1, **args), options)
        build_one.built.append(found)
        return found

    build_one.built = []
    return build_one


def test_a_generator_is_built_once(build):
    kept = KeptGenerators()
    for _ in range(3):
        with kept.lent("a", build) as generator:
            assert generator is build.built[0]
    with kept.lent("b", build) as generator:
        assert generator is build.built[1]
    with kept.lent("a", build) as generator:
        assert generator is build.built[0]


def test_calls_at_once_have_a_generator_each(build, monkeypatch):
    monkeypatch.setattr(kept_generators.TURNS, "_value", 2 * torch.get_num_threads())
    kept = KeptGenerators()
    with kept.lent("a", build) as first, kept.lent("a", build) as second:
        assert first is not second
    with kept.lent("a", build), kept.lent("a", build):
        pass
    assert len(build.built) == 2


def test_few_idle_generators_are_kept(build, monkeypatch):
    monkeypatch.setattr(kept_generators, "MOST_IDLE", 2)
    kept = KeptGenerators()
    for key in ("a", "b", "a", "c", "a"):
        with kept.lent(key, build):
            pass
    assert len(build.built) == 3
    with kept.lent("b", build):
        pass
    assert len(build.built) == 4


def test_options_without_generators_are_forgotten(build, monkeypatch):
    monkeypatch.setattr(kept_generators.TURNS, "_value", 2 * torch.get_num_threads())
    monkeypatch.setattr(kept_generators, "MOST_IDLE", 2)
    kept = KeptGenerators()
    with kept.lent("used", build) as used:
        for key in range(9):
            with kept.lent(key, build):
                pass
        assert len(kept._idle) == 3
    with kept.lent("used", build) as again:
        assert again is used


def test_a_generator_is_dropped_after_an_error(build):
    kept = KeptGenerators()
    with pytest.raises(KeyError), kept.lent("a", build):
        raise KeyError
    with kept.lent("a", build):
        pass
    assert len(build.built) == 2


def test_an_error_of_building_leaves_its_turn(build):
    kept = KeptGenerators()
    for _ in range(3):
        with pytest.raises(ValueError, match="--lookahead"), kept.lent("a", _raise):
            pass
    with kept.lent("a", build):
        pass


def _raise():
    raise ValueError("--lookahead-window")


def test_calls_that_depend_on_each_other_share_nothing(build, tmp_path):
    """One draws its seed when it is built, one empties its file, and one is fairseq's."""
    makers = (
        lambda: build("beam", sampling=True),
        lambda: build(stats=str(tmp_path / "stats")),
        lambda: build.built.append(object()),
    )
    for make in makers:
        kept = KeptGenerators()
        for _ in range(2):
            with kept.lent("a", make):
                pass
    kept = KeptGenerators()
    for _ in range(2):
        with kept.lent(None, build):
            pass
    assert len(build.built) == 8


def test_keys():
    assert key_of({"beam": 1, "lenpen": 0.5}) == key_of({"lenpen": 0.5, "beam": 1})
    assert key_of({"beam": 1}) != key_of({"beam": True})
    assert key_of({"beam": []}) is None
