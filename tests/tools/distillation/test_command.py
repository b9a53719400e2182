"""``distill`` end to end: a tiny teacher, interruptions, what fairseq loads afterwards."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fairseq.data import Dictionary, data_utils

import fairseq_fastdec
from fairseq_fastdec.corpora import progress_bar
from fairseq_fastdec.tasks.translation_fastdec import TranslationFastdecTask
from fairseq_fastdec.tools import prepare_data
from fairseq_fastdec.tools.distillation import command, dataset, teacher
from tests.support import command_line, imported_models

COMMAND = [sys.executable, "-m", "fairseq_fastdec", "distill"]
LIMITS = ["--max-len-b", 12]


@pytest.fixture()
def distill(corpus, baseline, tmp_path):
    """A function that runs the command; it returns the data directory."""

    def run(*arguments, path=baseline, destdir="out", data=corpus):
        fixed = [data, "--path", path, "--cpu", "--no-progress-bar", *LIMITS]
        fixed += ["--destdir", tmp_path / destdir]
        command.main([str(argument) for argument in [*fixed, *arguments]])
        return tmp_path / destdir / "data"

    return run


def sentences(directory, split, language):
    """What fairseq loads: lists of token numbers."""
    words = Dictionary.load(str(directory / f"dict.{language}.txt"))
    dataset = data_utils.load_indexed_dataset(str(directory / f"{split}.en-de.{language}"), words)
    return [dataset[index].tolist() for index in range(len(dataset))]


def strings(directory, split, language):
    words = Dictionary.load(str(directory / f"dict.{language}.txt"))
    return [words.string([t for t in s if t != 2]) for s in sentences(directory, split, language)]


def contents(directory):
    """Every file that training reads; the log names paths."""
    files = (f for f in directory.rglob("*") if f.is_file() and f.name != "preprocess.log")
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def translations(corpus, path, *options):
    """fairseq-generate's translations of the training data, in order."""
    printed = command_line.generate(corpus, path, "--gen-subset", "train", *LIMITS, *options)
    found = command_line.hypotheses(printed)
    assert sorted(found) == list(range(600))
    return [found[number] for number in range(600)]


@pytest.mark.parametrize(
    "options",
    [[], ["--decoding", "greedy"], ["--decoding", "fairseq", "--beam", 2, "--prefix-size", 1]],
    ids=["default", "greedy", "fairseq"],
)
def test_targets_are_the_teachers_translations(distill, corpus, baseline, options):
    data = distill("--shard-size", 250, *options)
    expected = translations(corpus, baseline, *(options or ["--decoding", "streaming"]))
    assert strings(data, "train", "de") == expected
    assert sentences(data, "train", "en") == sentences(corpus, "train", "en")
    assert (data / "text" / "train.de").read_text(encoding="utf-8").split("\n")[:-1] == expected


def test_the_rest_is_as_it_was(distill, corpus, blockwise):
    data = distill("--decoding", "greedy", path=f"{blockwise}:{blockwise}")
    for name in ("dict.en.txt", "dict.de.txt", *(f.name for f in corpus.glob("valid.*"))):
        assert (data / name).read_bytes() == (corpus / name).read_bytes()
    assert sentences(data, "test", "de") == sentences(corpus, "test", "de")
    printed = command_line.train(
        data, data.parent / "student", "--task", "translation", "--arch", "transformer", updates=2
    )
    assert isinstance(printed, str) and (data.parent / "student" / "checkpoint_last.pt").exists()


def test_unknown_words_and_bpe_codes(distill, corpus, tmp_path):
    """Sources come from the binarised data, where an unknown word is nothing else any more."""
    data = tmp_path / "data"
    (tmp_path / "train.en").write_text("a b ü c\n\nd\n", encoding="utf-8")
    (tmp_path / "train.de").write_text("a\nb\nc\n", encoding="utf-8")
    command_line.preprocess(
        "-s", "en", "-t", "de", "--trainpref", tmp_path / "train", "--destdir", data,
        "--srcdict", corpus / "dict.en.txt", "--tgtdict", corpus / "dict.de.txt",
    )  # fmt: skip
    (data / "bpe.codes").write_text("#version: 0.2\n")
    (data / "test-logs").mkdir()
    out = distill(data=data)
    assert not (out / "test-logs").exists(), "copied are files"
    assert sentences(out, "train", "en") == sentences(data, "train", "en")
    assert (out / "text" / "train.en").read_text() == "a b <unk> c\n\nd\n"
    assert (out / "bpe.codes").read_text() == "#version: 0.2\n"


