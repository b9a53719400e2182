"""The speeds that the papers measured on a GPU, beside ours, in examples/RESULTS.md."""

from typing import Any, NamedTuple, Optional

from examples.common import commands
from examples.common.table import untitled

from .results import Results, origins
from .rows import BUNDLED, Row

PAGE = commands.ROOT / "examples" / "RESULTS.md"
NOT_YET = "Not measured yet: no method has been run on a GPU.\n"


class Claim(NamedTuple):
    """A speed of a paper.

    Attributes:
        table: where it is in the paper.
        what: the method, and the search to which it is compared.
        speed: the paper's, the time of the other search divided by the method's.
        row: ours.
        other: the row of the other search; ``None`` for fairseq's with the same beam size.
    """

    table: str
    what: str
    speed: str
    row: Row
    other: Optional[Row] = None


SINGLE = Row(BUNDLED, "fp32", 1, "greedy")
BATCH = Row(BUNDLED, "fp32", 32, "beam 5")
PAIRS = Row("base", "fp16", 32, "double_token 5")
CLAIMS = (
    Claim(
        "Stern et al., Figure 4", "blockwise, to greedy (4.69 tokens a step)", "3.3x",
        SINGLE._replace(method="blockwise"), SINGLE,
    ),
    Claim(
        "Santilli et al., Table 6", "PJ, to greedy", "0.88x",
        SINGLE._replace(method="jacobi"), SINGLE,
    ),
    Claim(
        "Santilli et al., Table 6", "PGJ, to greedy", "1.06x",
        SINGLE._replace(method="gs_jacobi"), SINGLE,
    ),
    Claim(
        "Yang et al., Table 1", "VAR-BATCH, to FIXED (k = 5)", "0.90x",
        BATCH._replace(method="variable_beam 5"),
    ),
    Claim(
        "Yang et al., Table 1", "VAR-STREAM, to FIXED (k = 5)", "1.11x",
        BATCH._replace(method="streaming 5"),
    ),
    Claim(
        "Yang et al., Table 1", "VAR-BATCH, to FIXED (k = 50)", "3.21x",
        BATCH._replace(method="variable_beam 50"),
    ),
    Claim(
        "Yang et al., Table 1", "VAR-STREAM, to FIXED (k = 50)", "3.42x",
        BATCH._replace(method="streaming 50"),
    ),
    Claim(
        "Imamura and Sumita, Table 2", "double-token bidirectional, to single-token", "1.13x",
        PAIRS, PAIRS._replace(method="beam 5"),
    ),
)  # fmt: skip


def section(results: Optional[Results]) -> str:
    """The section of examples/RESULTS.md.

    Args:
        results: ``None`` if nothing has been measured on a GPU.

    Raises:
        ValueError: for rows of a CPU.
    """
    if results is None:
        return NOT_YET
    lines = [
        {
            "paper": claim.table,
            "method": claim.what,
            "the paper": claim.speed,
            "ours": speed(results.rows, claim),
            "our model, precision, batch": ", ".join(map(str, claim.row[:3])),
        }
        for claim in CLAIMS
    ]
    return f"{origins(results)}\n\n{untitled(lines)}\n"


def speed(rows: dict[str, dict[str, Any]], claim: Claim) -> str:
    """Our speed; empty if a row is missing or has failed."""
    to_fairseq = [
        rows[row.name]["ratio"]
        for row in (claim.row, claim.other)
        if row is not None and "ratio" in rows.get(row.name, {})
    ]
    if len(to_fairseq) < 1 + (claim.other is not None):
        return ""
    ratio, *others = to_fairseq
    return f"{ratio / others[0] if others else ratio:.2f}x"
