"""Every command of the pages of Opus-MT, NLLB-200 and Firefox, on tiny models or little text."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq import checkpoint_utils

import fairseq_fastdec
from examples.common.en_de import EN_DE
from examples.firefox import files
from fairseq_fastdec import __main__ as front
from fairseq_fastdec.serving import command as serving
from fairseq_fastdec.serving.app import create_app
from tests.support import command_line, huggingface, snippets
from tests.support.compiled import compiled
from tests.support.firefox_models import directory as firefox_directory
from tests.support.services import call

pytestmark = compiled

PAGES = {
    "opus": ("marian", "opus-mt-en-de", ("en", "de")),
    "nllb": ("nllb", "nllb-200-distilled-600M", ("eng_Latn", "deu_Latn")),
}
FEW = ["--max-update", 3, "--max-tokens", 400, "--warmup-updates", 2, "--num-workers", 0, "--cpu"]
INSTALLING = ("pip", "hf")
N_LINES = 12
LINE = "Open the file."


def commands_of(page):
    """The words after ``python`` of a page's commands, without those that install something."""
    path = snippets.ROOT / "examples" / page / "README.md"
    return [own.words[1:] for own in snippets.commands(path) if own.program not in INSTALLING]


def run(words):
    """Run a command of the package in this process; a training is short."""
    assert words[:2] == ["-m", "fairseq_fastdec"]
    name, *rest = words[2:]
    if name == "serve":
        return served(*rest)
    if name == "train":
        # The best loss of another training in this process would stay the best.
        vars(checkpoint_utils.save_checkpoint).pop("best", None)
        program = SimpleNamespace(cli_main=lambda: front.main(["train", *sys.argv[1:]]))
        return command_line.run(program, *rest, *FEW, "--no-progress-bar")
    more = {"translate": ["--workers", "1"], "distill": ["--workers", "1", "--cpu"]}
    return front.main([name, *rest, *more.get(name, [])])


def served(*words):
    """The translation that the service of a command answers with."""
    config = serving.config_of(serving._parser("serve").parse_args(words))
    pair = serving._open(config.models[0], config.server)
    try:
        request = {"q": LINE, "source": pair.source, "target": pair.target}
        response = call(create_app([pair], config.server), "POST", "/translate", json=request)
    finally:
        pair.translator.close()
    assert response.status_code == 200, response.text
    return response.json()["translatedText"]


def write_text(languages):
    """Write text in a directory ``text``, named by languages."""
    Path("text").mkdir()
    for split, source in (("train", "valid"), ("valid", "test"), ("test", "test")):
        for language, name in zip(languages, ("en", "de")):
            text = (EN_DE / "data" / f"{source}.{name}").read_text(encoding="utf-8")
            lines = text.splitlines(keepends=True)[:N_LINES]
            Path("text", f"{split}.{language}").write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_hugging_face(page, tmp_path, monkeypatch):
    kind, name, languages = PAGES[page]
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    huggingface.save(Path(name), kind, max_position_embeddings=512)
    write_text(languages)
    # The comparison of Jacobi's methods has a test of its own.
    answers = [run(words) for words in commands_of(page) if words[0] == "-m"]
    assert len(answers) >= 8
    (model,) = (words[words.index("--destdir") + 1] for words in commands_of(page)[:1])
    translator = fairseq_fastdec.load(model)
    pair = dict(zip(("source", "target"), languages))
    lines = Path("text", f"test.{languages[0]}").read_text(encoding="utf-8").splitlines()
    found = {}
    for decoding, path in (("plain", "test"), ("greedy", "test.blockwise")):
        text = Path(f"{path}.{languages[1]}").read_text(encoding="utf-8")
        found[decoding] = text.splitlines()
    assert found["plain"] == translator.translate(lines, **pair)
    # Heads have no recorded options.
    Path(model, "generation.json").unlink()
    expected = fairseq_fastdec.load(model).translate(lines, decoding="greedy", **pair)
    assert found["greedy"] == expected
    assert answers[3] == fairseq_fastdec.load(f"{model}.fastdec").translate(LINE)


def test_the_page_of_firefox(tmp_path, monkeypatch):
    folder = firefox_directory("enpt")
    monkeypatch.setattr(sys, "argv", ["files.py", str(tmp_path / "models")])
    files.main()
    assert {path.name for path in folder.iterdir()} == {
        path.name for path in (tmp_path / "models" / "en-pt").iterdir()
    }
    Path(tmp_path, "examples").symlink_to(snippets.ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    commands = [words for words in commands_of("firefox") if words[1] == "fairseq_fastdec"]
    answers = [run(words) for words in commands]
    assert len(answers) == 4 and answers[-1] == "Abra o arquivo."
    assert "Clique no botão Salvar." in Path("everyday.pt").read_text(encoding="utf-8")


def test_files_without_the_package(monkeypatch):
    monkeypatch.setattr(files, "PACKAGE", "no-such-package")
    with pytest.raises(SystemExit, match="is not installed.*pip install no-such-package"):
        files.directory_of("en-pt")
