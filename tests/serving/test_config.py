"""The configuration file."""

import pytest

from fairseq_fastdec.serving import config

COMPLETE = """
[server]
host = "0.0.0.0"
port = 8000
api_keys = ["a", "b"]
max_chars = 10
threads = 2

[[models]]
path = "en_de"
source = "en"
target = "de"
beam = 4

[[models]]
path = "/models/de_en"
policy = "shortest"
memory_source = "old.de"
memory_target = "/old.en"
"""


@pytest.fixture
def read(tmp_path):
    def run(text):
        path = tmp_path / "serve.toml"
        path.write_text(text, encoding="utf-8")
        return config.read(str(path))

    return run


def test_a_file(read, tmp_path):
    found = read(COMPLETE)
    assert found.server == config.ServerOptions(
        host="0.0.0.0", port=8000, api_keys=("a", "b"), max_chars=10, threads=2
    )
    first, second = found.models
    assert (first.path, first.source, first.target) == (str(tmp_path / "en_de"), "en", "de")
    assert first.decoding_options() == {"beam": 4}
    assert second.path == "/models/de_en"
    assert second.decoding_options() == {
        "policy": "shortest",
        "memory_source": str(tmp_path / "old.de"),
        "memory_target": "/old.en",
    }


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no model; add"),
        ("models = 3", "no model; add"),
        ("[[models]]\nbeam = 3", "models 1: no path"),
        ("[[models]]\npath = 3", "models 1: path 3: must be a string"),
        ("[[models]]\npath = 'm'\nbeams = 3", "models 1: beams: unknown; choose from batch_size, "),
        ("[[models]]\npath = 'm'\nbeam = 0", "beam 0: must be a whole number of at least 1"),
        ("[[models]]\npath = 'm'\nbeam = true", "beam True: must be a whole number"),
        ("[[models]]\npath = 'm'\npolicy = 'x'", "policy 'x': choose from fcfs, shortest"),
        ("[servers]", "servers: unknown; choose from models, server"),
        ("[[models]]\npath = 'm'\n[server]\napi_keys = 'k'", "must be a list of strings"),
        ("[[models]]\npath = 'm'\n[server]\nprot = 1", "server: prot: unknown"),
        ("server = 1\n[[models]]\npath = 'm'", "server: must be a table"),
        ("[server", "not TOML"),
        ("[[models]]\npath = ''", "models 1: path '': must not be empty"),
        *(
            (f"[[models]]\npath = 'm'\n{name} = ''", f"models 1: {name} '': must not be empty")
            for name in ("memory_source", "memory_target", "decoding", "source", "policy")
        ),
        ("[[models]]\npath = 'm'\n[server]\nhost = ''", "server: host '': must not be empty"),
    ],
)
def test_mistakes_are_named(read, text, message):
    with pytest.raises(ValueError, match="--config .*serve.toml") as raised:
        read(text)
    assert message in str(raised.value)


def test_a_byte_order_mark(read):
    assert read("\ufeff" + COMPLETE) == read(COMPLETE)


def test_a_file_that_is_not_utf_8(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_bytes(b"[server]\nhost = '\xff'")
    with pytest.raises(ValueError, match="--config .*serve.toml: not TOML"):
        config.read(str(path))


@pytest.mark.parametrize(
    "host, address",
    [
        ("::1", "http://[::1]:5079"),
        ("::", "http://[::]:5079"),
        ("127.0.0.1", "http://127.0.0.1:5079"),
        ("localhost", "http://localhost:5079"),
    ],
)
def test_addresses(host, address):
    assert config.ServerOptions(host=host, port=5079).address() == address


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        config.read(str(tmp_path / "none.toml"))
