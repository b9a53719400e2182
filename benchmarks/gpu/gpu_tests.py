"""Runs tests in a process of their own, and counts how they end, also if they are cut off."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from examples.common import commands

DIRECTORY = commands.ROOT / "tests" / "gpu"
# The line of a test with -v; pytest-xdist prints the end before the name.
ENDS = r"(?m)^(?:\S+::.*|\[gw\d+\].*?) (PASSED|FAILED|ERROR|SKIPPED)\b"
MESSAGE = r"(?m)^(FAILED|ERROR) (\S+::.*?)(?: - (.*))?$"


def run(tests: Path, seconds: float) -> dict[str, Any]:
    """Run the tests of a directory or file.

    Args:
        seconds: after which they are cut off.

    Returns:
        ``counts``, the numbers of tests by end; ``failures``, the messages of those that failed;
        and ``error`` if pytest itself did not end as it should
    """
    command = [*commands.module("pytest"), "-v", "--color=no", "--tb=no", "-rfE", str(tests)]
    # pytest cuts messages to the width of the terminal.
    wide = {**os.environ, "COLUMNS": "300"}
    error = None
    try:
        done = subprocess.run(
            command, cwd=commands.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=seconds, env=wide,
        )  # fmt: skip
        output = done.stdout
        if done.returncode > 1:
            error = " ".join(output.strip().splitlines()[-1:])
    except subprocess.TimeoutExpired as cut_off:
        # Bytes, also with text=True.
        output = (cut_off.stdout or b"").decode(errors="replace")
        error = f"cut off after {seconds:.0f} s"
    listed, _, summary = output.partition("short test summary info")
    counts = Counter(end.lower() for end in re.findall(ENDS, listed))
    failures = {name: message or kind for kind, name, message in re.findall(MESSAGE, summary)}
    return {"counts": dict(counts), "failures": failures, "error": error}
