"""The recipe's own parts: reading fairseq-generate's output, the table, its commands."""

import argparse
import hashlib
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import sacrebleu
import torch
from fairseq import options

from benchmarks.compare import command as compare
from examples.common import commands, deeper, en_de
from examples.common.table import checksum, read_run, shortened, show_table, signed
from examples.en_de import block_sizes, demo, export, figure_4, table_1
from fairseq_fastdec.tools.distillation import command
from tests.support import after_import, command_line, tiny

# What fairseq's default scorer counts are subwords: its line at the end is not to be believed.
RESULTS = """\
S-1\tTranslated it, again and again.
T-1\tÜbersetzt, wieder und wieder (nochmals).
H-1\t-0.5\tÜber@@ setzt , wieder und wieder ( noch@@ mals ) !
D-1\t-0.5\tÜbersetzt, wieder und wieder (nochmals)!
P-1\t-0.5 -0.5
S-0\tA b
T-0\tA b
H-0\t-0.25\t
D-0\t-0.25\t
Generate test with beam=1: BLEU4 = 12.34, 30.0/10.0/5.0/2.0 (BP=1.000)
"""
LOG = "INFO:x:Translated 2 sentences (1,007 tokens) in 2.5s (0.80 sentences/s, 402.80 tokens/s)\n"


def write_run(directory, log_name="log.txt", stats=()):
    directory.mkdir()
    (directory / "generate-test.txt").write_text(RESULTS, encoding="utf-8")
    with open(directory / log_name, "a", encoding="utf-8") as file:
        file.write(LOG)
    if stats:
        lines = (json.dumps(record) + "\n" for record in stats)
        (directory / "stats.jsonl").write_text("".join(lines))
    return directory


@pytest.mark.parametrize("log_name", ["log.txt", "generate-test.txt"])
def test_a_run_is_read_wherever_fairseq_logged(tmp_path, log_name):
    run = read_run(write_run(tmp_path / "run", log_name), "frozen", "fairseq --beam 1")
    assert (run.seconds, run.tokens, run.invocations) == (2.5, 1007, 1007)
    assert run.hypotheses == {1: "Über@@ setzt , wieder und wieder ( noch@@ mals ) !", 0: ""}


def test_bleu_is_sacrebleus_of_detokenised_text(tmp_path):
    run = read_run(write_run(tmp_path / "run"), "frozen", "fairseq --beam 1")
    texts, references = (
        ["Übersetzt, wieder und wieder (nochmals)" + end for end in ("!", ".")],
        ["", "A b"],
    )
    expected = sacrebleu.corpus_bleu([texts[0], ""], [[texts[1], references[1]]]).score
    assert run.bleu == pytest.approx(expected)
    subwords = ["Über@@ setzt , wieder und wieder ( noch@@ mals ) " + end for end in "!."]
    of_subwords = sacrebleu.corpus_bleu(
        [subwords[0], ""], [[subwords[1], "A b"]], tokenize="none"
    ).score
    assert abs(run.bleu - of_subwords) > 1 and abs(run.bleu - 12.34) > 1

    # The targets that fairseq detokenises are not always what people wrote.
    text = tmp_path / "text"
    text.write_text(
        "A b\nÜbersetzt, wieder, und wieder (nochmals).\nbehind the last\n", encoding="utf-8"
    )
    raw = read_run(tmp_path / "run", "frozen", "fairseq --beam 1", text).bleu
    references = ["Übersetzt, wieder, und wieder (nochmals).", "A b"]
    assert raw == pytest.approx(sacrebleu.corpus_bleu([texts[0], ""], [references]).score)
    assert raw != pytest.approx(expected)


