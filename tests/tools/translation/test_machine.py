"""How many workers a machine gets, and what they share."""

import functools
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_fastdec import cores
from fairseq_fastdec.tools.command_line import to_config
from fairseq_fastdec.tools.translation import machine
from fairseq_fastdec.tools.translation.arguments import parse_args
from fairseq_fastdec.tools.translation.chunks import Chunk
from fairseq_fastdec.tools.translation.output_lines import OutputRules
from fairseq_fastdec.tools.translation.worker import ChunkTranslator, Done, Place
from tests.support import peak_memory, tiny
from tests.support.capitals import Capitals


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


@pytest.mark.parametrize(
    "positions, on_gpu, n_tokens",
    [(1024, False, 1024), (4096, False, 4096), (None, False, 1024), (1024, True, 12000)],
)
def test_how_much_is_decoded_at_once(monkeypatch, positions, on_gpu, n_tokens):
    monkeypatch.setattr(machine, "uses_cuda", lambda _: on_gpu)
    dataset = Namespace(max_tokens=None, batch_size=None)
    cfg = Namespace(task=Namespace(max_source_positions=positions), dataset=dataset)
    machine.limit_batches(cfg)
    assert cfg.dataset.max_tokens == n_tokens
    cfg.dataset = Namespace(max_tokens=None, batch_size=7)
    machine.limit_batches(cfg)
    assert cfg.dataset.max_tokens is None


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


def private_memory(process):
    """What a process alone has in memory, in MiB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    private = [line.split() for line in lines if line.startswith("Private_")]
    return sum(int(words[1]) for words in private if "Hugetlb" not in words[0]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc here: run it on Linux")
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_workers_share_the_weights(tmp_path, precision):
    """The model has 120 MiB; in int8 the weights take 30; workers have none of it."""
    for language in ("en", "de"):
        tiny.dictionary(peak_memory.WORDS).save(str(tmp_path / f"dict.{language}.txt"))
    peak_memory.write_checkpoint(tmp_path / "model.pt")
    args = parse_args(
        [str(tmp_path), "--path", str(tmp_path / "model.pt"), "--cpu", "-s", "en", "-t", "de"]
        + ["--input", "x", "--output", "y", "--decoding", "greedy", "--max-len-b", "5"]
        + ["--engine-precision", precision, "--batch-size", "4"]
    )
    load = functools.partial(ChunkTranslator, to_config(args), OutputRules())
    n_left = 6
    with machine.start_workers(load, False, 3, 1, None) as pool:
        while n_left or pool.is_busy:
            while n_left and pool.has_room:
                n_left -= 1
                pool.submit(Chunk(n_left, 0, b"a b c\nd\n" * 4))
            told = [message for _, message in pool.messages(60)]
            assert all(
                message.translated.counts == {"translated": 8}
                for message in told
                if isinstance(message, Done)
            )
        private = [private_memory(process) for process in pool.process_ids()]
    assert max(private) < 25
