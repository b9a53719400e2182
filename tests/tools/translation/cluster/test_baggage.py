"""Files of a command line travel, and the command line names them where they have come."""

from pathlib import Path

import pytest

from fairseq_fastdec.tools.command_line import to_config
from fairseq_fastdec.tools.translation.arguments import parse_args
from fairseq_fastdec.tools.translation.cluster import baggage as baggage_module
from fairseq_fastdec.tools.translation.cluster.baggage import baggage_of, pieces_of, unpacked


@pytest.fixture
def cfg(corpus, baseline, tmp_path):
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na b</w>\n")
    given = [corpus, "--path", f"{baseline}:{baseline}", "--input", "x", "--output", "y"]
    given += ["--bpe", "subword_nmt", "--bpe-codes", codes]
    return to_config(parse_args([str(argument) for argument in given]))


def test_what_options_name_travels(cfg, corpus, baseline, tmp_path):
    name = Path(baseline).name
    assert baggage_of(cfg).files == {
        f"model0/{name}": str(baseline),
        f"model1/{name}": str(baseline),
        "data/dict.de.txt": str(corpus / "dict.de.txt"),
        "data/dict.en.txt": str(corpus / "dict.en.txt"),
        "bpe.bpe_codes/codes": str(tmp_path / "codes"),
    }


def test_options_name_files_where_they_have_come(cfg, baseline):
    there = Path("/there")
    found = unpacked(cfg, baggage_of(cfg), there)
    name = Path(baseline).name
    assert found.common_eval.path == f"/there/model0/{name}:/there/model1/{name}"
    assert (found.task.data, found.bpe.bpe_codes) == ("/there/data", "/there/bpe.bpe_codes/codes")
    assert cfg.common_eval.path == f"{baseline}:{baseline}"
    assert found.generation == cfg.generation


def test_files_travel_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(baggage_module, "PIECE", 4)
    (tmp_path / "file").write_bytes(b"0123456789")
    pieces = [bytes(piece) for piece in pieces_of(str(tmp_path / "file"))]
    assert pieces == [b"0123", b"4567", b"89"]