def test_fairseq_prints_the_same_score(corpus, baseline, tmp_path):
    """The examples' options for the test set name the scorer that their tables have."""
    options = [str(option) for option in en_de.test_options(tmp_path)]
    scoring = options[options.index("--scoring") :][:2]
    assert scoring == ["--scoring", "sacrebleu"] and "--sacrebleu" not in options
    command_line.generate(
        corpus, baseline, "--beam", 1, "--batch-size", 8, *scoring, "--results-path", tmp_path
    )
    results = (tmp_path / "generate-test.txt").read_text(encoding="utf-8")
    printed = float(re.search(r"(?m)^Generate .* BLEU = ([\d.]+)", results).group(1))
    (tmp_path / "log.txt").write_text(LOG, encoding="utf-8")
    assert read_run(tmp_path, "model", "greedy").bleu == pytest.approx(printed, abs=0.005)


def test_the_table_compares_with_fairseq_on_the_same_model(tmp_path):
    runs = []
    for number, seconds in enumerate((2.5, 4.0)):
        for method, stats in (("fairseq --beam 1", ()), ("blockwise", [{"invocations": 503}])):
            output = write_run(tmp_path / f"{method}-{number}", stats=stats)
            run = read_run(output, "frozen" if stats else "baseline", method)
            run.seconds = seconds if method != "blockwise" else 1.0
            runs.append(run)
    runs[1].hypotheses = {**runs[1].hypotheses, 0: "other"}
    show_table(tmp_path, runs, "title")
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    bleu = f"{runs[1].bleu:.2f}"
    expected = f"| frozen | blockwise | {bleu} | 503 | 2.00 | 1.0 | 3.25x | 1 of 2 |"
    assert lines[-1] == f"{expected} {shortened(checksum(runs[1].translations))} |"
    summary = json.loads((tmp_path / "table.json").read_text())
    assert len(summary) == 4 and not {"hypotheses", "translations"} & summary[0].keys()


def test_the_checksum_is_of_the_texts_in_order():
    both = {2: "b", 0: "a"}
    assert checksum(both) == checksum({0: "a", 2: "b"}) == hashlib.sha256(b"a\nb").hexdigest()
    assert checksum(both) != checksum({0: "b", 2: "a"})


def test_every_table_of_scores_is_signed():
    """By sacrebleu's signature: whoever reads a score can compute it again."""
    signature = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert signed("3 sentences") == (
        f"3 sentences\nBLEU: sacrebleu's, against the raw text of the references, `{signature}`"
    )
    folders = (path.parent for path in (commands.ROOT / "examples").glob("*/*.py"))
    for script in (path for folder in set(folders) for path in folder.glob("*.py")):
        source = script.read_text(encoding="utf-8")
        for title in re.findall(r"(?<!def )\bmarkdown\(\s*(\w+)", source):
            # Comparisons of speed have seconds and lines.
            of_speed = (
                "alignments.py", "base.py", "beside_fairseq.py", "cold_start.py", "constraints.py",
                "drafts.py", "joining.py", "load.py", "one_call.py", "proposals.py", "scores.py",
                "speed.py", "whole_commands.py",
            )  # fmt: skip
            assert title == "signed" or script.name in of_speed, script


def test_the_command_of_distillation_parses(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(commands, "run", ran.append)
    (tmp_path / "distilled").mkdir()
    en_de.distil(tmp_path)
    arguments = [str(word) for word in ran[0][4:]]
    assert ran[0][1:4] == ["-m", "fairseq_fastdec", "distill"]
    args = command.parse_args(arguments)
    assert (args.decoding, args.drop_longer_a, args.drop_longer_b) == ("greedy", 1.5, 5)
    assert args.destdir == tmp_path / "distilled"
    en_de.distil(tmp_path)
    assert len(ran) == 1  # what is there is not made again


@pytest.mark.parametrize("cpu_autocast", [False, True])
@pytest.mark.parametrize("size", en_de.RECIPES)
def test_all_commands_of_the_recipe_parse(tmp_path, size, cpu_autocast):
    """Every option that the driver passes exists, with a value that it takes."""
    recipe = en_de.asked_for(en_de.RECIPES[size], argparse.Namespace(cpu_autocast=cpu_autocast))
    heads = ["--arch", "blockwise_transformer", "--criterion", "random_sub_loss"]
    command = en_de.train_command(tmp_path, tmp_path, recipe) + recipe.blockwise_options + heads
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, [str(word) for word in command[1:]])
    assert args.task == "translation"
    assert args.cpu_autocast == cpu_autocast


