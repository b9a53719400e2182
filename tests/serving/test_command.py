"""The command line, and the server as a process."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from fairseq_fastdec.serving import command
from tests.support.services import UpperCase, free_port, running, until

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "en_de" / "model"
# A server whose model is a slow one of the tests, which prints what it is given.
SLOW = """
from fairseq_fastdec.serving import command
from tests.support.services import UpperCase

class Slow(UpperCase):
    async def translate_async(self, text, **options):
        print(text, flush=True)
        return await super().translate_async(text, **options)

command.open_translator = lambda path, **options: Slow(seconds=1)
command.main()
"""


def config_of(*words):
    return command.config_of(command._parser("serve").parse_args(words))


def test_a_model_and_options():
    words = "model --port 80 --api-key a --api-key b --beam 3 --source en --threads 2"
    config = config_of(*words.split())
    (model,) = config.models
    assert (model.path, model.source, model.beam) == ("model", "en", 3)
    assert model.decoding_options() == {"beam": 3}
    assert (config.server.port, config.server.threads) == (80, 2)
    assert config.server.api_keys == ("a", "b")


def test_keys_in_the_environment(monkeypatch):
    monkeypatch.setenv("FASTDEC_API_KEYS", "c,d")
    assert config_of("model", "--api-key", "a").server.api_keys == ("a", "c", "d")


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give either MODEL or --config FILE"),
        (["model", "--config", "file"], "give either MODEL or --config FILE"),
        (["--config", "file", "--max-chars", "3"], "--max-chars: not possible with --config"),
    ],
)
def test_options_that_do_not_go_together(words, message):
    with pytest.raises(ValueError, match=message):
        config_of(*words)


def test_empty_keys_and_ports_that_do_not_exist(monkeypatch):
    """A request without a key would match an empty one."""
    monkeypatch.setenv("FASTDEC_API_KEYS", " a, b,")
    assert config_of("model").server.api_keys == ("a", "b")
    for words, message in (
        (["model", "--api-key", ""], "api_key: must not be empty"),
        (["model", "--api-key", "a", "--api-key", " "], "api_key: must not be empty"),
        (["model", "--port", "65536"], "port 65536: must be at most 65535"),
    ):
        with pytest.raises(ValueError, match=message):
            config_of(*words)


@pytest.mark.parametrize(
    "words, message",
    [
        ([""], "path '': must not be empty"),
        (["--config", ""], "--config '': must not be empty"),
        (["m", "--host", ""], "host '': must not be empty"),
        (["m", "--memory-source", ""], "memory_source '': must not be empty"),
        (["m", "--memory-target", ""], "memory_target '': must not be empty"),
        (["m", "--source", ""], "source '': must not be empty"),
        (["m", "--decoding", ""], "decoding '': must not be empty"),
        (["m", "--api-key", "\udcff"], r"api_key '\\udcff': is not UTF-8"),
    ],
)
def test_empty_options(words, message):
    """An empty path would be the current directory, and an empty host all addresses."""
    with pytest.raises(ValueError, match=f"^{message}"):
        config_of(*words)


def test_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(SystemExit, match=r"package uvicorn is not installed: pip install") as end:
        command.main(["model"])
    assert end.value.code == 2


def test_a_model_that_is_not_there(tmp_path):
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(SystemExit, match="fairseq_fastdec serve: .*nowhere") as end:
        command.main([str(tmp_path / "nowhere")])
    assert end.value.code == 2
    # A process that is forked later inherits the handlers. One that is terminated before it runs
    # its function would go on with the tests.
    assert [signal.getsignal(number) for number in numbers] == before


def test_a_port_that_is_taken():
    with running() as port, pytest.raises(SystemExit) as end:
        command.main([str(MODEL), "--port", str(port)])
    assert end.value.code == 2
    message = f"--host 127.0.0.1 --port {port}: cannot listen: Address already in use"
    assert str(end.value) == f"python -m fairseq_fastdec serve: {message}"


def start(*words, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, *map(str, words)]
    return subprocess.Popen(words, cwd=ROOT, env=environment, **options)


def is_up(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx.TransportError:
        return False


def ask(port):
    fields = {"q": "Save the document.", "source": "en", "target": "de"}
    return httpx.post(f"http://127.0.0.1:{port}/translate", json=fields, timeout=120).json()


def test_sigterm_lets_requests_finish():
    port = free_port()
    process = start("-c", SLOW, "model", "--port", port, stdout=subprocess.PIPE)
    try:
        until(lambda: is_up(port))
        answers = []
        asking = threading.Thread(target=lambda: answers.append(ask(port)))
        asking.start()
        assert process.stdout.readline() == b"Save the document.\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        asking.join()
        assert answers == [{"translatedText": "SAVE THE DOCUMENT."}]
    finally:
        process.kill()
        process.communicate()


def test_the_command_with_a_real_model(tmp_path):
    port = free_port()
    file = tmp_path / "serve.toml"
    file.write_text(
        f'[server]\nport = {port}\n[[models]]\npath = "{MODEL}"\ndecoding = "greedy"\n',
        encoding="utf-8",
    )
    process = start("-m", "fairseq_fastdec", "serve", "--config", file)
    try:
        until(lambda: is_up(port), seconds=120)
        assert "translatedText" in ask(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


def test_a_translation_memory_needs_a_bundle():
    words = ["--memory-source", "old.en", "--memory-target", "old.de"]
    (model,) = config_of("model", *words).models
    assert model.decoding_options() == {"memory_source": "old.en", "memory_target": "old.de"}
    with pytest.raises(ValueError, match="^memory_source old.en: only for bundles, and not with"):
        command._open(model, command.ServerOptions())


def test_a_model_without_languages(monkeypatch):
    model = UpperCase(None, None)
    monkeypatch.setattr(command, "open_translator", lambda path, **options: model)
    with pytest.raises(ValueError, match="give --source and --target"):
        command._open(config_of("model", "--source", "en").models[0], command.ServerOptions())
    assert model.closed
    config = config_of("model", "--source", "en", "--target", "de", "--beam", "4")
    pair = command._open(config.models[0], config.server)
    assert (pair.source, pair.target, pair.beam) == ("en", "de", 4)
