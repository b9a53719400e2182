"""The comparison of blockwise and auto with greedy decoding."""

import pytest

from examples.engine import blockwise as example
from fairseq_fastdec.engine.kernels import loading
from tests.support import skips


@pytest.mark.skipif(loading.library() is None, reason=skips.COMPILER)
def test_the_table(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["blockwise.py", "--sentences", "3", "--rounds", "1"])
    monkeypatch.setattr(example, "PRECISIONS", {"int8": "int8"})
    example.main()
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| int8 |")]
    assert len(rows) == 4 and all(row.count("x |") == 2 for row in rows)
