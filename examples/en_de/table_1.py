"""Table 1 of Stern et al. (2018) beside ours, in examples/RESULTS.md."""

from collections.abc import Iterable
from typing import Any

from examples.common import commands
from examples.common.table import mean, origins, signed, untitled, write_section
from examples.en_de.cells import ACCEPTANCE, SETTINGS, Cell

PAGE = commands.ROOT / "examples" / "RESULTS.md"
# The name of the section in the page.
SECTION = "table 1"
# BLEU / mean accepted block size of the paper, by k, in the order of SETTINGS.
THE_PAPER = {
    1: ("26.00 / 1.00", "26.41 / 1.00", "", ""),
    2: ("25.81 / 1.51", "26.52 / 1.55", "25.74 / 1.78", "26.58 / 1.88"),
    4: ("25.84 / 1.73", "26.31 / 1.85", "25.05 / 2.69", "26.36 / 3.27"),
    6: ("26.08 / 1.76", "26.26 / 1.90", "24.69 / 2.98", "26.18 / 4.18"),
    8: ("25.82 / 1.76", "26.25 / 1.91", "24.27 / 3.01", "26.11 / 4.69"),
    10: ("25.69 / 1.74", "26.34 / 1.90", "23.51 / 2.87", "25.60 / 4.95"),
}
# The same of the models "both" with other acceptances (section 7.1), in the order of ACCEPTANCE.
ACCEPTED = {
    2: ("26.58 / 1.88", "26.49 / 1.92", "26.41 / 1.93"),
    4: ("26.36 / 3.27", "26.22 / 3.47", "26.14 / 3.52"),
    6: ("26.18 / 4.18", "25.90 / 4.59", "25.56 / 4.69"),
    8: ("26.11 / 4.69", "25.71 / 5.34", "25.41 / 5.52"),
    10: ("25.60 / 4.95", "25.04 / 5.67", "24.68 / 5.91"),
}
THE_PAPERS = "the paper's figures"


def write(figures: list[dict[str, Any]]) -> None:
    """Write the section of the page."""
    write_section(PAGE, SECTION, section(figures))


def section(figures: list[dict[str, Any]]) -> str:
    """The tables of all figures, with where they are from."""
    with_heads = [row for row in figures if row["block_size"] > 1]
    accepted = [row for row in with_heads if SETTINGS[row["setting"]].fine_tuned]
    parts = [
        origins(figures),
        signed("BLEU / mean accepted block size"),
        untitled([*papers_rows(), *rows(figures, "setting", SETTINGS, acceptance="exact")]),
    ]
    if any(row["acceptance"] != "exact" for row in accepted):
        parts += [
            "Other ways to accept (section 5) with the models that were fine-tuned:",
            untitled([*papers_rows_of_acceptances(), *rows(accepted, "acceptance", ACCEPTANCE)]),
        ]
    return "\n\n".join(parts) + "\n"


def papers_rows() -> list[dict[str, str]]:
    """The paper's Table 1."""
    return [
        {"k": str(k), "heads": THE_PAPERS, **dict(zip(SETTINGS, cells))}
        for k, cells in THE_PAPER.items()
    ]


def papers_rows_of_acceptances() -> list[dict[str, str]]:
    """The paper's section 7.1."""
    missing = ("",) * (len(ACCEPTANCE) - 3)
    return [
        {
            "k": str(k),
            "heads": THE_PAPERS,
            "setting": "both",
            **dict(zip(ACCEPTANCE, (*cells, *missing))),
        }
        for k, cells in ACCEPTED.items()
    ]


def rows(
    figures: list[dict[str, Any]], field: str, columns: Iterable[str], **only: str
) -> list[dict[str, str]]:
    """A row for each k, heads and whatever else differs, ordered by k.

    Args:
        field: of a figure, which says its column.
        columns: its values.
        only: values of other fields.
    """
    lines: dict[tuple, dict[str, str]] = {}
    seeds: dict[tuple, list[dict[str, Any]]] = {}
    shown = ("heads", "block_size", "seed", field, *only)
    left = [name for name in Cell._fields if name not in shown]
    for row in sorted(figures, key=lambda row: row["block_size"]):
        if any(row[name] != value for name, value in only.items()):
            continue
        begins = {
            "k": str(row["block_size"]),
            "heads": f"ours, {row['heads'] or 'none'}",
            **{name: row[name] for name in left},
        }
        own = tuple(begins.values())
        cell = seeds.setdefault((own, row[field]), [])
        cell.append(row)
        line = lines.setdefault(own, {**begins, **dict.fromkeys(columns, "")})
        line[row[field]] = summary(cell)
    return list(lines.values())


def summary(seeds: list[dict[str, Any]]) -> str:
    """BLEU and mean block size of a cell; of several seeds, with standard deviations and number.

    A star marks BLEU that differs from the base's with each seed.
    """
    star = "*" if all(row["differs_from_base"] for row in seeds) else ""
    bleu, size = (mean([row[name] for row in seeds]) for name in ("bleu", "mean_block_size"))
    n_seeds = f" ({len(seeds)} seeds)" if len(seeds) > 1 else ""
    return f"{bleu}{star} / {size}{n_seeds}"
