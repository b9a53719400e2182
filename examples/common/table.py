"""Tables of methods, from the output files of fairseq-generate."""

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from benchmarks.compare.scoring import Scorer
from fairseq_fastdec.data import atomic_files

SCORER = Scorer()

COLUMNS = (
    "model",
    "method",
    "BLEU",
    "decoder invocations",
    "tokens per invocation",
    "seconds",
    "speed-up",
    "identical sentences",
    "outputs",
)
SENTENCE_MARKS = ("S-", "T-", "H-", "D-", "P-")


@dataclass
class Run:
    """One run of fairseq-generate."""

    model: str
    method: str
    bleu: float
    seconds: float
    tokens: int
    invocations: int
    hypotheses: dict[int, str]  # tokens, by sentence number
    translations: dict[int, str]  # detokenised text


def read_run(output: Path, model: str, method: str, text: Optional[Path] = None) -> Run:
    """Read the output of fairseq-generate and ``--decoding-stats`` in ``output``.

    Args:
        text: the original references, one per line (default: fairseq's detokenised targets, which
            may differ from them).
    """
    results = (output / "generate-test.txt").read_text(encoding="utf-8")
    translations, references = read_texts(results, text)
    n_tokens, seconds = tokens_and_seconds(output)
    records = [json.loads(line) for line in read_lines(output / "stats.jsonl")]
    # fairseq's generator calls the decoder once per token of a single sentence.
    invocations = sum(record["invocations"] for record in records) if records else n_tokens
    return Run(
        model=model,
        method=method,
        # Not fairseq's line "Generate test with ...": its default --scoring counts subwords.
        bleu=SCORER.score(translations, references),
        seconds=seconds,
        tokens=n_tokens,
        invocations=invocations,
        hypotheses=numbered(r"H-(\d+)\t[^\t\n]*", results),
        translations=translations,
    )


def read_texts(results: str, text: Optional[Path] = None) -> tuple[dict[int, str], dict[int, str]]:
    """Detokenised translations and references by number, from fairseq-generate's output.

    Args:
        text: see :func:`read_run`.
    """
    references = numbered(r"T-(\d+)", results)
    if text is not None:
        lines = text.read_text(encoding="utf-8").split("\n")
        references = {number: lines[number] for number in references}
    return numbered(r"D-(\d+)\t[^\t\n]*", results), references


def numbered(mark: str, results: str) -> dict[int, str]:
    """The texts after a mark of fairseq-generate, such as ``T-17``, by sentence number."""
    found = re.findall(rf"(?m)^{mark}\t(.*)$", results)
    return {int(number): text for number, text in found}


def checksum(translations: Mapping[int, str]) -> str:
    """The SHA-256 of translations in the order of their numbers, one per line."""
    text = "\n".join(translations[number] for number in sorted(translations))
    return hashlib.sha256(text.encode()).hexdigest()


def shortened(sha256: str) -> str:
    """The first digits of a checksum, for tables."""
    return f"`{sha256[:8]}`"


def mean_block_size(output: Path) -> float:
    """The mean block size in a run with ``--decoding-stats``; 1 for greedy decoding."""
    sentences = [json.loads(line) for line in read_lines(output / "stats.jsonl")]
    blocks = [size for sentence in sentences for size in sentence["blocks"]]
    return sum(blocks) / len(blocks) if blocks else 1.0


def tokens_and_seconds(output: Path) -> tuple[int, float]:
    """The number of tokens of fairseq-generate's output, and the seconds of the search."""
    numbers = re.search(r"\(([\d,]+) tokens\) in .* ([\d.]+) tokens/s", translated_line(output))
    tokens, tokens_per_second = numbers.groups()
    n_tokens = int(tokens.replace(",", ""))
    # Computed from the rate, since fairseq rounds the seconds to tenths.
    return n_tokens, n_tokens / float(tokens_per_second)


def translated_line(output: Path) -> str:
    """fairseq-generate's line about its speed, without start-up and data loading."""
    for line in log_lines(output):
        if "Translated " in line and " tokens/s)" in line and line[:2] not in SENTENCE_MARKS:
            return line[line.index("Translated ") :]
    raise ValueError(f"{output}: fairseq-generate wrote no line of its speed")


