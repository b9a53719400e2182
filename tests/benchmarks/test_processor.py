"""The name of the CPU, which every stage of an example writes down."""

import subprocess
import sys

from benchmarks import processor


def test_the_name_is_that_of_proc(tmp_path, monkeypatch):
    information = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "Path", lambda path: information)
    monkeypatch.setattr(processor.platform, "processor", lambda: "")
    monkeypatch.setattr(processor.platform, "machine", lambda: "arm64")
    assert processor.processor() == "arm64"
    information.write_text("flags\t: avx2\nmodel name\t: Fast: 2\nmodel name\t: Other\n")
    assert processor.processor() == "Fast: 2"


def test_stages_are_marked_without_torch(tmp_path):
    program = (
        "import sys; from pathlib import Path; from examples.common import commands; "
        f"commands.mark_finished(Path({str(tmp_path)!r})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "finished").read_text(encoding="utf-8").startswith('{"date": ')
