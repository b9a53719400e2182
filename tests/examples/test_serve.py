"""The load generator, the comparison with CTranslate2, and the configuration beside them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from examples.common.engine_batches import EngineBatches
from examples.serve import load as example
from examples.serve import peers
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.serving import config
from fairseq_fastdec.tools.export import export
from tests.support import skips
from tests.support.services import UpperCase, running

FOLDER = Path(example.__file__).parent
ROOT = FOLDER.parents[1]


def test_a_server_under_load(tmp_path, capsys):
    with running(UpperCase(seconds=0.01)) as port:
        example.main([
            f"http://127.0.0.1:{port}", "--rates", "20", "50", "--seconds", "0.5",
            "--json", str(tmp_path / "load.json"), "--plot", str(tmp_path / "load.png"),
        ])  # fmt: skip
    results = json.loads((tmp_path / "load.json").read_text("utf-8"))
    assert [result["rate"] for result in results] == [20, 50]
    for result in results:
        assert result["requests"] > 3 and result["failed"] == 0
        assert 10 <= result["p50"] <= result["p95"] <= result["p99"]
    assert (tmp_path / "load.png").stat().st_size > 1000
    assert "| 20 | " in capsys.readouterr().out


def test_failures_are_counted(capsys):
    with running() as port:
        example.main([f"http://127.0.0.1:{port}", "--rates=40", "--seconds=0.3", "--target=fr"])
    row = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert row[1] == row[2] != "0" and row[4] == "nan"


@pytest.mark.skipif(loading.library() is None, reason=skips.COMPILER)
def test_a_server_that_translates_one_sentence_after_the_other(tmp_path, monkeypatch, capsys):
    skips.needs("ctranslate2")
    files = {name: tmp_path / name for name in ("json", "plot.svg", "text")}
    files["text"].write_text("Open the file.\nSave the document.\n")
    monkeypatch.setattr("sys.argv", [
        "peers.py", "--workdir", str(tmp_path / "work"), "--rounds", "1", "--seconds", "0.5",
        "--threads", "1", "--clients", "4", "--rates", "20", "--sentences", str(files["text"]),
        "--json", str(files["json"]), "--plot", str(files["plot.svg"]),
    ])  # fmt: skip
    peers.main()
    document = json.loads(files["json"].read_text("utf-8"))
    assert document["ratio"] > 0 and document["equal"] > 0 and document["commit"]
    name = "CTranslate2, one after the other, 1 thread"
    assert list(document["sentences_per_second"]) == ["fcfs", name]
    assert list(document["loads"]) == ["fcfs", "shortest", name]
    assert all(own["failed"] == 0 for (own,) in document["loads"].values())
    assert files["plot.svg"].stat().st_size > 1000
    assert "times as many as CTranslate2" in capsys.readouterr().out


@pytest.mark.skipif(loading.library() is None, reason=skips.COMPILER)
@pytest.mark.parametrize("options", [{}, dict(beam=2)])
def test_static_batches_have_the_translations_of_the_translator(options):
    translator = fairseq_fastdec.load(MODEL, **options)
    texts = ["Open the file.", "Save the document before you close the window.", "Delete it."]
    jobs = [translator.job(text, {}) for text in texts]
    decode = EngineBatches(jobs[0].recipe, 1)
    assert decode(jobs) == decode(jobs) == translator.translate(texts)


@pytest.mark.parametrize("part, expected", [(0.5, 2), (0.95, 4), (0.0, 1), (1.0, 4)])
def test_quantiles(part, expected):
    assert example.quantile([3, 1, 4, 2], part) == expected


def test_the_configuration():
    (model,) = config.read(str(FOLDER / "serve.toml")).models
    assert Path(model.path).is_dir()


def test_a_service_of_bundles_imports_nothing_else(tmp_path):
    """Imports of packages fail, except those of fastdec-runtime with the extra "serve"."""
    path = tmp_path / "model.fastdec"
    export(fairseq_fastdec.load(MODEL), path)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, path], capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()


# Translates with a bundle, with the packages of fastdec-runtime alone.
ALONE = """
import asyncio, importlib.metadata, re, sys

def name_of(requirement):
    return re.match(r"[\\w.-]+", requirement)[0].lower().replace("_", "-")

wanted, known = ["fastdec-runtime"], set()
while wanted:
    name = name_of(wanted.pop())
    try:
        needed = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        continue
    if name not in known:
        extra = None if known else "serve"
        known.add(name)
        for line in needed:
            of_extra = re.search("extra == .(\\w+)", line)
            if of_extra is None or of_extra[1] == extra:
                wanted.append(line)
packages = importlib.metadata.packages_distributions()

class Refusing:
    def find_spec(self, name, path=None, target=None):
        owners = {name_of(owner) for owner in packages.get(name.partition(".")[0], ())}
        if owners and not owners & known:
            raise ModuleNotFoundError(f"no module {name}", name=name)

sys.meta_path.insert(0, Refusing())
from fairseq_fastdec.serving import app, command, slow_clients
translator = command.open_translator(sys.argv[1], threads=1)
app.create_app([app.LanguagePair("en", "de", translator)], command.ServerOptions())
print(asyncio.run(translator.translate_async("Click the button.")))
"""
