#!/usr/bin/env python3
"""Translate with slimt or bergamot, engines for the models of Firefox, and measure their speed.

    python3.10 -m venv engines && engines/bin/pip install slimt bergamot
    engines/bin/python examples/firefox/other_engines.py slimt models/en-pt text.en \\
        --output slimt.pt

Both have wheels up to Python 3.10 only, so this script needs nothing of this repository. They
translate the lines of a file at once, and then one by one. Two JSON lines have the seconds.

On import, both look for models on a server. This is left out.
"""

import argparse
import json
import os
import sys
import time
import types
from pathlib import Path

ROUNDS = 3
# Of the student's network; slimt does not read them from the model.
SLIMT = {"encoder_layers": 6, "decoder_layers": 2, "feed_forward_depth": 2, "num_heads": 8}
BERGAMOT = """\
relative-paths: false
models: [{model}]
vocabs: [{vocabulary}, {vocabulary}]
shortlist: [{shortlist}, false]
beam-size: 1
normalize: 1.0
word-penalty: 0
max-length-break: 128
mini-batch-words: 1024
max-length-factor: 2.0
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: int8shiftAlphaAll
"""


def main():
    """Translate, and print the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["slimt", "bergamot"])
    parser.add_argument("model", type=Path, help="the directory of a model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()
    sys.modules[f"{args.engine}.repository"] = without_server(f"{args.engine}.repository")
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])
    files = {
        "model": next(args.model.glob("model*.bin")),
        "vocabulary": next(args.model.glob("vocab*.spm")),
        "shortlist": next(args.model.glob("lex*.bin")),
    }
    translate = {"slimt": with_slimt, "bergamot": with_bergamot}[args.engine](files, args.threads)
    lines = args.text.read_text(encoding="utf-8").splitlines()
    found = translate(lines)
    args.output.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    print(json.dumps({"at once": seconds(lambda: translate(lines)), "lines": len(lines)}))
    print(json.dumps({"one by one": seconds(lambda: [translate([line]) for line in lines])}))


def seconds(function):
    """The times of several calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


def without_server(name):
    """A module in place of the one that downloads the list of models."""

    class Anything:
        def __init__(self, *arguments):
            pass

        def __getattr__(self, name):
            return Anything

    module = types.ModuleType(name)
    module.Aggregator = module.TranslateLocallyLike = Anything
    return module


def with_slimt(files, threads):
    """A function that translates lines."""
    import slimt

    config = slimt.Config()
    for name, value in {**SLIMT, "split_mode": "sentence"}.items():
        setattr(config, name, value)
    package = slimt.Package(**{name: str(path) for name, path in files.items()})
    service, model = slimt.Service(workers=threads), slimt.Model(config, package)
    return lambda lines: [response.target.text for response in service.translate(model, lines)]


def with_bergamot(files, threads):
    """A function that translates lines."""
    import bergamot

    service = bergamot.Service(bergamot.ServiceConfig(numWorkers=threads, cacheSize=0))
    model = service.modelFromConfig(BERGAMOT.format(**files))
    options = bergamot.ResponseOptions(qualityScores=False, alignment=False, HTML=False)

    def translate(lines):
        given = bergamot.VectorString(lines)
        return [response.target.text for response in service.translate(model, given, options)]

    return translate


if __name__ == "__main__":
    main()
