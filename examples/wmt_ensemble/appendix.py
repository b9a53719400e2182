"""Tables 3 to 5 of the streaming paper's appendix (Yang et al. 2020) beside ours."""

import statistics
from typing import NamedTuple, Optional

from examples.common.significance import differs
from examples.common.table import checksum, origins, shortened, signed, untitled
from examples.wmt_ensemble.methods import METHODS as TABLE_1
from examples.wmt_ensemble.methods import PAPERS_DELTA, WIDTHS, papers_search
from examples.wmt_ensemble.results import Run

# The name of the section in RESULTS.md.
SECTION = "streaming appendix"
WIDTH = max(WIDTHS)
# A delta and M that prune nothing.
UNPRUNED = (1e9, WIDTH)


class Paper(NamedTuple):
    """A row of the paper.

    Attributes:
        bleu: of FIXED; in other rows, the difference to it.
        time: relative to FIXED's.
        timesteps: ``None`` if the paper does not say.
        expansions: candidate expansions a step, likewise.
    """

    bleu: float
    time: float
    timesteps: Optional[int] = None
    expansions: Optional[int] = None


def streaming(*options: str, delta: float = PAPERS_DELTA, candidates: int = 5) -> list[str]:
    """The options of VAR-STREAM, with other values of some."""
    return ["--decoding", "streaming", *papers_search(WIDTH, delta, candidates), *options]


FIXED = "FIXED (fairseq's)"
# The options of each row, and the paper's row. Table 5 is of the paper's development set, Tables 3
# and 4 of its test set.
ROWS: dict[str, tuple[list[str], Optional[Paper]]] = {
    FIXED: (TABLE_1[f"fairseq --beam {WIDTH}"], Paper(42.71, 1, 6620, 599)),
    "FIXED (our `beam`)": (TABLE_1[f"beam {WIDTH}"], None),
    "FIXED-OURS": (
        ["--decoding", "variable_beam", *papers_search(WIDTH, *UNPRUNED)],
        Paper(0.18, 1280.59 / 891.53),
    ),
    "FIXED-STREAM": (
        ["--decoding", "streaming", *papers_search(WIDTH, *UNPRUNED)],
        Paper(0.18, 1004.18 / 891.53),
    ),
    "VAR-BATCH": (TABLE_1[f"variable_beam {WIDTH}"], Paper(0.02, 308.15 / 891.53, 2007)),
    "VAR-STREAM": (TABLE_1[f"streaming {WIDTH}"], Paper(0, 259.78 / 921.57, 2261, 288)),
    "VAR-STR-FIFO": (streaming("--stream-policy", "fifo"), Paper(0.02, 343.10 / 891.53, 1538)),
    "delta = 0.5": (streaming(delta=0.5), Paper(-0.22, 104.28 / 921.57, 860, 152)),
    "delta = 2.5": (streaming(delta=2.5), Paper(0.01, 558.71 / 921.57, 4325, 413)),
    "M = 3": (streaming(candidates=3), Paper(-0.01, 248.45 / 921.57, 2070, 302)),
    "M = 10": (streaming(candidates=10), Paper(0, 268.62 / 921.57, 2543, 258)),
    "eps = 1/12": (
        streaming("--refill-threshold", str(1 / 12)),
        Paper(0, 255.03 / 921.57, 2479, 263),
    ),
    "eps = 1/4": (streaming("--refill-threshold", "0.25"), Paper(0, 264.73 / 921.57, 2352, 277)),
}
METHODS = {title: options for title, (options, _) in ROWS.items()}


def section(runs: dict[str, list[Run]], reference: list[str]) -> str:
    """The table of all rounds of all methods, with where they are from.

    Args:
        reference: the references of all sentences.
    """
    rows = [row_of(title, rounds, runs[FIXED], reference) for title, rounds in runs.items()]
    dated = origins(run.origin for rounds in runs.values() for run in rounds)
    n_rounds = len(runs[FIXED])
    return f"{signed(f'{dated} · rounds: {n_rounds}')}\n\n{untitled(rows)}\n"


def row_of(title: str, rounds: list[Run], fixed: list[Run], reference: list[str]) -> dict[str, str]:
    """One line of the table."""
    first, base = rounds[0], fixed[0]
    time = statistics.median(own.seconds / other.seconds for own, other in zip(rounds, fixed))
    _, paper = ROWS[title]
    sign = "" if title == FIXED else "+"
    star = "*" * differs([first.translations], [base.translations], reference)
    return {
        "": title,
        "paper: BLEU": "" if paper is None else f"{paper.bleu:{sign}.2f}",
        "paper: time": "" if paper is None else f"{paper.time:.2f}",
        "paper: timesteps": written(paper and paper.timesteps),
        "paper: expansions a step": written(paper and paper.expansions),
        "ours: BLEU": f"{first.bleu - base.bleu * bool(sign):{sign}.2f}{star}",
        "ours: time": f"{time:.2f}",
        "ours: timesteps": written(first.timesteps),
        "ours: expansions a step": written(first.expansions),
        "outputs": shortened(checksum(first.translations)),
    }


def written(value: Optional[float]) -> str:
    """A number, or nothing."""
    return "" if value is None else f"{value:g}"
