"""A worker on the tiny model, and a contest that is over."""

import pytest

from benchmarks.compare.contest import Contest, Entry
from benchmarks.compare.measurement import Round
from benchmarks.compare.methods import Division, Method, Settings
from benchmarks.compare.worker import Worker
from fairseq_fastdec.tools.corpus import DecodedText
from tests.support.contests import METHODS, SETTINGS

REFERENCES = {0: "The quick brown fox jumps .", 1: "Over the lazy dog it goes ."}
ONE, TWO = Division(1, 2), Division(2, 1)


@pytest.fixture()
def worker(corpus, baseline, tmp_path):
    """A function that loads a method and its batches."""

    def load(spec, batch_size=1, dtype="fp32", sentences=None, path=baseline, n_workers=1):
        settings = Settings((str(corpus), "--path", str(path)), "cpu", dtype, n_workers, sentences)
        division = Division(n_workers, 1)
        loaded = Worker(Method.parse("x: " + spec), settings, division, tmp_path)
        loaded.warm_up(batch_size)
        return loaded

    return load


def rounds(seconds, texts=REFERENCES, latencies=(), **counts):
    translations = {number: DecodedText(text.lower(), text) for number, text in texts.items()}
    return [
        Round(s, 10, dict(enumerate(latencies)), translations=translations, **counts)
        for s in seconds
    ]


@pytest.fixture()
def contest():
    """Two batch sizes; a beam of 4 that agrees with nobody but its twin."""
    result = Contest(METHODS, "slow", SETTINGS, bar=None)
    result.references = REFERENCES
    other = {0: "Something else entirely , I think .", 1: REFERENCES[1]}
    counts = {"invocations": 5, "row_invocations": 8}
    result.entries = [
        Entry(METHODS[0], ONE, 1, 1, 100.0, 150.0, rounds([2.0, 4.0, 6.0], latencies=(0.5, 0.1))),
        Entry(METHODS[0], TWO, 1, 1, 100.0, 250.0, rounds([3.0, 5.0, 4.5], latencies=(0.9, 0.7))),
        Entry(METHODS[1], ONE, 1, 1, 100.0, 155.0, rounds([2.0, 2.0, 2.0], other, **counts)),
        Entry(METHODS[1], TWO, 1, 1, 100.0, 160.0, rounds([1.0, 1.0, 6.0], other, **counts)),
        Entry(METHODS[2], ONE, 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[3], ONE, 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[0], ONE, 8, 1, 100.0, 190.0, rounds([1.0, 1.0, 1.0])),
    ]
    result.left_out = {"absent": "is not installed"}
    return result
