"""The beam searches of the streaming paper (Yang et al. 2020), as options of fairseq-generate."""

WIDTHS = (5, 50)
# The paper's delta, and those that run.py --small tries.
PAPERS_DELTA = 1.5
DELTAS = (PAPERS_DELTA, 2, 2.5, 3, 4, 5, 7)


def papers_search(width: int, delta: float = PAPERS_DELTA, candidates: int = 5) -> list[str]:
    """The options of the paper's search, with its delta and M."""
    return [
        "--beam", str(width), "--prune-threshold", str(delta), "--max-candidates", str(candidates),
        "--finalize", "paper",
    ]  # fmt: skip


def pruned(width: int, delta: float = PAPERS_DELTA) -> dict[str, list[str]]:
    """The paper's search batch by batch and with refilled batches."""
    suffix = f", delta {delta:g}" * (delta != PAPERS_DELTA)
    return {
        f"{name} {width}{suffix}": ["--decoding", name, *papers_search(width, delta)]
        for name in ("variable_beam", "streaming")
    }


def fixed(width: int) -> dict[str, list[str]]:
    """Beam searches of a fixed width by fairseq and this package."""
    beam = ["--beam", str(width)]
    return {
        f"fairseq --beam {width}": ["--decoding", "fairseq", *beam],
        f"beam {width}": ["--decoding", "beam", *beam],
    }


METHODS = {
    "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
    "greedy": ["--decoding", "greedy", "--beam", "1"],
    **{name: own for width in WIDTHS for name, own in {**fixed(width), **pruned(width)}.items()},
}


def fixed_of(method: list[str]) -> str:
    """The name of the paper's FIXED for a method: fairseq's search with the same beam.

    Greedy decoding is compared with the widest.
    """
    width = int(method[method.index("--beam") + 1])
    return f"fairseq --beam {width if width > 1 else max(WIDTHS)}"
