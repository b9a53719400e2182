"""Errors in the user's input end a command with one line and exit code 2.

fairseq's commands do not catch errors, so that a wrong option prints a traceback. :func:`install`
sets an exception hook for such errors. Code that catches them (users of the hub, pytest, workers of
distributed training) still gets the original exception.

Set the environment variable ``FASTDEC_TRACEBACK=1`` to see the traceback anyway.
"""

import contextlib
import dis
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from traceback import walk_tb
from types import TracebackType
from typing import NoReturn, Optional, TextIO

EXIT_CODE = 2  # as argparse's
# Of a command that Ctrl-C ended, as of one that the signal killed in a shell.
INTERRUPTED = 128 + signal.SIGINT

# The folders and names of the functions that run fairseq's commands.
MAIN_FUNCTIONS = {("fairseq_cli", "cli_main"), ("fairseq_fastdec", "run_fairseq")}
FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

Hook = Callable[[type[BaseException], BaseException, Optional[TracebackType]], None]


def install() -> None:
    """Print errors in the user's input as one line if they would end a fairseq command.

    Other errors and other programs use the previous hook.
    """
    if not hasattr(sys.excepthook, "previous"):
        sys.excepthook = _hook_before(sys.excepthook)


def flag_of(option: str) -> str:
    """The flag of an option as on the command line."""
    return f"--{option.replace('_', '-')}"


def end_with(message: str, code: int = EXIT_CODE) -> NoReturn:
    """End the program with one line on standard error.

    The exit code is right even if a standard stream cannot be written (full disk, closed pipe).

    Raises:
        SystemExit: with the line as its text, for callers in the same process, and the code.
    """
    line = " ".join(message.split())
    write(sys.stdout, "")
    write(sys.stderr, f"{line}\n")
    end = SystemExit(line)
    end.code = code
    raise end


def write(stream: Optional[TextIO], text: str) -> None:
    """Write to a standard stream and flush it; if that fails, redirect it to the null device.

    Args:
        stream: ``None`` if the program was started with the stream closed.
    """
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # Otherwise Python would flush it again at exit, fail, and change the exit code.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the error's kind."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def in_short(error: Exception) -> str:
    """The kind of an error of torch, and the first sentence of its text.

    The next sentences suggest to load a file without checks, which is unsafe.
    """
    reason = re.split(r"\. |\n", str(error))[0]
    return f"{type(error).__name__}: {reason}"


@contextlib.contextmanager
def errors_in_one_line(program: str, *besides: type[Exception]) -> Iterator[None]:
    """End the program with one line instead of a traceback for an error in its input.

    Args:
        besides: the exceptions to handle in addition to ``ValueError`` and ``OSError``.
    """
    expected: tuple[type[Exception], ...] = (ValueError, OSError, *besides)
    try:
        yield
    except expected as error:
        end_with(f"{program}: {error}")


def error_of_input(error: BaseException) -> Optional[BaseException]:
    """The error to report if the user's input is wrong; otherwise ``None``.

    Such errors are: a ``ValueError`` from a ``raise`` statement in this package, whose text is
    meant for users; an error whose text begins with a flag; a missing file. If fairseq's trainer
    wraps one of them in a plain ``Exception``, the original error is returned.
    """
    if type(error) is Exception and isinstance(error.__context__, Exception):
        return error_of_input(error.__context__)
    names_a_flag = isinstance(error, (ValueError, AssertionError)) and str(error).startswith("--")
    # fairseq's "Model file not found" has no errno.
    is_of_file = isinstance(error, FILE_ERRORS) or (type(error) is OSError and error.errno is None)
    is_ours = isinstance(error, ValueError) and _raised_here(error.__traceback__)
    return error if names_a_flag or is_of_file or is_ours else None


def _hook_before(previous: Hook) -> Hook:
    def tell(
        kind: type[BaseException], error: BaseException, traceback: Optional[TracebackType]
    ) -> None:
        of_input = error_of_input(error) if _in_command(traceback) else None
        if of_input is None or os.environ.get("FASTDEC_TRACEBACK"):
            previous(kind, error, traceback)
        else:
            # Python exits with the code of a SystemExit raised by the hook.
            end_with(f"{os.path.basename(sys.argv[0])}: {of_input}")

    tell.previous = previous  # type: ignore[attr-defined]
    return tell


def _in_command(traceback: Optional[TracebackType]) -> bool:
    """Whether an error was raised within the main function of a fairseq command."""
    codes = (frame.f_code for frame, _ in walk_tb(traceback))
    return any(
        (os.path.basename(os.path.dirname(code.co_filename)), code.co_name) in MAIN_FUNCTIONS
        for code in codes
    )


def _raised_here(traceback: Optional[TracebackType]) -> bool:
    """Whether the error comes from a ``raise`` statement in this package, not from a bug."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    package = __name__.partition(".")[0]
    is_ours = str(frame.f_globals.get("__name__")).partition(".")[0] == package
    return is_ours and dis.opname[frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"
