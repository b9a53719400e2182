#!/usr/bin/env python3
"""Compare blockwise and auto with greedy decoding of the bundled model, with its heads.

    python examples/engine/blockwise.py     # about ten minutes on 2 quiet cores

In fp32 and int8, at batch sizes 1 and 32, with one thread and with two. The methods take turns of
ten sentences, or one batch, so other programs on the machine slow down all of them. Each turn
counts with its median over the rounds.
"""

import argparse
import statistics
import time
from collections import defaultdict

import fairseq_fastdec
from examples.common.en_de import EN_DE, MODEL
from examples.common.engine_batches import EngineBatches
from examples.common.table import untitled
from examples.engine.base import PRECISIONS
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.translating.command_line import positive
from fairseq_fastdec.translating.translator import SentenceJob

BATCH_SIZES, THREADS = (1, 32), (1, 2)
METHODS = ("greedy", "blockwise", "auto")
# The sentences of a turn at batch size 1.
TURN = 10


@results_only()
def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=positive, default=320)
    parser.add_argument("--rounds", type=positive, default=7)
    args = parser.parse_args()
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[: args.sentences]
    loading.measured(max(THREADS))
    rows = []
    for precision, name in PRECISIONS.items():
        translator = fairseq_fastdec.load(MODEL, engine_precision=name)
        jobs = {
            method: [translator.job(line, {"decoding": method}) for line in lines]
            for method in METHODS
        }
        for batch_size in BATCH_SIZES:
            for n_threads in THREADS:
                seconds = times_of(jobs, batch_size, n_threads, args.rounds)
                rows.append(
                    {
                        "precision": precision,
                        "batch size": str(batch_size),
                        "threads": str(n_threads),
                        **{own: f"{seconds['greedy'] / seconds[own]:.2f}x" for own in METHODS[1:]},
                    }
                )
                print(rows[-1], flush=True)
    print("\n" + untitled(rows))


def times_of(
    jobs: dict[str, list[SentenceJob]], batch_size: int, n_threads: int, n_rounds: int
) -> dict[str, float]:
    """The seconds in which each method decodes all sentences.

    Args:
        jobs: the sentences, for each method.
    """
    # A batch has sentences of similar length.
    order = sorted(range(len(jobs["greedy"])), key=lambda i: len(jobs["greedy"][i].sentence.tokens))
    numbers = list(range(len(order))) if batch_size == 1 else order
    n = TURN if batch_size == 1 else batch_size
    turns = [numbers[at : at + n] for at in range(0, len(numbers), n)]
    decode = {method: EngineBatches(own[0].recipe, n_threads) for method, own in jobs.items()}
    taken: dict[tuple[str, int], list[float]] = defaultdict(list)
    # The first round is not counted: it allocates memory, and measures proposals for later rounds.
    for round_number in range(1 + n_rounds):
        for number, turn in enumerate(turns):
            for method, own in jobs.items():
                begin = time.perf_counter()
                for at in range(0, len(turn), batch_size):
                    decode[method]([own[i] for i in turn[at : at + batch_size]])
                if round_number:
                    taken[method, number].append(time.perf_counter() - begin)
    seconds = dict.fromkeys(jobs, 0.0)
    for (method, _), of_turn in taken.items():
        seconds[method] += statistics.median(of_turn)
    return seconds


if __name__ == "__main__":
    main()
