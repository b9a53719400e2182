"""How many workers a machine gets, and what they share."""

import functools

import pytest
import torch

from fairseq_fastdec.tools.translation import cores, machine
from fairseq_fastdec.tools.translation.worker import Place
from tests.tools.translation.doubles import Capitals


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(cores, "usable_cores", lambda: [0, 2, 1, 3])
    monkeypatch.setattr(cores, "cpu_quota", lambda: None)


@pytest.mark.parametrize(
    "n_workers, n_threads, places",
    [
        (None, 1, [Place(1, [cpu]) for cpu in (0, 2, 1, 3)]),
        (None, 2, [Place(2, [0, 2]), Place(2, [1, 3])]),
        (None, 3, [Place(3, None)]),
        (None, 9, [Place(9, None)]),
        (2, 1, [Place(1, None)] * 2),
        (6, 1, [Place(1, None)] * 6),
    ],
)
def test_places_on_the_processors(four_cores, n_workers, n_threads, places):
    assert machine.places_on_cpu(n_workers, n_threads) == places


@pytest.mark.parametrize("n_workers, devices", [(None, [0, 1]), (3, [0, 1, 0]), (1, [0])])
def test_places_on_gpus(monkeypatch, n_workers, devices):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    places = machine.places_on_gpus(n_workers, 1)
    assert [place.device for place in places] == devices


class Prepared(Capitals):
    made = []

    def __init__(self, directory):
        super().__init__(directory)
        self.made.append(self)
        self.n_threads = []

    def prepare(self):
        self.n_threads.append(torch.get_num_threads())


def test_models_are_loaded_and_prepared_once_on_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(Prepared, "made", [])
    load = functools.partial(Prepared, tmp_path)
    with machine.start_workers(load, False, 3, 1, None) as pool:
        assert len(pool.process_ids()) == 3
    assert [made.n_threads for made in Prepared.made] == [[1]]


def test_workers_of_gpus_load_for_themselves(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(machine, "Pool", lambda *given, **rest: started.append((given, rest)))
    machine.start_workers(functools.partial(Prepared, tmp_path), True, None, 1, None)
    (((places, load, store), rest),) = started
    assert len(places) == 2 and rest == {"forks": False} and store is None
