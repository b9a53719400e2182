"""Lines of a bundle and of a checkpoint; those of a bundle without torch and fairseq."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.corpora import command
from fairseq_fastdec.corpora.arguments import parse_args
from fairseq_fastdec.corpora.chunks import Chunk
from fairseq_fastdec.corpora.model import CorpusModel
from fairseq_fastdec.corpora.output_lines import Outcome, OutputRules, TextHypothesis
from fairseq_fastdec.tools.export import export
from tests.support import command_line, marian_writing
from tests.support.compiled import compiled
from tests.support.imported_models import DEFAULTS, written

COMMAND = [sys.executable, "-m", "fairseq_fastdec", "translate"]
LINES = ["Click the Save button.", "", "Don't close the document!", " größer als 1,000 ", "x"] * 4
OF_CHECKPOINT = [MODEL, "--cpu"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture
def translate(source, tmp_path):
    """A function that runs the command with a model; it returns the output."""

    def run(*model, output="out", given=()):
        fixed = ["--input", source, "--output", tmp_path / output, "--workers", 2]
        words = [*model, *fixed, "--no-progress-bar", *given]
        command.main([str(word) for word in words])
        path = tmp_path / output
        return path.read_bytes() if path.exists() else None

    return run


@pytest.mark.parametrize(
    "given",
    [
        ["--decoding", "greedy", "--chunk-size", 7],
        ["--decoding", "beam", "--nbest", 2, "--beam", 3, "--format", "jsonl", "--lenpen", 0.5],
        ["--decoding", "greedy", "--format", "tsv", "--with-source", "--drop-longer-a", 1.5],
    ],
    ids=["plain", "jsonl", "tsv"],
)
def test_the_output_of_the_checkpoint(translate, bundle, given):
    expected = translate(*OF_CHECKPOINT, output="expected", given=given)
    assert translate(bundle, given=given) == expected and len(expected) > 200


def without_torch(directory):
    """An environment in which no process can import torch or fairseq."""
    for name in ("torch", "fairseq"):
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text("raise RuntimeError('imported')")
    return {**os.environ, "PYTHONPATH": str(directory)}


def test_a_filter_without_torch(bundle, tmp_path):
    done = subprocess.run(
        [*COMMAND, bundle, "--input", "-", "--output", "-", "--workers", "2"],
        input="\n".join(LINES).encode(), capture_output=True, env=without_torch(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = fairseq_fastdec.load(MODEL)
    assert done.stdout.decode().split("\n") == [*map(expected.translate, LINES), ""]


def test_a_kill_and_the_same_command(bundle, source, translate, tmp_path):
    """Neither torch nor fairseq is imported, in any process, and no chunk is done twice."""
    source.write_text("".join(f"{line} {n}\n" for n, line in enumerate(LINES * 100)))
    given = ["--chunk-size", "8"]
    process = subprocess.Popen(
        [*COMMAND, bundle, "--input", source, "--output", tmp_path / "out", *given],
        env=without_torch(tmp_path), stderr=subprocess.PIPE,
    )  # fmt: skip

    def chunks():
        return {p: p.stat().st_mtime_ns for p in (tmp_path / "out.parts").glob("*.chunk")}

    while len(chunks()) < 5:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if children.exists():
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        time.sleep(0.05)
    process.kill()
    process.communicate()
    done = chunks()
    assert 5 <= len(done) < 250
    whole = translate(bundle, output="whole", given=given)
    translate(bundle, given=[*given, "--num-shards", 2, "--shard-id", 1])
    assert {path: own for path, own in chunks().items() if path in done} == done
    assert translate(bundle, given=given) == whole


def test_other_settings_do_not_mix(bundle, translate):
    translate(bundle, given=["--num-shards", 2])
    with pytest.raises(SystemExit, match="made with options = {}, but now it is .*beam"):
        translate(bundle, given=["--beam", 4])


def test_drafts_do_not_change_the_output(bundle, translate, tmp_path):
    expected = translate(bundle, output="expected").decode()
    drafts = tmp_path / "drafts"
    drafts.write_text(expected[: len(expected) // 2] + "Falsch.\n" * len(LINES), encoding="utf-8")
    assert translate(bundle, given=["--draft-file", drafts, "--chunk-size", 3]).decode() == expected


def memory_of(tmp_path, translations):
    """The options of a memory with the lines of the source."""
    files = {
        "--memory-source": "".join(f"{line}\n" for line in LINES),
        "--memory-target": translations,
    }
    for flag, text in files.items():
        (tmp_path / flag[2:]).write_text(text, encoding="utf-8")
    return [word for flag in files for word in (flag, tmp_path / flag[2:])]


def test_a_memory_does_not_change_the_output(bundle, translate, tmp_path):
    expected = translate(bundle, output="expected").decode()
    memory = memory_of(tmp_path, expected)
    assert translate(bundle, given=[*memory, "--chunk-size", 3]).decode() == expected
    # The index is made before the workers are forked.
    assert len(list(tmp_path.glob("memory-target.memory-*"))) == 1
    with pytest.raises(SystemExit, match="--draft-file: cannot be combined with --memory-source"):
        translate(bundle, output="other", given=[*memory, "--draft-file", os.devnull])


def test_each_line_has_its_own_draft(bundle, tmp_path, monkeypatch):
    """Lines are sorted by length, and a line that is not UTF-8 is left out."""
    drafts = tmp_path / "drafts"
    drafts.write_text("".join(f"draft {number}\n" for number in range(6)))
    translator = CorpusModel([str(bundle)], {}, str(drafts)).translator(OutputRules(), None)
    stream, drafted = translator._translator.translate_stream, []

    def spy(texts, drafts, **options):
        texts = list(texts)
        drafted.extend(zip(texts, drafts))
        return stream(texts, drafts=drafts, **options)

    monkeypatch.setattr(translator._translator, "translate_stream", spy)
    translator.translate_lines(["Save.", "x", ""], numbers=[5, 2, 3])
    assert sorted(drafted) == [("", "draft 3"), ("Save.", "draft 5"), ("x", "draft 2")]


def test_lines_that_cannot_be_translated(bundle, source, translate, capsys):
    source.write_bytes(b"x\n" + b"x " * 3000 + b"\n\xff\n")
    with pytest.raises(SystemExit, match=f"{source}, line 2: too long: 3001 tokens .*--on-error"):
        translate(bundle)
    given = ["--format", "jsonl", "--on-error", "empty"]
    lines = translate(bundle, output="other", given=given).decode().splitlines()
    errors = [json.loads(line).get("error") for line in lines]
    assert errors == [None, "too long", "not UTF-8"]
    assert "1 translated, 1 not UTF-8, 1 too long" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given, message",
    [
        (["--path", "model.pt"], "--path: not possible with a bundle, .* name a checkpoint"),
        (["--engine-precision", "int8"], "--engine-precision: not possible with a bundle"),
        (["--sampling"], "--sampling: not possible with a bundle"),
        (["--max-tokens=9"], "--max-tokens: not possible with a bundle"),
        (["--decoding", "jacobi"], "decoding jacobi: .* export it with --decoding jacobi"),
        (["--nbest", 3, "--beam", 2, "--format", "tsv"], "--nbest 3: more than --beam 2"),
        (["--nbest", 2], "--nbest: --format plain"),
        (["--nbest", 2, "--decoding", "variable_beam", "--format", "tsv"], "prunes the beam"),
        (["--shard-id", 1], "--shard-id 1: must be from 0 to 0"),
        (["--draft-file", "nowhere"], "--draft-file nowhere: cannot be read"),
        (["--draft-file", os.devnull], f"--draft-file {os.devnull}: has 0 lines, fewer"),
        (["--draft-file", os.devnull, "--decoding", "beam"], "drafts: only with decoding greedy"),
    ],
)
def test_options_that_are_refused(bundle, translate, given, message):
    with pytest.raises(SystemExit, match=f"translate(.py)?: .*{message}") as stopped:
        translate(bundle, given=given)
    assert "\n" not in str(stopped.value)


def test_the_same_command_without_the_mistake(bundle, translate):
    with pytest.raises(SystemExit, match="the bundle has greedy, beam"):
        translate(bundle, given=["--decoding", "gredy"])
    assert translate(bundle, given=["--decoding", "greedy"])


def test_a_bundle_in_the_place_of_a_checkpoint(bundle, translate):
    with pytest.raises(SystemExit, match="model.fastdec: not possible with a bundle"):
        translate(MODEL, bundle)


def test_a_bundle_for_another_machine(bundle, tmp_path, monkeypatch):
    memory = {"memory_source": "a", "memory_target": "b"}
    memory = {name: tmp_path / file for name, file in memory.items()}
    for path in memory.values():
        path.write_text("\n")
    given = {name: str(path) for name, path in memory.items()}
    model, files = CorpusModel([str(bundle)], given).portable()
    copies = {f"{name}/{Path(path).name}": path for name, path in given.items()}
    assert files == {"model": str(bundle), **copies}
    assert list(model.options.values()) == list(copies)
    model, files = CorpusModel([str(bundle)], {}, "old.de").portable()
    assert files == {"model": str(bundle), "drafts": "old.de"}
    (tmp_path / "model").symlink_to(bundle)
    (tmp_path / "drafts").write_text("\n")
    monkeypatch.chdir(tmp_path)
    (outcome,) = model.translator(OutputRules(), None).translate_lines(["Click the Save button."])
    expected = fairseq_fastdec.load(bundle).translate("Click the Save button.")
    assert outcome.hypotheses[0].text == expected


WORDS = ["a b c", "  c  c c ", "j i h g f e d c b a", "ü a", "a\u00a0b\u2028c", "a b c"]


@pytest.fixture
def translator_of(corpus, baseline):
    """A function that makes a translator of some options."""

    def make(*arguments, path=baseline, data=corpus):
        given = [path, "--data", data, "--cpu", "-s", "en", "-t", "de", *arguments]
        return parse_args(list(map(str, given))).model.translator(OutputRules(), None)

    return make


def printed_by_interactive(corpus, path, lines, tmp_path, *arguments):
    """Text and scores by line, best first."""
    options = ["--buffer-size", 100, "-s", "en", "-t", "de", *arguments]
    printed = command_line.interactive(corpus, path, lines, tmp_path, *options)
    found = [[] for _ in lines]
    for number, score, text in re.findall(r"(?m)^D-(\d+)\t([^\t]*)\t(.*)$", printed):
        found[int(number)].append((text, pytest.approx(float(score), abs=1e-4)))
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ["--decoding", "greedy"],
        ["--decoding", "streaming", "--beam", 3, "--nbest", 2, "--batch-size", 2],
        ["--decoding", "fairseq", "--beam", 2, "--nbest", 2, "--max-tokens", 20],
        ["--decoding", "beam", "--lenpen", 0.5],
    ],
    ids=["greedy", "streaming", "fairseq", "beam"],
)
def test_lines_are_translated_as_by_interactive(
    translator_of, corpus, baseline, tmp_path, arguments
):
    lines = [line for line in WORDS if line.splitlines() == [line]]
    expected = printed_by_interactive(corpus, baseline, lines, tmp_path, *arguments)
    results = translator_of(*arguments).translate_lines(lines)
    assert [[(h.text, h.score) for h in result.hypotheses] for result in results] == expected


def test_an_empty_line_stays_empty(translator_of):
    empty, line, blank = translator_of("--decoding", "greedy").translate_lines(["", "a b c", " \t"])
    assert empty == blank == Outcome(0, [TextHypothesis("", 0.0, 0)])
    assert line.hypotheses[0].text == "c b a"


def test_tokenisers_and_bpe(translator_of, corpus, baseline, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    arguments = ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", codes]
    arguments += ["--decoding", "greedy"]
    lines = ["a, b & c!", "ab abc", "a&amp;b"]
    expected = printed_by_interactive(corpus, baseline, lines, tmp_path, *arguments)
    results = translator_of(*arguments).translate_lines(lines)
    assert [[(h.text, h.score) for h in result.hypotheses] for result in results] == expected


def test_scores_are_of_base_two_and_tokens_are_counted(translator_of):
    (outcome,) = translator_of("--decoding", "greedy").translate_lines(["a b c"])
    assert outcome.n_source_tokens == 3
    (best,) = outcome.hypotheses
    assert (best.text, best.n_tokens) == ("c b a", 3)
    assert -2 / math.log(2) < best.score < 0


def test_the_order_of_work_does_not_show(translator_of):
    translator = translator_of("--decoding", "greedy", "--batch-size", 2)
    together = translator.translate_lines(WORDS)
    one_by_one = [translator.translate_lines([line])[0] for line in WORDS]
    assert [r.hypotheses[0].text for r in together] == [r.hypotheses[0].text for r in one_by_one]


def test_lines_that_are_too_long(translator_of):
    translator = translator_of("--decoding", "greedy")
    fits, problem, again = translator.translate_lines(["a b c", "a " * 2000, "a"])
    assert isinstance(fits, Outcome) and isinstance(again, Outcome)
    assert problem.startswith("too long: 2001 tokens with the end mark, but --max-source-positions")
    translator = translator_of("--max-tokens", 3, "--decoding", "greedy")
    _, problem = translator.translate_lines(["a b", "a b c"])
    assert "4 tokens with the end mark, but --max-tokens allows 3" in problem


class Broken:
    """A tokeniser that takes no line with an ``a``."""

    def encode(self, text):
        if "a" in text:
            raise KeyError("no a")
        return text

    def decode(self, text):
        return text


def test_what_a_tokeniser_cannot_take(translator_of):
    translator = translator_of("--decoding", "greedy")
    translator._translator.codec.coders = [Broken()]
    fine, problem = translator.translate_lines(["b", "a b"])
    assert isinstance(fine, Outcome)
    assert problem.kind == "not tokenised" and "no a" in problem
    with pytest.raises(ValueError, match="--tokenizer, --bpe: the line 'a' .*no a"):
        translator.prepare()


def test_a_score_that_is_not_finite_loses_its_line_only(translator_of):
    given = ["--decoding", "greedy", "--batch-size", 3]
    lines = ["a b c", "d e", "c a"]
    expected = translator_of(*given).translate_lines(lines)
    translator = translator_of(*given)
    word = translator._translator.task.source_dictionary.index("e")
    embedding = translator._translator.models[0].encoder.embed_tokens
    with torch.no_grad():
        embedding.weight = torch.nn.Parameter(embedding.weight.detach().clone())
        embedding.weight[word] = float("nan")
    first, lost, last = translator.translate_lines(lines)
    assert lost.kind == "not finite" and "--engine-precision fp32" in lost
    assert [first, last] == [expected[0], expected[2]]


@pytest.mark.parametrize("decoding", ["fairseq", "streaming"])
def test_sampling_depends_on_the_seed_alone(translator_of, decoding):
    options = ["--decoding", decoding, "--sampling", "--beam", 1, "--temperature", 3]
    translator = translator_of(*options)
    first, again, other = (translator.translate_lines(WORDS * 3, seed) for seed in (1, 1, 2))
    assert first == again and first != other
    assert translator_of(*options).translate_lines(WORDS * 3, 1) == first


def test_ensembles_and_progress(translator_of, baseline, blockwise):
    translator = translator_of("--decoding", "greedy", path=f"{baseline}:{blockwise}")
    told = []
    assert len(translator.translate_lines(WORDS, 1, told.append)) == sum(told) == len(WORDS)


def test_a_checkpoint_for_another_machine(corpus, baseline, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    given = [baseline, baseline, "--data", corpus, "--bpe-codes", codes, "--lenpen", 0.5]
    given += ["--user-dir", os.path.relpath(tmp_path)]
    model = parse_args([str(own) for own in given]).model
    portable, files = model.portable()
    name = os.path.basename(baseline)
    assert files == {
        f"model0/{name}": str(baseline),
        f"model1/{name}": str(baseline),
        "data/dict.de.txt": str(corpus / "dict.de.txt"),
        "data/dict.en.txt": str(corpus / "dict.en.txt"),
        "bpe_codes/codes": str(codes),
    }
    assert portable.paths == [f"model0/{name}", f"model1/{name}"]
    assert portable.options == {
        "data": "data", "source_lang": "en", "target_lang": "de", "lenpen": 0.5,
        "bpe_codes": "bpe_codes/codes",
    }  # fmt: skip
    assert portable.user_dir == str(tmp_path)
    assert model.paths == [str(baseline)] * 2 and model.options["data"] == str(corpus)


def test_drafts_are_those_of_the_lines_numbers(translator_of, tmp_path):
    """And lines that are not UTF-8 have numbers, too."""
    alone = translator_of("--decoding", "greedy")
    expected = alone.translate_lines(WORDS)
    texts = [result.hypotheses[0].text for result in expected]
    drafts = tmp_path / "drafts"
    drafts.write_text("\n".join([*[""] * 20, texts[0], "j", *texts[1:]]), encoding="utf-8")
    drafted = translator_of("--decoding", "greedy", "--draft-file", drafts)
    first, *others = (line.encode("utf-8") for line in WORDS)
    source = b"\n".join([first, b"\xff", *others, b""])
    rules = OutputRules(on_error="empty")
    drafted._rules = alone._rules = rules
    chunk = Chunk(3, 20, source)
    assert drafted.translate(chunk, lambda n: None) == alone.translate(chunk, lambda n: None)


# Imported models


@compiled
def test_languages_of_a_model_of_many(tmp_path, translate, source):
    lines = ["w1 w2 w3", "w5 w6"]
    source.write_text("".join(f"{line}\n" for line in lines))
    folder = written(tmp_path / "model")
    translator = fairseq_fastdec.load(folder)
    export(translator, folder / "model.fastdec")
    for model in ([folder / "model.fastdec"], [folder, "--cpu"]):
        for number, pair in enumerate([("fra_Latn", "zho_Hant"), ("fr", "zh-Hant")]):
            found = translate(
                *model, output=f"{len(model)}{number}", given=["-s", pair[0], "-t", pair[1]]
            ).decode()
            expected = translator.translate(lines, source="fr", target="zho_Hant")
            assert found.splitlines() == expected
    with pytest.raises(SystemExit, match="target zh: ambiguous; choose from zho_Hans, zho_Hant"):
        translate(folder / "model.fastdec", output="other", given=["-t", "zh"])


@pytest.fixture
def published(tmp_path):
    """An imported model with recorded options, of which one names a file."""
    marian_writing.write_shortlist(tmp_path / "lex.bin", 2, [[2 + n % 6] for n in range(22)])
    files = {"own.bin": (tmp_path / "lex.bin").read_bytes(), "sentencepiece.bpe.model": b"a"}
    files["target.spm"] = b"b"
    defaults = {**DEFAULTS, "beam": 3, "shortlist": "own.bin"}
    return written(tmp_path / "model", "one pair", defaults=defaults, files=files)


def test_recorded_options_are_part_of_the_settings(published):
    model = CorpusModel([str(published)], {"bpe": None})
    before = model.settings()
    (published / "own.bin").write_bytes(b"changed")
    assert model.settings()["files"] != before["files"]
    (published / "generation.json").write_text('{"beam": 2}')
    assert len(model.settings()["files"]) == len(before["files"]) - 1


def test_recorded_options_on_another_machine(published, tmp_path, monkeypatch):
    copy, files = CorpusModel([str(published)], {"bpe": None}).portable()
    assert copy.paths == ["model0/checkpoint.pt"]
    for name, path in files.items():
        (tmp_path / "other" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "other" / name).write_bytes(Path(path).read_bytes())
    assert (tmp_path / "other" / "bpe_codes" / "target.spm").read_bytes() == b"b"
    lines = ["w1 w2 w3", "w5 w6"]
    expected = fairseq_fastdec.load(published, bpe=None).translate(lines)
    monkeypatch.chdir(tmp_path / "other")
    own = copy.translator(OutputRules(), None)
    found = [line.hypotheses[0].text for line in own.translate_lines(lines)]
    assert found == expected
    free = fairseq_fastdec.load(published, bpe=None, shortlist=None)
    assert found != free.translate(lines)
