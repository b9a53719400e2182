"""The example of double-token decoding: tiny models through all its stages, and its tables."""

import json
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options

from examples.common import en_de, significance
from examples.common.table import Run, checksum, shortened
from examples.common.training_text import read
from examples.double_token import comparison, models, table_2, table_3
from examples.double_token import run as example
from tests.support import command_line, example_in_process

LOSS = ["--dropout", "0", *en_de.CROSS_ENTROPY]


@pytest.fixture
def small(corpus, blockwise, tmp_path, monkeypatch, caplog):
    """The example on the tiny corpus, its commands in this process; returns what was run."""
    example_in_process.cross_letters(example, monkeypatch)
    monkeypatch.setattr(example, "TRAINING", [*en_de.schedule(100, 3e-3, 5, 12), *LOSS])
    monkeypatch.setattr(example, "UPDATES", 12)
    monkeypatch.setattr(example, "TEACHER", blockwise)
    monkeypatch.setattr(example, "SETTINGS", ((4, 8), (1, 1)))
    monkeypatch.setattr(table_2, "BATCH_SIZE", 8)
    monkeypatch.setattr(table_2, "BEAM", 4)
    monkeypatch.setattr(table_2, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(table_2, "PAGE", tmp_path / "page.md")
    sections = (table_2.SECTION, table_3.SECTION)
    marks = [f"<!-- {section} -->\n<!-- end of {section} -->\n" for section in sections]
    (tmp_path / "page.md").write_text("".join(marks), encoding="utf-8")
    monkeypatch.setattr(table_3, "LONGER_THAN", 7)
    # Most of the time would be spent on them; test_table_2_of_two_seeds has more.
    monkeypatch.setattr(significance, "TRIALS", 100)
    arguments = ["run.py", "--workdir", str(tmp_path), "--rounds", "1", "--seeds", "1", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    return example_in_process.on_letters(corpus, monkeypatch, caplog, "train.en", "test.de")


def lines_of(table):
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines]


def rows(table):
    """The cells of a Markdown table, without its head."""
    return lines_of(table)[2:]


def cells(table):
    """The rows by their first cell; each is a dict of its cells."""
    head = lines_of(table)[0]
    return {row[0]: dict(zip(head, row)) for row in rows(table)}


def test_all_stages(small, tmp_path, capsys):
    example.main()
    n_models, n_methods = len(example.MODELS), len(example.METHODS)
    assert small.count("fairseq-train") == 2 * n_models == 14
    assert small.count("fairseq-generate") == 2 * 2 * n_methods
    own, sources = (read(tmp_path / name / "text/train.en") for name in ("data", "sources"))
    assert len(sources) == len(set(own)) + 40

    def weight(model):
        checkpoint = torch.load(tmp_path / model / "averaged.pt", weights_only=True)
        return checkpoint["model"]["encoder.layers.0.fc1.weight"]

    assert not torch.equal(weight("double_l2r-1"), weight("double_l2r-2"))
    # So few updates leave a model close to where it began.
    start = weight("single_l2r-2")
    for model, near in (
        ("longer_l2r-2", True),
        ("double_after_l2r-2", True),
        ("double_l2r-2", False),
    ):
        assert ((weight(model) - start).norm() < 0.5 * start.norm()) == near

    printed = capsys.readouterr().out
    titles = [method.title for method in example.METHODS]
    for seed in (1, 2):
        tables = (tmp_path / f"tables-{seed}.md").read_text(encoding="utf-8").split("\n\n")
        assert all(part in printed for part in tables)
        for table in (cells(tables[1]), cells(tables[3])):
            assert list(table) == titles
            baseline = table["Single-token L2R"]
            assert (baseline["speed ratio"], baseline["ratio of steps"]) == ("1.00x", "1.00")
            assert table["Single-token L2R, by fairseq"]["steps per sentence"] == "-"
        (folder,) = tmp_path.glob(f"decoded/Double-token-bidir-proposed*-{seed}-beam-1-*")
        output = (folder / "generate-test.txt").read_text(encoding="utf-8")
        lengths = [len(text.split()) for text in command_line.hypotheses(output).values()]
        steps = sum(length // 2 + 1 for length in lengths) / len(lengths)
        assert cells(tables[3])[models.PROPOSED]["steps per sentence"] == f"{steps:.1f}"
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    lines = {line.split(" | ")[0].strip("| "): line for line in page.splitlines()}
    for title in titles:
        assert lines[title].startswith(f"| {title} | 2 | ")
        assert "±" in lines[title]
    ends = ["∞ ∞", "5 0", "10 0", "15 0", "0 5", "0 10", "0 15"]
    assert [" ".join(row[:2]) for row in rows(page)[-7:]] == ends

    before = len(small)
    example.main()
    assert len(small) == before


def test_every_command_parses():
    """Every option of every model exists, with a value that it takes."""
    for model in example.MODELS:
        command = example.training_command(Path("work"), en_de.BUNDLED, model.of_seed(7))
        parser = options.get_training_parser()
        args = options.parse_args_and_arch(parser, [str(word) for word in command[1:]])
        assert (args.token_order, args.tokens_per_step) == (
            model.token_order,
            model.tokens_per_step,
        )
        assert args.save_dir == f"work/{model.name}-7" and args.seed == 7
        first = args.max_update[0] if isinstance(args.max_update, list) else args.max_update
        assert first - args.validate_after_updates == 10 * args.save_interval_updates
        assert args.keep_interval_updates == 10
        begins_with = model.begins_with and f"work/{model.begins_with.name}-7/averaged.pt"
        assert args.finetune_from_model == begins_with


# --- the tables ----------------------------------------------------------------------------------


def test_precision_at_the_ends(monkeypatch):
    """Long references only; both sides are cut; what is found too often does not count."""
    references = dict(enumerate(["a b c d e f g h i j", "too short", "a a b b c c d d e e"]))
    baseline = {0: "a b c d x x x x x x", 1: "too short", 2: "a a a a a e e"}
    monkeypatch.setattr(table_3, "LONGER_THAN", 9)

    def of(hypotheses):
        found = table_3.precisions(hypotheses, references)
        assert found["sentences"] == 2
        return [dict(zip(table_3.ENDS, row)) for row in found["precision"]]

    words, fours = of(baseline)
    # 4 + 2 a + 2 e of 17 tokens; of 7 + 4 four-grams only "a b c d".
    assert (words[None, None], fours[None, None]) == (round(8 / 17, 5), round(1 / 11, 5))
    # a b c d and a a of ten tokens; the right ends share e e alone.
    assert (words[5, 0], fours[5, 0], words[0, 5], fours[0, 5]) == (0.6, 0.25, 0.2, 0)
    assert all(value == 1 for row in of(references) for value in row.values())
    monkeypatch.setattr(table_3, "LONGER_THAN", 10)
    assert table_3.precisions(baseline, references) == {
        "sentences": 0,
        "precision": [[0.0] * 7] * 2,
    }


def test_table_3_has_the_differences_of_seeds():
    def row(method, *values):
        seeds = [
            {"date": "today", "commit": "c", "processor": "p", "sentences": 9}
            | {"precision": [[value] * 7, [value / 2] * 7]}
            for value in values
        ]
        return {"method": method, "beam": 10, "seeds": seeds}

    figures = [row(models.BASELINE, 0.5, 0.6), row(models.PROPOSED, 0.52, 0.61)]
    figures += [{"method": "Double-token L2R", "beam": 10, "seeds": [{"seed": 1}]}]
    table = table_3.section(figures)
    assert "9 sentences" in table and "over seeds (2)" in table
    first = rows(table)[0]
    assert first == ["∞", "∞", "59.8% (+0.1%)", "55.0% (+1.5 ± 0.7%)", "18.9% (-0.7%)"] + [
        "27.5% (+0.8 ± 0.4%)"
    ]
    one = [dict(row, seeds=row["seeds"][:1]) for row in figures]
    assert rows(table_3.section(one))[6][3] == "50.0% (+2.0%)"


@pytest.fixture
def decoded(tmp_path):
    """Builds a run; those of fairseq's beam search have no statistics."""
    for name in ("ours", "fairseq"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "finished").write_text('{"date": "today"}', encoding="utf-8")
    (tmp_path / "ours" / "stats.jsonl").touch()

    def build(method, translations, seed=1, beam=10, bleu=12.5, seconds=1.0, steps=100):
        texts = dict(enumerate(translations))
        run = Run(method, method, bleu, seconds, 80, steps, texts, texts)
        output = tmp_path / ("fairseq" if method.endswith("by fairseq") else "ours")
        return comparison.Decoded(**vars(run), seed=seed, beam=beam, batch_size=32, output=output)

    return build


def test_ratios_are_of_the_same_round(decoded):
    texts = [f"text {i}" for i in range(20)]
    runs = []
    for seconds in (1.0, 8.0, 2.0):
        runs.append(decoded(models.BASELINE, texts, seconds=seconds))
        runs.append(decoded("Single-token L2R, by fairseq", texts, seconds=seconds))
        runs.append(decoded("Single-token R2L", texts, seconds=2 * seconds))
        runs.append(decoded(models.PROPOSED, texts, seconds=seconds / 4, steps=55))
    table = cells(comparison.show_comparison(runs, 10, 32))
    assert table[models.PROPOSED] == {
        "method": models.PROPOSED,
        "BLEU": "12.50",
        "steps per sentence": "2.8",
        "ratio of steps": "0.55",
        "tokens/s (ratio)": "160 (400%)",
        "seconds": "0.5",
        "speed ratio": "4.00x",
        "outputs": shortened(checksum(dict(enumerate(texts)))),
    }
    assert table["Single-token R2L"]["speed ratio"] == "0.50x"
    assert table["Single-token L2R, by fairseq"]["ratio of steps"] == "-"


def test_table_2_of_two_seeds(decoded, tmp_path, monkeypatch):
    """Marks are from the sentences of all seeds that both methods have."""
    references = [f"word{i} and some other {i % 3} words" for i in range(20)]
    (tmp_path / "references").write_text("\n".join(references) + "\n", encoding="utf-8")
    monkeypatch.setattr(table_2, "TEST_TEXT", tmp_path / "references")
    monkeypatch.setattr(table_2, "FIGURES", tmp_path / "figures.json")
    monkeypatch.setattr(significance, "TRIALS", 300)
    # Two systems err as often, in other sentences; the third always does.
    even, odd = (
        [line + " so" if i % 2 == rest else line for i, line in enumerate(references)]
        for rest in (0, 1)
    )
    nothing = ["all of it is wrong here"] * 20
    runs = [
        run
        for seed, bleu in ((1, 10.0), (2, 12.0))
        for beam in (10, 1)
        for run in (
            decoded(models.BASELINE, even, seed, beam, 20.0),
            decoded("Single-token L2R, by fairseq", even, seed, beam, 20.0),
            decoded("Single-token R2L", nothing if beam == 1 else odd, seed, beam, bleu),
            # Decoded with beam 10 alone, and with one seed.
            *[decoded("Double-token L2R", nothing, seed, beam, 20.0)] * ((beam, seed) == (10, 1)),
            # Worse in one seed alone.
            decoded("Double-token R2L", (even, nothing)[seed - 1], seed, beam, bleu),
            decoded(models.PROPOSED, [f"{seed} is wrong"] * 20, seed, beam, bleu, 1 / seed, 55),
        )
    ]
    figures = table_2.record(runs, tmp_path / "references")
    assert json.loads(table_2.FIGURES.read_text(encoding="utf-8")) == figures
    assert {seed["date"] for row in figures for seed in row["seeds"]} == {"today"}
    spread = "11.00 ± 1.41"

    def of(title):
        return table_2.line(title, figures)

    assert of(models.BASELINE) == {
        "method": models.BASELINE,
        "seeds": "2",
        "the paper: BLEU": "26.45 ‡",
        "BLEU, beam 10": "20.00 ± 0.00 §",
        "BLEU, beam 1": "20.00 ± 0.00 ‡",
        "steps": "1.00",
        "the paper: tokens/s": "1.00",
        "tokens/s": "1.00",
    }
    assert of("Single-token L2R, by fairseq")["steps"] == ""
    assert of("Single-token R2L")["BLEU, beam 10"] == f"{spread} §"
    assert of("Double-token R2L")["BLEU, beam 10"] == f"{spread} †‡§"
    proposed = of(models.PROPOSED)
    assert (proposed["seeds"], proposed["steps"], proposed["tokens/s"]) == ("2", "0.55", "1.50")
    assert proposed["BLEU, beam 10"] == f"{spread} †‡"
    assert proposed["BLEU, beam 1"] == f"{spread} †"
    assert (of("Double-token L2R")["seeds"], of("Double-token L2R")["BLEU, beam 1"]) == ("1", "")
    assert of("Mask-Predict (4 iterations)")["seeds"] == "not trained"


def test_tables_have_the_figures_of_the_file():
    figures = json.loads(table_2.FIGURES.read_text(encoding="utf-8"))
    page = table_2.PAGE.read_text(encoding="utf-8")
    assert table_2.section(figures) in page and table_3.section(figures) in page
    trained = {title for title in table_2.THE_PAPER if not title.startswith("Mask-Predict")}
    assert trained <= {method.title for method in example.METHODS}
