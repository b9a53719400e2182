"""The recipe for WMT'19's ensembles, on one of their format with random weights."""

import argparse
import re
import sys
from functools import partial

import pytest
from fairseq.data import Dictionary

from examples.common import commands
from examples.wmt_ensemble import appendix, methods, results
from examples.wmt_ensemble import run as recipe
from examples.wmt_ensemble.newstest import read_test, sgm_segments, subword_nmt_codes
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.tools import prepare_data
from fairseq_fastdec.translating.registry import decoding_names
from tests.support import example_in_process, wmt19

SGM = """\
<srcset setid="newstest2018" srclang="any">
<doc sysid="ref" docid="x" genre="news" origlang="de">
<p>
<seg id="1">{}</seg>
<seg id="2">Zwei &amp; drei  &lt;b&gt;.</seg>
</p>
</doc>
</srcset>
"""
# Learned and applied by fastBPE's own program.
FASTBPE_CODES = ["e n</w> 9", "e i 7", "ei n</w> 5", "h a 4", "l l 3", "ha ll 2", "hall o</w> 2"]
FASTBPE_APPLIED = {
    "hallo ein hallen": "hallo ein hall@@ en",
    "nein eine halle": "n@@ ein ei@@ n@@ e hall@@ e",
}


def test_sgm_to_text():
    assert sgm_segments(SGM.format("Eins,\n  zwei")) == ["Eins, zwei", "Zwei & drei <b>."]


def test_fastbpes_codes_give_fastbpes_subwords(tmp_path):
    atomic_files.write_lines(tmp_path / "codes", subword_nmt_codes(FASTBPE_CODES))
    lines = list(FASTBPE_APPLIED)
    applied = prepare_data.split_subwords(lines, tmp_path / "codes", 1, "subwords")
    assert dict(zip(lines, applied)) == FASTBPE_APPLIED


def test_codes_of_subword_nmt_stay_as_they_are():
    for codes in (["#version: 0.2", "e n</w>"], ["e n</w>", "e i"]):
        assert subword_nmt_codes(codes) == codes


def test_test_sets_are_found_or_asked_for(tmp_path):
    with pytest.raises(SystemExit, match=r"test.de or exactly one \*.de.sgm \(found: none\)"):
        read_test(tmp_path, "de")
    (tmp_path / "newstest-src.de.sgm").write_text(SGM.format("Eins."), encoding="utf-8")
    assert read_test(tmp_path, "de") == ["Eins.", "Zwei & drei <b>."]
    (tmp_path / "other.de.sgm").touch()
    with pytest.raises(SystemExit, match="found: newstest-src.de.sgm, other.de.sgm"):
        read_test(tmp_path, "de")
    (tmp_path / "test.de").write_text("Zeile\n", encoding="utf-8")
    assert read_test(tmp_path, "de") == ["Zeile"]


def test_all_methods_parse():
    """Every option of the table exists, with a value that it takes."""
    from fairseq import options

    available = set(decoding_names())
    for method in [*methods.METHODS.values(), *appendix.METHODS.values()]:
        assert method[1] in {"fairseq", "greedy", "beam", "variable_beam", "streaming"}
        if method[1] in available:
            parser = options.get_generation_parser(default_task="translation")
            options.parse_args_and_arch(parser, ["data", "--path", "model.pt", *method])


def write_archive(directory):
    """Two models as released, with fastBPE codes and a test set in SGML."""
    directory.mkdir()
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,&;<>0123456789"
    symbols = [symbol + joint for symbol in letters for joint in ("", "@@")]
    for language in ("de", "en"):
        lines = (f"{symbol} 1\n" for symbol in symbols)
        (directory / f"dict.{language}.txt").write_text("".join(lines))
        sgm = SGM.format("Hallo." if language == "de" else "Hello.")
        (directory / f"newstest2018-deen.{language}.sgm").write_text(sgm)
    (directory / "bpecodes").write_text("".join(f"{code}\n" for code in FASTBPE_CODES))
    words = Dictionary.load(str(directory / "dict.de.txt"))
    for number, sizes in enumerate(({}, dict(dim=48)), start=1):
        wmt19.write_checkpoint(
            directory / f"model{number}.pt", words, words, "de-en", seed=number, **sizes
        )
    return directory