def test_a_killed_process_goes_on(distill, corpus, baseline, tmp_path):
    """kill -9 somewhere in the middle, then the same command again."""
    shards = tmp_path / "killed" / "shards"
    process = subprocess.Popen(
        [*COMMAND, corpus, "--path", baseline, "--cpu", *map(str, LIMITS)]
        + ["--destdir", shards.parent, "--shard-size", "1", "--no-progress-bar"],
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and len(list(shards.glob("*.chunk"))) < 20:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in shards.glob("*.chunk")}
    assert 20 <= len(done) < 600 and not (tmp_path / "killed" / "data").exists()

    resumed = distill("--shard-size", 1, destdir="killed")
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert contents(resumed) == contents(distill(destdir="whole"))


@pytest.mark.parametrize("place", ["text", "binarize", "copy", "rename"])
def test_an_interruption_while_the_data_are_made(distill, monkeypatch, tmp_path, place):
    def stop(*_, **__):
        raise KeyboardInterrupt

    names = {"text": "write_pairs", "binarize": "binarize", "copy": "copy_rest"}
    with (
        monkeypatch.context() as patch,
        pytest.raises(SystemExit, match="run the same command again"),
    ):
        if place == "rename":
            patch.setattr(Path, "rename", stop)
        else:
            patch.setattr(dataset, names[place], stop)
        distill()
    assert not (tmp_path / "out" / "data").exists()
    assert contents(distill()) == contents(distill(destdir="whole"))


def test_finished_shards_are_not_translated_again(distill, monkeypatch, capsys):
    whole = contents(distill("--shard-size", 100))
    monkeypatch.setattr(teacher, "load_models", None)
    assert contents(distill("--shard-size", 100)) == whole
    assert "distilled pairs: 600 kept" in capsys.readouterr().out


def test_damaged_shards_are_translated_again(distill, tmp_path, capsys, caplog):
    """Emptied and shortened, as after a power failure."""
    whole = contents(distill("--shard-size", 100))
    shards = tmp_path / "out" / "shards"
    (shards / "00000001.chunk").write_bytes(b"")
    text = (shards / "00000004.chunk").read_text(encoding="utf-8")
    (shards / "00000004.chunk").write_text("".join(text.splitlines(keepends=True)[:-10]))
    capsys.readouterr()
    assert contents(distill("--shard-size", 100)) == whole
    for number in range(6):
        noticed = f"0000000{number}.chunk: damaged; translated again" in caplog.text
        assert noticed == (number in (1, 4))
    assert "distilled pairs: 600 kept\n" in capsys.readouterr().out


def test_each_process_translates_its_own_damaged_shards_again(distill, tmp_path, caplog):
    distill("--shard-size", 100)
    shards = sorted((tmp_path / "out" / "shards").iterdir())[:3]
    for path in shards:
        path.write_bytes(b"")
    distill("--shard-size", 100, "--num-shards", 2, "--shard-id", 1)
    assert caplog.text.count("damaged") == 1
    assert [path.stat().st_size > 0 for path in shards] == [False, True, False]


def damaged_checkpoints(baseline):
    whole = Path(baseline).read_bytes()
    return {
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "other": b"no checkpoint at all\n",
        "zeros": bytes(5000),
        "pickle": pickle.dumps({"weights": [1, 2]}),
    }


@pytest.mark.parametrize("kind", ["empty", "cut", "other", "zeros", "pickle"])
def test_damaged_checkpoints_are_named(distill, baseline, tmp_path, kind):
    path = tmp_path / "damaged.pt"
    path.write_bytes(damaged_checkpoints(baseline)[kind])
    with pytest.raises(
        SystemExit, match=f"fairseq_fastdec distill: {path}: is damaged, or not a checkpoint"
    ) as stopped:
        distill(path=f"{baseline}:{path}")
    assert "\n" not in str(stopped.value) and "Re-running" not in str(stopped.value)


def test_damaged_settings_are_named(distill, tmp_path):
    distill()
    path = tmp_path / "out" / "settings.json"
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(SystemExit, match=f"fairseq_fastdec distill: {path}: damaged; delete it"):
        distill()


def test_several_processes(distill, tmp_path):
    for number in (1, 0):
        distill("--shard-size", 100, "--num-shards", 2, "--shard-id", number)
        assert not (tmp_path / "out" / "data").exists()
        assert len(list((tmp_path / "out" / "shards").iterdir())) == (3 if number else 6)
    data = distill("--shard-size", 100)
    assert contents(data) == contents(distill(destdir="whole"))


