"""What proposals cost and bring: the methods, the table, the picture."""

import argparse

import pytest

from benchmarks.compare.methods import check_methods
from examples.en_de import proposals as example
from tests.support import skips, small_base

ARGS = dict(sentences=3, rounds=1, threads=1)


def document():
    """A result in which an invocation of n tokens takes as long as n of greedy, less a tenth."""
    results = []
    for precision, unit in (("fp32", 2.0), ("int8", 1.0)):
        for n, name in enumerate(example.METHODS, start=1):
            seconds = unit if n == 1 else 0.9 * unit
            results.append(
                {
                    "method": f"{name}, {precision}", "sentences": 3, "seconds": [seconds] * 3,
                    "invocations": 1000 // n, "tokens_per_invocation": float(n),
                }
            )  # fmt: skip
    return {"settings": {"threads": 1}, "processor": "a processor", "results": results}


def test_the_methods_are_possible(tmp_path):
    n_layers, n_methods = 4, len(example.METHODS)
    args = argparse.Namespace(workdir=tmp_path, decoder_layers=n_layers, **ARGS)
    example.prepare(args)
    _, settings, methods = small_base.parsed(example.benchmark_command(args))
    assert len(methods) == n_methods * len(example.PRECISIONS)
    # Those of another precision have the same options.
    check_methods(settings, methods[: n_methods + 1])
    chain = next(method for method in methods if method.name == "chain of 3, fp32")
    translations, worker = small_base.decode(settings, chain, tmp_path)
    assert len(worker.runner.models[0].decoder.layers) == n_layers
    greedy, _ = small_base.decode(settings, methods[0], tmp_path)
    assert [own.text for own in translations] == [own.text for own in greedy]


def test_the_table():
    points = example.points_of(document())
    greedy, chain = points[0], points[2]
    assert greedy == (example.GREEDY, "fp32", 1.0, 2.0, 1.0)
    assert chain[:3] == ("chain of 1", "fp32", 2.0)
    assert chain.milliseconds == pytest.approx(3.6) and chain.times_as_fast == pytest.approx(
        1 / 0.9
    )
    lines = example.table(document(), points, 2).splitlines()
    assert len(lines) == 4 + len(example.METHODS)
    assert lines[5] == "| chain of 1 | 2.00 | 3.600 | 1.11x | 2.00 | 1.800 | 1.11x |"


def test_the_picture(tmp_path):
    skips.needs("matplotlib")
    from PIL import Image

    example.draw(example.points_of(document()), tmp_path / "proposals.png")
    with Image.open(tmp_path / "proposals.png") as picture:
        assert picture.width > picture.height > 500