def log_lines(output: Path) -> list[str]:
    """The lines of fairseq-generate, whose versions log to different files."""
    return read_lines(output / "log.txt") + read_lines(output / "generate-test.txt")


def read_lines(path: Path) -> list[str]:
    """The lines of a file; empty if it does not exist."""
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def show_table(work: Path, runs: list[Run], title: str) -> None:
    """Print the table, and write it as Markdown and JSON."""
    rows = [row_of(group, reference_of(group, runs)) for group in grouped(runs)]
    title += (
        ". Speed-up and identical sentences: against fairseq --beam 1\n"
        "on the same model (for frozen heads, the baseline); medians of alternating rounds."
    )
    text = markdown(signed(title), rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")
    texts = ("hypotheses", "translations")
    summary = [{k: v for k, v in asdict(run).items() if k not in texts} for run in runs]
    atomic_files.write_text(work / "table.json", json.dumps(summary, indent=1))


def signed(title: str, references: str = "the raw text of the references") -> str:
    """The title of a table with BLEU scores, with the signature of sacrebleu."""
    return f"{title}\nBLEU: sacrebleu's, against {references}, `{SCORER.signature}`"


def markdown(title: str, rows: list[dict[str, str]]) -> str:
    """A Markdown table with a title."""
    return f"{title}\n\n{untitled(rows)}"


def untitled(rows: list[dict[str, str]]) -> str:
    """A Markdown table of rows with the same columns."""
    lines = [
        "| " + " | ".join(rows[0]) + " |",
        "|" + "---|" * len(rows[0]),
        *("| " + " | ".join(row.values()) + " |" for row in rows),
    ]
    return "\n".join(lines)


def mean(values: list[float], digits: int = 2, sign: str = "") -> str:
    """The mean, with the standard deviation if there are several values.

    Args:
        sign: ``"+"`` for differences.
    """
    written = f"{statistics.mean(values):{sign}.{digits}f}"
    return written if len(values) == 1 else f"{written} ± {statistics.stdev(values):.{digits}f}"


def between_marks(page: str, name: str, text: str) -> str:
    """A page with a text between ``<!-- NAME -->`` and ``<!-- end of NAME -->``."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    inside = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    return inside.sub(lambda _: begin + text + end, page)


def write_section(page: Path, name: str, text: str) -> None:
    """Write a text between the marks of a page, see :func:`between_marks`."""
    whole = page.read_text(encoding="utf-8")
    atomic_files.write_text(page, between_marks(whole, name, text))


def distinct(rows: Iterable[dict[str, Any]], *names: str) -> list[str]:
    """For each name, the different values of all rows, in order."""
    rows = list(rows)
    return [", ".join(dict.fromkeys(str(row[name]) for row in rows)) for name in names]


def origins(rows: Iterable[dict[str, Any]]) -> str:
    """Where all rows are from, in one line."""
    dates, commits, processors = distinct(rows, "date", "commit", "processor")
    return f"{dates} · {processors} · commit {commits}"


def grouped(runs: list[Run]) -> list[list[Run]]:
    """The runs grouped by model and method, in order of appearance."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault((run.model, run.method), []).append(run)
    return list(groups.values())


def reference_of(group: list[Run], runs: list[Run]) -> list[Run]:
    """fairseq's rounds with the same model; for frozen heads, with the baseline."""
    model = "baseline" if group[0].model == "frozen" else group[0].model
    return next(g for g in grouped(runs) if g[0].model == model)


def row_of(group: list[Run], reference: list[Run]) -> dict[str, str]:
    """One line of the table."""
    run = group[0]
    rounds = zip(group, reference)
    speed_up = statistics.median(theirs.seconds / own.seconds for own, theirs in rounds)
    same = sum(text == reference[0].hypotheses[i] for i, text in run.hypotheses.items())
    values = (
        run.model,
        run.method,
        f"{run.bleu:.2f}",
        str(run.invocations),
        f"{run.tokens / run.invocations:.2f}",
        f"{statistics.median(r.seconds for r in group):.1f}",
        f"{speed_up:.2f}x",
        f"{same} of {len(run.hypotheses)}",
        shortened(checksum(run.translations)),
    )
    return dict(zip(COLUMNS, values))