def test_filters_leave_pairs_out_and_count_them(distill, capsys):
    everything = distill()
    kept = distill("--drop-longer-a", 0.5, "--drop-longer-b", 2)
    source, target = (strings(kept, "train", language) for language in ("en", "de"))
    n_kept = len(source)
    assert f"distilled pairs: {n_kept} kept, {600 - n_kept} too long\n" in capsys.readouterr().out
    assert 0 < n_kept < 600
    assert all(len(t.split()) <= 0.5 * len(s.split()) + 2 for s, t in zip(source, target))
    assert everything == kept  # made anew from the same translations
    distill("--drop-longer-b", 12, "--drop-empty")
    assert "distilled pairs: 600 kept\n" in capsys.readouterr().out


def test_sentences_that_the_model_cannot_take(distill, capsys):
    options = ["--gen-subset", "test", "--max-source-positions", 20]
    options += ["--skip-invalid-size-inputs-valid-test"]
    data = distill(*options)
    assert "distilled pairs: 28 kept, 1 not translated" in capsys.readouterr().out
    assert len(sentences(data, "train", "en")) == len(sentences(data, "train", "de")) == 28


def test_other_settings_do_not_mix(distill, baseline, blockwise, tmp_path):
    model = shutil.copy(baseline, tmp_path / "model.pt")
    distill(path=model)
    distill("--batch-size", 3, path=model)
    with pytest.raises(SystemExit, match="made with generation.beam = 5, but now it is 4"):
        distill("--beam", 4, path=model)
    with pytest.raises(SystemExit, match="made with shard_size = 8192"):
        distill("--shard-size", 9, path=model)
    shutil.copy(blockwise, model)
    with pytest.raises(SystemExit, match="made with checkpoints = "):
        distill(path=model)


FEW = ("--gen-subset", "test", "--decoding", "greedy")


@pytest.mark.parametrize(
    "options, name",
    [
        (["--gen-subset", "valid"], "gen_subset"),
        (["--seed", 2], "seed"),
        (["--fp16"], "fp16"),
        (["--model-overrides", "{'dropout': 0.1}"], "model_overrides"),
        (["--skip-invalid-size-inputs-valid-test"], "skip_invalid_size_inputs"),
        (["--max-source-positions", 99], "task.max_source_positions"),
        (["--lenpen", 2], "generation.lenpen"),
    ],
)
def test_every_setting_that_changes_translations_is_compared(distill, options, name):
    distill(*FEW)
    with pytest.raises(
        SystemExit, match=f"contains translations made with {name} = .*but now it is"
    ):
        distill(*FEW, *options)


def test_other_data_do_not_mix(distill, corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "copy")
    distill(*FEW)
    with pytest.raises(SystemExit, match="contains translations made with task.data = "):
        distill(*FEW, data=data)
    distill(*FEW, data=data, destdir="of_copy")
    for file in data.glob("valid.*"):
        shutil.copy(file, data / file.name.replace("valid", "test"))
    with pytest.raises(SystemExit, match="made with sentences = 29, but now it is 30"):
        distill(*FEW, data=data, destdir="of_copy")


def test_the_same_files_by_other_names(distill, corpus, baseline, monkeypatch):
    distill(*FEW)
    monkeypatch.setattr(teacher, "load_models", None)
    monkeypatch.chdir(corpus.parent)
    distill(*FEW, data=corpus.name, path=os.path.relpath(baseline))


def test_samples_do_not_depend_on_where_a_run_was_interrupted(distill, tmp_path):
    options = ["--gen-subset", "test", "--decoding", "fairseq", "--sampling", "--shard-size", 10]
    whole = contents(distill(*options))
    (tmp_path / "out" / "shards" / "00000001.chunk").unlink()
    assert contents(distill(*options)) == whole
    assert contents(distill(*options, "--seed", 2, destdir="other")) != whole


@pytest.mark.parametrize(
    "options, limits",
    [([], (1024, None)), (["--batch-size", 3], (None, 3)), (["--max-tokens", 99], (99, None))],
)
def test_batches_are_those_of_the_command_line(distill, monkeypatch, options, limits):
    """What this process decodes to prepare the weights shows it; workers do as it does."""
    seen = []
    plain = TranslationFastdecTask.get_batch_iterator

    def get_batch_iterator(self, *args, **options):
        seen.append((options["max_tokens"], options["max_sentences"]))
        return plain(self, *args, **options)

    monkeypatch.setattr(TranslationFastdecTask, "get_batch_iterator", get_batch_iterator)
    distill(*FEW, *options)
    assert seen == [limits]


