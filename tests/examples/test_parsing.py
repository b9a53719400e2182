"""The example of parsing: trees, their scores, the split, and all stages on a small library."""

import ast
import sys
import time
from pathlib import Path

import pytest
from fairseq.logging import meters

from examples.common import commands, en_de
from examples.parsing import corpus, cpu_clock, parse_results, scores
from examples.parsing import run as example
from examples.parsing.trees import Words, brackets, linearised
from tests.support import example_in_process

CASES = {
    "return a < 3 <= b.c": (
        "return NAME < NUMBER <= NAME . NAME",
        "(Return (Compare NAME Lt NUMBER LtE (Attribute NAME NAME )Attribute )Compare )Return",
    ),
    "x = f'{a!r} {b:>{c}}' 'd' if not y else [*z, None, ...]": (
        "NAME = STRING STRING if not NAME else [ * NAME , None , ... ]",
        "(Assign NAME (IfExp STRING (Not NAME )Not (List (Starred NAME )Starred None Ellipsis "
        ")List )IfExp )Assign",
    ),
    "x += {a: b + 1, c: -d}": (
        "NAME += { NAME : NAME + NUMBER , NAME : - NAME }",
        "(AugAssign NAME Add (Dict NAME (Add NAME NUMBER )Add NAME (USub NAME )USub )Dict "
        ")AugAssign",
    ),
    "def f(a, b=1, *c: int, d=2, **e) -> g:\n    # says nothing\n    return\n": (
        "def NAME ( NAME , NAME = NUMBER , * NAME : NAME , NAME = NUMBER , ** NAME ) -> NAME : "
        "NEWLINE INDENT return",
        "(FunctionDef NAME (arguments NAME NAME NUMBER (vararg (arg NAME NAME )arg )vararg NAME "
        "NUMBER (kwarg NAME )kwarg )arguments NAME Return )FunctionDef",
    ),
    "for a, b in c:\n  pass\nelse:\n  d = lambda: e(f=g)": (
        "for NAME , NAME in NAME : NEWLINE INDENT pass NEWLINE DEDENT else : NEWLINE INDENT "
        "NAME = lambda : NAME ( NAME = NAME )",
        "(For (Tuple NAME NAME )Tuple NAME Pass (orelse (Assign NAME (Lambda (Call NAME "
        "(keyword NAME NAME )keyword )Call )Lambda )Assign )orelse )For",
    ),
    "try:\n  import a.b as c\nexcept D as e:\n  raise\nfinally:\n  with f as g: del h[1:]": (
        "try : NEWLINE INDENT import NAME . NAME as NAME NEWLINE DEDENT except NAME as NAME : "
        "NEWLINE INDENT raise NEWLINE DEDENT finally : NEWLINE INDENT with NAME as NAME : del "
        "NAME [ NUMBER : ]",
        "(Try (Import (alias NAME NAME )alias )Import (ExceptHandler NAME NAME Raise "
        ")ExceptHandler (finalbody (With (withitem NAME NAME )withitem (Delete (Subscript NAME "
        "(Slice NUMBER )Slice )Subscript )Delete )With )finalbody )Try",
    ),
}


@pytest.mark.parametrize("source", CASES)
def test_words_and_tree(source):
    words, tree = CASES[source]
    node = ast.parse(source).body[0]
    assert " ".join(Words(source).of(node)) == words
    assert " ".join(linearised(node)) == tree
    assert brackets(tree.split()) is not None


def test_a_dedent_belongs_to_the_statement_before_it():
    source = "if a:\n    b()\nreturn_ = c\n"
    first, second = ast.parse(source).body
    assert Words(source).of(first)[-1] == ")"
    assert Words(source).of(second) == ["NAME", "=", "NAME"]


def test_brackets_know_what_they_span():
    tree = "(Assign NAME (Add NAME (Call NAME )Call )Add )Assign".split()
    assert brackets(tree) == {("Assign", 0, 3): 1, ("Add", 1, 3): 1, ("Call", 2, 3): 1}
    assert brackets(["NAME"]) == {}
    for broken in (tree[:-1], tree[1:], [*tree[:-1], ")Add"]):
        assert brackets(broken) is None


def test_scores():
    reference = "(A NAME (B NAME )B )A"
    nearly, broken = "(A NAME (C NAME )C )A", "(A NAME (B NAME )B"
    found = scores.score(
        {0: [nearly, reference], 1: [reference, broken], 2: [broken, nearly]},
        dict.fromkeys(range(3), reference),
    )
    # Brackets found, expected and shared, of the first parses: 4, 6 and 3; of the best: 6, 6, 5.
    assert found == scores.Scores(
        exact=pytest.approx(100 / 3), f1=pytest.approx(60),
        oracle_exact=pytest.approx(200 / 3), oracle_f1=pytest.approx(100 * 10 / 12),
    )  # fmt: skip


def write_library(root: Path, n: int) -> None:
    """Modules of one statement a line, some of them the same in several."""
    for name, start in (("argparse", 1), ("http/client", n), ("os", n + 3), ("test/os", 40)):
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ["@x\ndef f(a, b):\n    return a + b", "short = 1"]
        lines += [f"f({', '.join(f'{i:06b}'.replace('0', 'a'))})" for i in range(start, start + n)]
        lines += ["if a:\n    f(b, c)\nelif d(e, f):\n    g = h + 1"]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "no_ascii.py").write_text("f('ä', b, c, d, e, f)\n", encoding="utf-8")
    (root / "no_python.py").write_text("print 'a', b, c, d, e, f\n", encoding="utf-8")