def test_the_whole_recipe(tmp_path, monkeypatch, caplog):
    directory, work = write_archive(tmp_path / "wmt19.de-en"), tmp_path / "work"
    command = [
        "run.py", str(directory), "-s", "de", "-t", "en", "--workdir", str(work), "--rounds", "1",
        "--methods", "fairseq --beam 1", "greedy", "--", "--cpu",
    ]  # fmt: skip
    programs, run = example_in_process.runner(caplog)
    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(sys, "argv", [*command, "--max-len-b", "8"])
    recipe.main()
    assert programs == ["fairseq-preprocess", "fairseq-generate", "fairseq-generate"]
    table = (work / "table.md").read_text(encoding="utf-8").splitlines()
    assert table[0].startswith("wmt19.de-en: 2 models, 2 sentences, ")
    assert table[1].startswith(
        "BLEU: sacrebleu's, against the raw text of the references, `nrefs:1|"
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[5:]]
    assert [row[0] for row in rows] == ["fairseq --beam 1", "greedy"]
    assert rows[0][4] == rows[1][4]
    assert (work / "reference.txt").read_text().splitlines() == ["Hello.", "Zwei & drei <b>."]

    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="--workdir .*: contains results of other settings"):
        recipe.main()


@pytest.fixture
def trained(tmp_path, monkeypatch, caplog):
    """The recipe of five models, which finds two; returns what they were, and what was run."""
    directory, page = write_archive(tmp_path / "archive"), tmp_path / "page.md"
    sections = "".join(
        f"<!-- {name} -->\nold\n<!-- end of {name} -->\n"
        for name in ("streaming table 1", appendix.SECTION)
    )
    page.write_text(f"before\n{sections}behind\n")
    built = []

    def build(work, members):
        built.append(members)
        return directory

    monkeypatch.setattr(recipe, "build", build)
    monkeypatch.setattr(recipe, "PAGE", page)
    prepare_valid = recipe.prepare_valid
    monkeypatch.setattr(
        recipe, "prepare_valid", lambda args, folder, _=0: prepare_valid(args, folder, 2)
    )
    programs, run = example_in_process.runner(caplog)
    monkeypatch.setattr(commands, "run", run)
    return page, built, programs


def run_small(monkeypatch, work, *words):
    command = ["run.py", "--small", "--workdir", str(work), "--rounds", "1", *words]
    monkeypatch.setattr(sys, "argv", [*command, "--", "--cpu", "--max-len-b", "8"])
    recipe.main()


def test_the_whole_recipe_of_trained_models(trained, tmp_path, monkeypatch):
    page, built, programs = trained
    monkeypatch.setattr(recipe, "chosen_delta", partial(two_deltas, recipe.chosen_delta))
    methods = ["--methods", "fairseq --beam 5", "variable_beam 5"]
    run_small(monkeypatch, tmp_path / "work", "--cpu-autocast", *methods)
    ((first, *others),) = built
    assert first.folder == "baseline-1" and first.recipe.network[-1] == "--cpu-autocast"
    assert [member.seed for member in others] == [2, 3, 4, 5]
    # Beam search and one or two deltas on the validation set; then four methods.
    assert len(programs) - 2 - 4 in (2, 3)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- streaming table 1 -->\nsmall: 2 models, 2 sentences, ")
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| ")]
    assert rows == [
        "| method", "| fairseq --beam 5", "| variable_beam 5", "| variable_beam 5, delta 7",
        "| streaming 5, delta 7",
    ]  # fmt: skip
    # The date is that of decoding.
    monkeypatch.setattr(commands, "provenance", later)
    run_small(monkeypatch, tmp_path / "work", "--cpu-autocast", *methods)
    assert page.read_text(encoding="utf-8") == text


def later():
    """The provenance of results of another day."""
    return {"date": "2100-01-01", "commit": "abc", "processor": "another"}