def told(words, *names):
    """The values of some options of a command."""
    at = {str(word): str(value) for word, value in zip(words, words[1:])}
    return {name: at[name] for name in names if name in at}


def cells(*words):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["block_sizes.py", *words])
        args = block_sizes.parse_args()
        return [cell for seed in args.seeds for cell in block_sizes.cells(args, seed)]


@pytest.mark.parametrize("heads", block_sizes.HEADS)
def test_all_commands_of_table_1_parse(tmp_path, monkeypatch, heads):
    ran = []
    monkeypatch.setattr(commands, "run", ran.append)
    for base in ("baseline-2", "baseline-4", "distilled", "single-2"):
        (tmp_path / base).mkdir()
        commands.mark_finished(tmp_path / base)
    asked = cells("--heads", heads, "--seeds", "2", "--block-sizes", "1", "4")
    trained = [cell for cell in asked if cell.acceptance == "exact"]
    for cell in trained:
        (tmp_path / cell.model).mkdir(exist_ok=True)
        block_sizes.train(tmp_path, en_de.RECIPES["medium"], cell)
    parsed = []
    for words in ran:
        # Parsing adds the options of the architecture, once.
        parser = options.get_training_parser()
        parsed.append(options.parse_args_and_arch(parser, [str(word) for word in words[1:]]))
    assert len(trained) == 8 and len(parsed) == 6
    assert [Path(args.save_dir).name for args in parsed] == [cell.model for cell in trained[2:]]
    # As in the paper, every model begins with the base that has seen the same data. It is trained
    # on, to compare with models that are fine-tuned.
    assert [Path(args.finetune_from_model).parent.name for args in parsed] == [
        "baseline-2", "single-2",
    ] * 3  # fmt: skip
    assert {(args.max_update, args.seed) for args in parsed} == {(4000, 2)}
    longer, parsed = parsed[:2], parsed[2:]
    assert {(args.arch, args.criterion) for args in longer} == {
        ("transformer", "label_smoothed_cross_entropy")
    }
    assert {args.block_size for args in parsed} == {4}
    assert [args.freeze_base for args in parsed] == [True, True, False, False]
    is_paper = heads == "paper"
    for args in parsed:
        assert (args.sub_loss == "random") == is_paper
        assert (args.block_ffn == "shared") == (heads != "split") != args.identity_first_head
        assert args.head_decay == (0.65 if heads == "split" else 1)


