"""Scripts hold nothing but the call of the command that an installation has too."""

from pathlib import Path

import pytest

from fairseq_fastdec import __main__ as front

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.mark.parametrize("command", front.COMMANDS)
def test_a_script_calls_its_command(command):
    text = (SCRIPTS / f"{command.replace('-', '_')}.py").read_text(encoding="utf-8")
    assert "    from fairseq_fastdec.__main__ import script\n\n    script()\n" in text
    assert len(text.splitlines()) <= 15