def test_the_appendix(trained, tmp_path, monkeypatch):
    page, _, programs = trained
    run_small(monkeypatch, tmp_path / "work", "--appendix")
    assert programs == ["fairseq-preprocess"] + ["fairseq-generate"] * len(appendix.METHODS)
    lines = page.read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")
    ]
    cells = {row[0]: dict(zip(rows[0], row)) for row in rows[2:]}
    assert list(cells) == list(appendix.METHODS)
    fairseqs, stream = cells[appendix.FIXED], cells["VAR-STREAM"]
    assert fairseqs["ours: timesteps"] == "" and fairseqs["ours: time"] == "1.00"
    assert (fairseqs["paper: BLEU"], stream["paper: BLEU"]) == ("42.71", "+0.00")
    assert stream["paper: time"] == "0.28"
    for title, row in cells.items():
        if title != appendix.FIXED:
            assert int(row["ours: timesteps"]) > 0
            assert float(row["ours: expansions a step"]) >= 1
    # With nothing pruned, there are more candidates.
    unpruned, pruned = (
        float(cells[title]["ours: expansions a step"]) for title in ("FIXED-OURS", "VAR-BATCH")
    )
    assert unpruned > pruned
    for words in (["--sentences", "2"], ["--methods", "greedy"]):
        with pytest.raises(SystemExit):
            run_small(monkeypatch, tmp_path / "work", "--appendix", *words)


def two_deltas(chosen_delta, *arguments):
    """The last delta, after the choice between two has been made."""
    assert chosen_delta(*arguments) in methods.DELTAS
    return methods.DELTAS[-1]


def test_the_smallest_delta_that_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "prepare", lambda *_: None)
    monkeypatch.setattr(recipe, "read_lines", lambda *_: [])
    args = argparse.Namespace(directory=tmp_path)

    def chosen(bleu):
        def decoded(args, work, models, label, options, reference):
            delta = re.search(r"delta ([\d.]+)", label)
            default = methods.PAPERS_DELTA if label.startswith("variable") else None
            return results.Run(bleu[float(delta[1]) if delta else default], 1.0, {}, {})

        monkeypatch.setattr(recipe, "decoded", decoded)
        return recipe.chosen_delta(args, tmp_path, [], 5)

    below = dict.fromkeys(methods.DELTAS, 30.0)
    assert chosen({None: 30.0, **below}) == 1.5
    assert chosen({None: 31.0, **below, 2.5: 31.0, 3: 31.5}) == 2.5
    assert chosen({None: 31.0, **below}) == 7


def test_the_table_compares_with_the_search_of_the_same_beam():
    reference = ["Die Datei wird gespeichert und geschlossen."] * 30
    good = dict(enumerate(reference))
    bad = {number: "Der Ordner ist leer und bleibt es." for number in good}
    runs = {
        "fairseq": [results.Run(100.0, 8.0, good, {}), results.Run(100.0, 10.0, good, {})],
        "same": [results.Run(100.0, 4.0, good, {}), results.Run(100.0, 4.0, good, {})],
        "worse": [results.Run(0.0, 2.0, bad, {}), results.Run(0.0, 2.0, bad, {})],
        "alone": [results.Run(0.0, 2.0, bad, {})],
    }
    compared = {**dict.fromkeys(runs, "fairseq"), "alone": "other"}
    text = results.table(runs, compared, reference, "Title")
    assert text.startswith("Title\nBLEU: ")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]
    assert [[row[0], *row[4:7]] for row in rows[2:]] == [
        ["fairseq", "100.00", "9.0 ± 1.4", "1.00"],
        ["same", "100.00", "4.0 ± 0.0", "0.45 ± 0.07"],
        ["worse", "0.00*", "2.0 ± 0.0", "0.23 ± 0.04"],
        ["alone", "0.00", "2.0 ± 0.0", "-"],
    ]


def test_the_papers_rows():
    assert results.of_paper("streaming 50", "fairseq --beam 50") == {
        "paper: BLEU": "49.59 / 39.04",
        "paper: time, 32 GB": "0.29 / 0.38",
        "paper: time, 16 GB": "0.29 / 0.37",
    }
    greedy = methods.fixed_of(methods.METHODS["fairseq --beam 1"])
    assert results.of_paper("fairseq --beam 1", greedy)["paper: time, 16 GB"] == "0.02 / 0.02"
    assert set(results.of_paper("beam 5", "fairseq --beam 5").values()) == {""}
    assert results.of_paper("streaming 5", "fairseq --beam 5")["paper: time, 16 GB"] == ""
    assert set(results.PAPER) < set(methods.METHODS)