def test_the_progress_bar_counts_sentences(distill, monkeypatch):
    bars = []
    plain = progress_bar.tqdm

    def tqdm(**options):
        bars.append(plain(**{**options, "disable": False}))
        return bars[-1]

    monkeypatch.setattr(progress_bar, "tqdm", tqdm)
    tqdm.monitor_interval = 0
    distill(*FEW, "--shard-size", 10, "--batch-size", 3)
    assert [(bar.n, bar.total) for bar in bars] == [(29, 29)]


@pytest.mark.parametrize("n_workers", [1, 3])
def test_the_number_of_workers_changes_nothing(distill, n_workers):
    given = [*FEW, "--shard-size", 5]
    whole = contents(distill(*given, "--workers", 2))
    assert contents(distill(*given, "--workers", n_workers, destdir="other")) == whole


def test_a_worker_that_is_killed_is_replaced(distill, monkeypatch, tmp_path, caplog):
    plain = teacher.Teacher.translate
    mark = tmp_path / "mark"

    def translate(self, shard, progress):
        if shard.number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, shard, progress)

    whole = contents(distill(*FEW, "--shard-size", 10))
    monkeypatch.setattr(teacher.Teacher, "translate", translate)
    assert contents(distill(*FEW, "--shard-size", 10, destdir="killed")) == whole
    assert "killed by SIGKILL" in caplog.text and mark.exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nbest", 2], "--nbest"),
        (["--bpe", "subword_nmt"], "--bpe: .* as in the data"),
        (["--tokenizer", "moses"], "--tokenizer: .* as in the data"),
        (["--post-process", "@@ "], "--post-process: "),
        (["--results-path", "x"], "--results-path: .* --destdir"),
        (["--path", "nowhere.pt"], "nowhere.pt"),
        (["--decoding", "blockwise"], "no prediction heads"),
        (["--shard-id", 2, "--num-shards", 2], "--shard-id 2: must be from 0 to 1"),
        (["--drop-longer-b", -1], "no pair is left .*0 kept, 600 too long"),
    ],
)
def test_errors_are_one_line(distill, arguments, message):
    with pytest.raises(SystemExit, match=f"fairseq_fastdec distill: .*{message}") as stopped:
        distill("--decoding", "greedy", *arguments)
    assert "\n" not in str(stopped.value)


def test_a_wrong_value_writes_nothing(distill, tmp_path):
    with pytest.raises(SystemExit, match="--lenpen 100"):
        distill("--lenpen", 100, destdir="new")
    assert not (tmp_path / "new").exists()


def test_one_data_directory_and_a_teacher(distill, corpus, tmp_path):
    with pytest.raises(SystemExit, match="several data directories"):
        distill(data=f"{corpus}:{corpus}")
    with pytest.raises(SystemExit, match="--path: give the teacher"):
        command.main([str(corpus), "--destdir", str(tmp_path / "out")])


def test_other_tasks_keep_their_own_decoding(tmp_path):
    common = ["data", "--destdir", str(tmp_path)]
    assert command.parse_args(common).decoding == "streaming"
    double = command.parse_args([*common, "--task", "translation_double_token"])
    assert double.decoding is None and double.gen_subset == "train"


def test_a_teacher_of_many_languages(tmp_path):
    """Its translations are written without the token of their language."""
    model = imported_models.written(tmp_path / "model")
    source, target = "eng_Latn", "zho_Hans"
    lines = ["w1 w2 w3", "w5", "w7 w7 w1"]
    for language in (source, target):
        (tmp_path / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    text = [f"--{split}" for split in ("train", "valid")]
    prepare_data.main([
        "-s", source, "-t", target, "--model", str(model), "--destdir", str(tmp_path / "data"),
        *(word for flag in text for word in (flag, str(tmp_path / "text"))),
    ])  # fmt: skip
    command.main([
        str(tmp_path / "data"), "--task", "translation_languages", "--path",
        str(model / "checkpoint.pt"), "--decoding", "greedy", "--max-len-b", "9", "--cpu",
        "--destdir", str(tmp_path / "out"), "--workers", "1",
    ])  # fmt: skip
    translator = fairseq_fastdec.load(model)
    expected = translator.translate(lines, source=source, target=target, max_len_b=9)
    written = (tmp_path / "out" / "data" / "text" / f"train.{target}").read_text().splitlines()
    # The random model generates tokens of languages, too, which are no text.
    is_text = [[word for word in line.split() if "__" not in word] for line in written]
    assert [" ".join(words) for words in is_text] == expected
    assert not any(line.startswith(f"__{target}__") for line in written)
    copied = tmp_path / "out" / "data" / "languages.json"
    assert copied.read_bytes() == (tmp_path / "data" / "languages.json").read_bytes()