def test_the_teacher_has_another_seed(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(commands, "run", ran.append)
    for folder in ("baseline-1", "baseline-4", "distilled", "single-1"):
        (tmp_path / folder).mkdir()
    for cell in cells("--block-sizes", "1", "--settings", "regular", "distillation"):
        block_sizes.train(tmp_path, en_de.RECIPES["medium"], cell)
    names = ("--seed", "--save-dir", "--path", "--destdir", "--beam", "--lenpen")
    assert [told(words, *names) for words in ran] == [
        {"--seed": "1", "--save-dir": f"{tmp_path}/baseline-1"},
        {"--seed": "4", "--save-dir": f"{tmp_path}/baseline-4"},
        {
            "--path": f"{tmp_path}/baseline-4/checkpoint_last.pt",
            "--destdir": f"{tmp_path}/distilled",
            "--beam": "4",
            "--lenpen": "0.6",
        },
        {"--seed": "1", "--save-dir": f"{tmp_path}/single-1"},
    ]
    assert ran[-1][1] == tmp_path / "distilled" / "data"


def test_no_minimum_block_is_larger_than_a_block():
    names = list(block_sizes.ACCEPTANCE)
    assert names == ["exact", "top 2", "top 3", "at least 2", "at least 3"]
    # The base is frozen in the first column: its output is to be that of greedy decoding.
    asked = cells("--block-sizes", "2", "4", "--settings", "regular", "both")
    assert [(cell.block_size, cell.setting, cell.acceptance) for cell in asked] == [
        (2, "regular", "exact"), *((2, "both", name) for name in names[:4]),
        (4, "regular", "exact"), *((4, "both", name) for name in names),
    ]  # fmt: skip


@pytest.fixture
def decoded(tmp_path, monkeypatch):
    """Models with heads have other outputs than their bases in the sentences of some seeds."""
    references = tmp_path / "test.de"
    references.write_text("Die Datei wird gespeichert .\n" * 40)
    monkeypatch.setattr(en_de, "TEST_TEXT", references)
    bad = {1: range(40), 2: range(3), 3: ()}
    blocks = {"paper": [2, 3], "": [1]}

    def decode(work, cell):
        output = work / "-".join(map(str, cell)).replace(" ", "-")
        if not output.exists():
            texts = ["Die Datei wird gespeichert ."] * 40
            if cell.heads:
                for number in bad[cell.seed]:
                    texts[number] = "Der Ordner ist leer ."
            write_run(output, stats=[{"invocations": 9, "blocks": blocks[cell.heads]}])
            commands.mark_finished(output)
            translated[output] = dict(enumerate(texts))
        run = read_run(output, "", "")
        return output, replace(run, translations=translated[output], bleu=20.0 + cell.seed)

    translated = {}
    monkeypatch.setattr(block_sizes, "decoded", decode)
    monkeypatch.setattr(block_sizes, "FIGURES", tmp_path / "figures.json")
    return tmp_path


def test_a_cell_has_the_figures_of_all_seeds(decoded):
    cells = [block_sizes.Cell("paper", 4, "both", seed) for seed in (1, 2, 3)]
    rows = [block_sizes.row_of(decoded, cell) for cell in cells]
    assert [
        (row["seed"], row["bleu"], row["mean_block_size"], row["differs_from_base"]) for row in rows
    ] == [(1, 21, 2.5, True), (2, 22, 2.5, True), (3, 23, 2.5, False)]
    assert len({row["sha256"] for row in rows}) == 3
    assert all(row["commit"] == commands.commit() for row in rows)
    assert table_1.rows(rows[:2], "setting", table_1.SETTINGS, acceptance="exact") == [
        {
            "k": "4", "heads": "ours, paper", "regular": "", "distillation": "", "fine tuning": "",
            "both": "21.50 ± 0.71* / 2.50 ± 0.00 (2 seeds)",
        }
    ]  # fmt: skip
    (line,) = table_1.rows(rows[:2], "acceptance", table_1.ACCEPTANCE)
    assert line == {
        "k": "4", "heads": "ours, paper", "setting": "both",
        "exact": "21.50 ± 0.71* / 2.50 ± 0.00 (2 seeds)",
        **dict.fromkeys(list(table_1.ACCEPTANCE)[1:], ""),
    }  # fmt: skip
    assert table_1.summary(rows[:1]) == "21.00* / 2.50"
    # Without the star: the BLEU of the last seed is that of its base.
    assert table_1.summary(rows) == "22.00 ± 1.00 / 2.50 ± 0.00 (3 seeds)"


def test_a_base_does_not_differ_from_itself(decoded):
    row = block_sizes.row_of(decoded, block_sizes.Cell("", 1, "both", 1))
    assert table_1.summary([row]) == "21.00 / 1.00"


def test_a_cell_replaces_that_of_the_same_seed(decoded, monkeypatch):
    """Its place in the file is kept, and other cells and seeds are."""
    trained = []
    monkeypatch.setattr(en_de, "prepare", lambda *_: None)
    monkeypatch.setattr(block_sizes, "train", lambda work, recipe, cell: trained.append(cell))

    def written(*words):
        argv = ["block_sizes.py", "--workdir", str(decoded / "work"), *words]
        monkeypatch.setattr(sys, "argv", argv)
        block_sizes.main()
        rows = json.loads(block_sizes.FIGURES.read_text(encoding="utf-8"))
        assert {row["size"] for row in rows} == {"quick"}
        return [(row["block_size"], row["acceptance"], row["seed"]) for row in rows]

    (decoded / "work").mkdir()
    words = ["--settings", "both", "--block-sizes"]
    names = ["exact", "top 2", "top 3", "at least 2"]
    first = written(*words, "1", "2", "--seeds", "1", "2")
    assert first == [
        row for seed in (1, 2) for row in [(1, "exact", seed), *((2, name, seed) for name in names)]
    ]
    # A model is trained once for all acceptances.
    assert len(trained) == 4
    assert written(*words, "2", "--seeds", "1", "3") == [
        *first, *((2, name, 3) for name in names),
    ]  # fmt: skip


def test_table_1_has_the_figures_of_the_file():
    figures = json.loads(block_sizes.FIGURES.read_text(encoding="utf-8"))
    section = table_1.section([row for row in figures if row["size"] == "medium"])
    assert section in table_1.PAGE.read_text(encoding="utf-8")
    assert set(table_1.THE_PAPER) == set(block_sizes.BLOCK_SIZES)
    for k, cells in table_1.ACCEPTED.items():
        assert cells[0] == table_1.THE_PAPER[k][-1]


def test_figure_4_is_of_models_with_heads_and_their_own_bases(tmp_path, monkeypatch):
    ran = []

    def run_benchmark(command, output):
        ran.append(compare.parse_args([str(word) for word in command[3:]]))
        args, _ = ran[-1]
        methods = [text.split(":")[0] for text in args.methods]
        return {"results": [{"method": own, "seconds": [len(own), 9]} for own in methods]}

    monkeypatch.setattr(commands, "run_benchmark", run_benchmark)
    asked = cells("--block-sizes", "1", "4", "--rounds", "2")
    sizes = {cell: 20 - n for n, cell in enumerate(asked)}
    figures = figure_4.measured(tmp_path, sizes, 2)
    ((args, _),) = ran
    decoded = [
        ("baseline-1", "greedy"), ("paper-regular-4-1", "blockwise"),
        ("single-1", "greedy"), ("paper-distillation-4-1", "blockwise"),
        ("paper-fine-tuning-4-1", "blockwise"), ("paper-both-4-1", "blockwise"),
    ]  # fmt: skip
    assert args.methods == [
        f"{model}, {engine}: {option}--decoding {method} --path {tmp_path}/{model}/"
        "checkpoint_last.pt"
        for engine, option in (("compiled code", ""), ("torch", "--torch "))
        for model, method in decoded
    ]
    assert args.batch_sizes == [1] and args.rounds == 2
    lines = figure_4.section(figures).splitlines()
    n_own, n_base = len("paper-both-4-1, torch"), len("single-1, torch")
    ratio = f"{n_base / n_own:.2f}"
    # The shortest blocks come first.
    exact = asked.index(block_sizes.Cell("paper", 4, "both", 1))
    assert lines[4].startswith(f"| 4 | paper | both | {20 - exact}.00 |")
    assert lines[4].endswith(f"({ratio} to 1.00) |")
    assert [line.split(" | ")[2] for line in lines[5:]] == [
        "fine tuning", "distillation", "regular",
    ]  # fmt: skip


def test_figure_4_has_the_figures_of_the_file():
    figures = json.loads(figure_4.FIGURES.read_text(encoding="utf-8"))
    assert figure_4.section(figures) in figure_4.PAGE.read_text(encoding="utf-8")


def test_the_first_heads_of_a_model_are_a_model(tmp_path):
    task = tiny.task(20)
    large, small = (
        tiny.build_model(
            task,
            "blockwise_transformer",
            block_size=block_size,
            identity_first_head=True,
            block_ffn="split",
        )
        for block_size in (10, 3)
    )
    tiny.stir(large)
    cfg = {"model": argparse.Namespace(block_size=10)}
    torch.save({"model": large.state_dict(), "cfg": cfg}, tmp_path / "large.pt")
    deeper.write_first_heads(tmp_path / "large.pt", 3, tmp_path / "small.pt")
    state = torch.load(tmp_path / "small.pt", weights_only=True)
    small.load_state_dict(state["model"])
    features = torch.randn(2, 5, large.decoder.output_embed_dim)
    with torch.no_grad():
        heads = [model.decoder.head_features(features, 0, 3) for model in (large, small)]
    assert torch.equal(*heads)
    assert state["cfg"]["model"].block_size == 3


@torch.no_grad()
def test_more_layers_change_nothing_yet():
    task = tiny.task(20)
    normed = dict(encoder_normalize_before=True, decoder_normalize_before=True)
    model = tiny.stir(tiny.build_model(task, **normed))
    more = tiny.build_model(task, decoder_layers=4, **normed)
    more.load_state_dict(deeper.deepened(dict(model.state_dict()), 4))
    batch = tiny.random_batch(task, [4, 6])["net_input"]
    tokens = torch.randint(4, 20, (2, 5))
    logits = [one(batch["src_tokens"], batch["src_lengths"], tokens)[0] for one in (model, more)]
    assert torch.equal(*logits)


def test_the_bundled_model_translates_and_is_compared(monkeypatch, capsys):
    arguments = ["--test-sentences", "3", "--rounds", "1", "Click OK to close the dialog."]
    monkeypatch.setattr(sys, "argv", ["demo.py", *arguments])
    demo.main()
    printed = capsys.readouterr().out
    assert "de: Klicken Sie auf" in printed
    assert "BLEU: sacrebleu's, against the raw text of the references, `nrefs:1|" in printed
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| the bundled")]
    assert [row[1] for row in rows] == list(demo.METHODS)
    assert all(row[-2] == "3 of 3" for row in rows) and len({row[-1] for row in rows}) == 1
    # All invocations are counted, in fewer of which blockwise decoding finds the same tokens.
    invocations = {row[1]: int(row[3]) for row in rows}
    assert invocations["fairseq --beam 1"] == invocations["greedy"] > invocations["blockwise"]


def test_the_demo_prints_its_results_and_nothing_else():
    """Without what fairseq logs: it is the first thing that a newcomer sees."""
    done = after_import.run_script(
        demo.__file__, "--test-sentences", 1, "--rounds", 1, "Click OK.",
        imported="torch", cwd=commands.ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert [line for line in told if "without its compiled code" not in line] == []
    assert done.stdout.startswith("en: Click OK.\nde: ")


def test_the_model_is_small():
    assert (en_de.MODEL / "checkpoint.pt").stat().st_size <= 16e6


def test_sentences_come_from_standard_input(monkeypatch):
    assert demo.sentences_of(io.StringIO("Eins.\n\n Zwei. \n")) == ["Eins.", "Zwei."]
    assert demo.sentences_of(io.StringIO("")) == list(demo.OWN_SENTENCES)


def test_an_exported_model_is_the_same_in_half_precision(blockwise, tmp_path):
    export.write_half(blockwise, tmp_path / "half.pt")
    before, after = (
        torch.load(path, weights_only=True) for path in (blockwise, tmp_path / "half.pt")
    )
    assert before["model"].keys() == after["model"].keys()
    for name, value in after["model"].items():
        assert torch.equal(value, before["model"][name].half())
    embeddings = [
        after["model"][f"decoder.{name}.weight"] for name in ("embed_tokens", "output_projection")
    ]
    assert before["cfg"]["model"].share_decoder_input_output_embed
    assert embeddings[0].data_ptr() == embeddings[1].data_ptr()
    assert str(blockwise.parent).encode() not in (tmp_path / "half.pt").read_bytes()
    assert (tmp_path / "half.pt").stat().st_size < blockwise.stat().st_size / 2