def number_of(words) -> int:
    """The number that a call's arguments are; 0 for other statements."""
    digits = "".join({"NAME": "0", "NUMBER": "1"}.get(word, "") for word in words[2:])
    return int(digits, 2) if len(words) == 14 else 0


def test_no_statement_is_in_two_parts(tmp_path):
    write_library(tmp_path, 12)
    parts = corpus.divided(tmp_path)
    calls = {name: sorted(filter(None, map(number_of, texts))) for name, texts in parts.items()}
    assert calls == {
        "test": [*range(1, 13)], "valid": [*range(13, 24)], "train": [*range(24, 27)],
    }  # fmt: skip
    everything = [words for texts in parts.values() for words in texts]
    assert len(everything) == len(set(everything))
    assert not any(words[0] in ("elif", "@", "def") for words in everything)
    assert all(corpus.SHORTEST <= len(words) <= corpus.LONGEST for words in everything)


def test_parts_of_a_given_size(tmp_path):
    write_library(tmp_path / "lib", 12)
    sizes = [corpus.write(tmp_path / name, {"test": 5}, tmp_path / "lib") for name in "ab"]
    assert sizes[0] == sizes[1] and sizes[0]["test"] == 5 and sizes[0]["valid"] == 11
    for part, size in sizes[0].items():
        for language in ("code", "tree"):
            texts = [(tmp_path / name / f"{part}.{language}").read_text() for name in "ab"]
            assert texts[0] == texts[1] and len(texts[0].splitlines()) == size


@pytest.fixture
def small(tmp_path, monkeypatch, caplog):
    """The example on a small library, with a tiny model; returns what was run."""
    write_library(tmp_path / "lib", 12)
    monkeypatch.setattr(corpus.sysconfig, "get_path", lambda name: str(tmp_path / "lib"))
    size = example.Size({"test": 8}, en_de.schedule(400, 1e-2, 2, 6))
    monkeypatch.setattr(example, "SIZES", {"full": size})
    methods = {
        name: [*own, "--max-len-b", "20"]
        for name, own in example.METHODS.items()
        if "delta 2.5" not in name
    }
    monkeypatch.setattr(example, "METHODS", methods)
    narrow = ["16" if word in ("128", "256") else word for word in example.NETWORK]
    monkeypatch.setattr(example, "NETWORK", narrow)
    here = [*example.plugin_options(), "--num-workers", "0"]
    monkeypatch.setattr(example, "plugin_options", lambda: here)
    programs, run = example_in_process.runner(caplog)
    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(example, "PAGE", tmp_path / "page.md")
    example.PAGE.write_text("<!-- parsing -->\n<!-- end of parsing -->\n", encoding="utf-8")
    arguments = ["--workdir", str(tmp_path / "work"), "--rounds", "1", "--size", "full"]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    return programs


def test_the_processors_clock_stands_still_while_others_work(monkeypatch):
    monkeypatch.setattr(meters, "time", meters.time)
    watch, seen = meters.StopwatchMeter(), []

    def decode():
        watch.start()
        time.sleep(0.2)
        watch.stop()
        seen.append(watch.sum)

    monkeypatch.setattr(cpu_clock.generate, "cli_main", decode)
    cpu_clock.main()
    assert seen[0] < 0.1


def test_both_deltas_of_the_paper():
    for name in ("VAR-BATCH", "VAR-STREAM", "VAR-STR-FIFO"):
        for delta in ("10", "2.5"):
            options = example.METHODS[f"{name}, delta {delta}"]
            assert options[options.index("--prune-threshold") + 1] == delta


def test_all_stages(small, tmp_path, capsys):
    example.main()
    n_methods = len(example.METHODS)
    assert small == ["fairseq-preprocess", "fairseq-train", *["fairseq-generate"] * n_methods]
    table = (tmp_path / "work" / "table.md").read_text(encoding="utf-8")
    assert table in capsys.readouterr().out
    assert table in example.PAGE.read_text(encoding="utf-8")
    lines = [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert tuple(lines[0]) == parse_results.COLUMNS
    found = [dict(zip(parse_results.COLUMNS, line)) for line in lines[1:]]
    assert [row for row in found if row["data"] != "ours"] == parse_results.papers_rows()
    rows = {row["method"]: row for row in found if row["data"] == "ours"}
    assert list(rows) == list(example.METHODS)
    # The same hypotheses in another order of work, of as many candidates.
    batch, *streams = (
        rows[f"{name}, delta 10"] for name in ("VAR-BATCH", "VAR-STREAM", "VAR-STR-FIFO")
    )
    for stream in streams:
        for column in ("F1 / oracle", "exact match / oracle", "expansions", "outputs"):
            assert stream[column] == batch[column]
    own, theirs = rows["FIXED"], rows["FIXED, fairseq's"]
    for column in ("F1 / oracle", "exact match / oracle", "outputs"):
        assert own[column] == theirs[column]
    assert (theirs["time, to FIXED"], theirs["timesteps"]) == ("1.00 (1.00 to 1.00)", "")
    assert float(own["expansions a step"]) <= example.ROWS

    before = len(small)
    example.main()
    assert len(small) == before
