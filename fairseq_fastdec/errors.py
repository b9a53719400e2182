"""An error of what the user gave ends a command in one line, with exit code 2.

fairseq's commands let every error through, so that a wrong option shows where in the program it was
found. :func:`install` has python itself tell such errors, once nobody has caught them: whoever
catches them (the hub's users, pytest, the workers of a distributed training) sees what was raised.

With ``FASTDEC_TRACEBACK=1`` in the environment the traceback is shown all the same.
"""

import contextlib
import dis
import os
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NoReturn, Optional, TextIO

EXIT_CODE = 2  # as argparse's

FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)

Hook = Callable[[type[BaseException], BaseException, Optional[TracebackType]], None]


def install() -> None:
    """Have errors of the user's input told in one line where a fairseq command would end with one.

    Any other error, and any other program, goes on to the hook that there was.
    """
    if not hasattr(sys.excepthook, "previous"):
        sys.excepthook = _hook_before(sys.excepthook)


def flag_of(option: str) -> str:
    """The flag of an option, as users type it and as messages name it."""
    return f"--{option.replace('_', '-')}"


def end_with(message: str) -> NoReturn:
    """End the program with one line on standard error.

    Where the disk of a standard stream is full, or nobody reads it, the code still tells.

    Raises:
        SystemExit: its text is the line, for callers in the same process; its code
            :data:`EXIT_CODE`.
    """
    line = " ".join(message.split())
    _write(sys.stdout, "")
    _write(sys.stderr, f"{line}\n")
    end = SystemExit(line)
    end.code = EXIT_CODE
    raise end


def _write(stream: TextIO, text: str) -> None:
    """Write to a standard stream, and everything that it still holds; or give it up."""
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # Python would try again when it ends, fail, and end with a code of its own.
        with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())


@contextlib.contextmanager
def errors_in_one_line(program: str, *besides: type[Exception]) -> Iterator[None]:
    """End the program with one line for an error of its input, instead of a traceback.

    Args:
        besides: what counts as such an error besides ``ValueError`` and ``OSError``.
    """
    expected: tuple[type[Exception], ...] = (ValueError, OSError, *besides)
    try:
        yield
    except expected as error:
        end_with(f"{program}: {error}")


def error_of_input(error: BaseException) -> Optional[BaseException]:
    """The error to tell the user where they gave something wrong, and ``None`` elsewhere.

    That is a ``ValueError`` of a ``raise`` statement of this package, which then says what is wrong
    and what to do; an error whose text begins with a flag; a file that is not there. Where
    fairseq's trainer hides the first behind an ``Exception`` without a kind, it is the first.
    """
    if type(error) is Exception and isinstance(error.__context__, Exception):
        return error_of_input(error.__context__)
    names_a_flag = isinstance(error, (ValueError, AssertionError)) and str(error).startswith("--")
    # fairseq's own has no number: "Model file not found".
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
            # python ends with the code of a SystemExit that its hook raises.
            end_with(f"{os.path.basename(sys.argv[0])}: {of_input}")

    tell.previous = previous  # type: ignore[attr-defined]
    return tell


def _in_command(traceback: Optional[TracebackType]) -> bool:
    """Whether an error came through the main function of one of fairseq's commands."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        folder = os.path.basename(os.path.dirname(code.co_filename))
        if code.co_name == "cli_main" and folder == "fairseq_cli":
            return True
        traceback = traceback.tb_next
    return False


def _raised_here(traceback: Optional[TracebackType]) -> bool:
    """Whether a ``raise`` statement of this package made the error, and not a mistake in it."""
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    package = __name__.partition(".")[0]
    is_ours = str(frame.f_globals.get("__name__")).partition(".")[0] == package
    return is_ours and dis.opname[frame.f_code.co_code[traceback.tb_lasti]] == "RAISE_VARARGS"
