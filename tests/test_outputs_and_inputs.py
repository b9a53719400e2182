"""No command overwrites what it reads, by whatever name; and what commands say of paths."""

import os
import shutil

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec import __main__ as front
from tests.support import after_import


@pytest.fixture
def place(corpus, baseline, bundle, tmp_path):
    """Copies of inputs: nothing is lost if a test fails."""
    shutil.copytree(corpus, tmp_path / "data")
    shutil.copy(baseline, tmp_path / "data" / "checkpoint.pt")
    shutil.copytree(tmp_path / "data", tmp_path / "distilled" / "data")
    shutil.copy(bundle, tmp_path / "bundle")
    (tmp_path / "text").write_text("a b\n")
    (tmp_path / "sentence-1.svg").write_text("a b\n")
    return tmp_path


COMMANDS = {
    "average-checkpoints": ("--inputs data/checkpoint.pt --output {}", "data/checkpoint.pt"),
    "build-shortlist": ("data --output {}", "data/dict.en.txt"),
    "export": ("data --tokenizer none --output {}", "data/checkpoint.pt"),
    "export of dictionaries": ("data --tokenizer none --output {}", "data/dict.de.txt"),
    "translate": ("bundle --input text --output {}", "text"),
    "translate with itself": ("bundle --input text --output {}", "bundle"),
    "translate with a memory": (
        "bundle --input bundle --memory-source text --memory-target text --output {}", "text",
    ),
    "translate with drafts": ("bundle --input bundle --draft-file text --output {}", "text"),
    "ddgviz": ("data --path data/checkpoint.pt --cpu --sentences {} --output .", "sentence-1.svg"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["same", "dots", "symbolic", "hard"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_overwrites_an_input(name, kind, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    words, read = COMMANDS[name]
    content = (place / read).read_bytes()
    # The name in the command line; for ddgviz that of the input.
    if kind == "dots":
        written = f"./data/../{read}"
    elif kind == "same":
        written = read
    else:
        written = "other"
        (os.link if kind == "hard" else os.symlink)(os.path.abspath(read), place / written)
    with pytest.raises(SystemExit) as end:
        front.main([name.split()[0], *words.format(written).split()])
    told = capsys.readouterr().err
    assert end.value.code == 2 and "is the input; name another file" in told, told
    assert (place / read).read_bytes() == content


def test_distilling_keeps_the_data(place, monkeypatch, capsys):
    """Its directory for the results is replaced as a whole."""
    monkeypatch.chdir(place)
    given = ["--path", "distilled/data/checkpoint.pt", "--cpu", "--destdir", "distilled"]
    for data, model in (("distilled/data", "data"), ("data", "distilled/data")):
        given[1] = f"{model}/checkpoint.pt"
        with pytest.raises(SystemExit):
            front.main(["distill", data, *given])
        assert "distilled/data would be replaced, but contains the input" in capsys.readouterr().err
    assert (place / "distilled" / "data" / "dict.en.txt").exists()


def test_statistics_do_not_replace_drafts(place, monkeypatch):
    monkeypatch.chdir(place)
    given = ["data", "--path", "data/checkpoint.pt", "--cpu", "--decoding", "greedy"]
    for option in ("--draft-file", "--shortlist"):
        with pytest.raises(ValueError, match="--decoding-stats ./text: is the input; name another"):
            front.run_fairseq("generate", [*given, "--decoding-stats", "./text", option, "text"])
    with pytest.raises(ValueError, match="--decoding-stats .*: is the input; name another"):
        front.run_fairseq("generate", [*given, "--decoding-stats", "data/checkpoint.pt"])
    assert (place / "text").read_text() == "a b\n"


@pytest.mark.parametrize(
    "words, message",
    [
        (["translate", ""], "path '': is empty; give a checkpoint"),
        (["export", "", "--output", "out"], "path '': is empty; give a checkpoint"),
        (["export", "data", "--output", ""], "--output: is empty; name a file"),
        (["export", "data", "--data", "", "--output", "out"], "data '': is empty"),
        (["serve", ""], "path '': must not be empty"),
        (["distill", "data", "--path", "a.pt", "--destdir", ""], "--destdir: is empty"),
        (["average-checkpoints", "--inputs", "", "--output", "out"], "--inputs: is empty"),
        (["translate", "alone/a.pt"], "give --data DIRECTORY"),
        (["export", "alone/a.pt", "--output", "out"], "give --data DIRECTORY"),
        (["serve", "alone/a.pt"], "or give a bundle, made by `export` with --data"),
        (["translate", "bundle", "--input", "text", "--output", "/dev/null"],
         "--output /dev/null: is not a file; name another one, or give --output -"),
    ],
)  # fmt: skip
def test_messages_name_what_the_command_has(words, message, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    (place / "alone").mkdir()
    shutil.copy(place / "data" / "checkpoint.pt", place / "alone" / "a.pt")
    with pytest.raises(SystemExit) as end:
        front.main(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.replace("argument --output: :", "--output:")


def test_a_folder_that_is_not_utf_8(tmp_path):
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    shutil.copytree(MODEL, folder)
    assert fairseq_fastdec.load(folder).translate("File") == "Datei"


def test_ensembles_of_a_command_line(tmp_path, capsys):
    (tmp_path / "in").write_text("File\n")
    member = str(MODEL / "checkpoint.pt")
    for number, models in enumerate(([f"{member}:{member}"], [member, member])):
        out = tmp_path / str(number)
        front.main(["translate", *models, "--input", str(tmp_path / "in"), "--output", str(out)])
        assert out.read_text() == "Datei\n"


def test_the_plugin_in_other_directories(corpus, baseline, tmp_path):
    """As with an editable installation: fairseq finds no folder of this name."""
    given = [corpus, "--path", baseline, "--cpu", "--num-workers", 0, "--quiet"]
    given += ["--user-dir", "fairseq_fastdec", "--decoding", "greedy"]
    code = "from fairseq_fastdec.__main__ import run; import os, sys; os.chdir(sys.argv.pop(1));"
    done = after_import.run(f"{code} run()", tmp_path, "generate", *given, imported="torch")
    assert done.returncode == 0, done.stderr
