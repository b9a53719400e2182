"""Runs programs in processes that have imported torch, and by default fairseq, but not this plugin.

They are forked from one process that does so, which takes longer than most of the programs.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Forks for each request: a line of JSON. An error of the program ends its process as usual.
SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    process = os.fork()
    if process:
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
        continue
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate(request["streams"]):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    for number in request["closed"]:
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)
    sys.argv = ["-c", *request["arguments"]]
    exec(request["code"], {"__name__": "__main__"})
    break
"""


def run(
    code: str, *arguments, imported="torch, fairseq", stdin="", cwd=None, closed=(), **environment
) -> subprocess.CompletedProcess:
    """Run a program like ``python -c``.

    Args:
        code: the program.
        arguments: its arguments, converted to ``str``.
        imported: the modules that the process has imported before.
        stdin: the text of its standard input.
        cwd: its directory; by default that of this process.
        closed: the numbers of the standard streams that are closed.
        environment: additional environment variables.
    """
    server = _server(imported)
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_text(stdin, encoding="utf-8")
        request = {
            "code": code, "arguments": [*map(str, arguments)], "cwd": str(cwd or os.getcwd()),
            "environment": {**os.environ, **environment}, "streams": [*map(str, streams)],
            "closed": [*closed],
        }  # fmt: skip
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        printed = [stream.read_text(encoding="utf-8") for stream in streams[1:]]
    return subprocess.CompletedProcess(code, status, *printed)


def run_command(name, *arguments, **options) -> subprocess.CompletedProcess:
    """Run a command of fairseq's, such as ``generate``, with the options of :func:`run`."""
    return run(f"from fairseq_cli.{name} import cli_main; cli_main()", *arguments, **options)


def run_ours(*arguments, **options) -> subprocess.CompletedProcess:
    """Run ``python -m fairseq_fastdec``, with the options of :func:`run`.

    By default, the process has only imported torch, so the plugin imports fairseq as usual.
    """
    return run_module("fairseq_fastdec", *arguments, **options)


def run_module(name, *arguments, imported="torch", **options) -> subprocess.CompletedProcess:
    """Run ``python -m`` with a package, as :func:`run_ours` does.

    It is found from any directory, as after an editable installation.
    """
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r});"
        f"sys.orig_argv = ['python', '-m', {name!r}, *sys.argv[1:]];"
        f"runpy.run_module({name!r}, run_name='__main__')"
    )
    return run(code, *arguments, imported=imported, **options)


def run_script(path, *arguments, **options) -> subprocess.CompletedProcess:
    """Run a script like ``python path``, with the options of :func:`run`."""
    code = "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return run(code, path, *arguments, **options)


@functools.cache
def _server(imported: str) -> subprocess.Popen:
    """The process that forks; it ends with this one, whose end closes its input.

    torch uses one thread.
    """
    if "fairseq" in imported:
        # fairseq's decoder would import it for its first batch.
        imported += ", torch.fx.experimental.symbolic_shapes"
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"import {imported}\n{SERVER}"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
