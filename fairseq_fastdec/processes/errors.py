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
from collections.abc import Callable, Iterator, Mapping
from traceback import walk_tb
from types import TracebackType
from typing import NoReturn, Optional, TextIO

EXIT_CODE = 2  # as argparse's
# Of a command that Ctrl-C ended, as of one that the signal killed in a shell.
INTERRUPTED = 128 + signal.SIGINT

# The folders and names of the functions that run fairseq's commands.
MAIN_FUNCTIONS = {("fairseq_cli", "cli_main")}
PACKAGE = __name__.partition(".")[0]
FAIRSEQ = ("fairseq", "fairseq_cli")
FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
# torch's error for a model with other dictionaries or options, and what is told of its details.
MISMATCH, MOST_DETAILS = "Error(s) in loading state_dict", 200
# What to do about errors of fairseq, by a pattern of their text.
REMEDIES = {
    "exceed max_tokens": "raise --max-tokens, or give --batch-size in its place",
    "infer language pair": "give -s and -t, or the output directory of fairseq-preprocess",
    "Cannot load model parameters": "give the data and the options of its training, or another "
    "--save-dir, or name it with --finetune-from-model",
    "optimizer is required": "give one, such as --optimizer adam",
    "divisible by num_heads": "change --encoder-attention-heads and --decoder-attention-heads",
    "is not Optional": "give a value",
    "min_len cannot be larger": "lower --min-len, or raise --max-len-a and --max-len-b",
    # The assertion of fairseq's generator that the loop has not reached the maximum length.
    r"^\d+ < \d+$": "the maximum length is reached: raise --max-len-b, or lower --prefix-size",
}

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
def errors_in_one_line(
    program: str, *besides: type[Exception], spelling: Optional[Mapping[str, str]] = None
) -> Iterator[None]:
    """End the program with one line instead of a traceback for an error in its input.

    Args:
        besides: the exceptions to handle in addition to ``ValueError`` and ``OSError``.
        spelling: what the command calls arguments of Python in messages.

    Raises:
        KeyboardInterrupt: in place of an error that Ctrl-C caused.
    """
    expected: tuple[type[Exception], ...] = (ValueError, OSError, *besides)
    try:
        yield
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        line = line_of(error if isinstance(error, expected) else error_of_input(error))
        if line is None:
            raise
        for python, own in (spelling or {}).items():
            line = line.replace(python, own)
        end_with(f"{program}: {line}")


def is_interrupt(error: Optional[BaseException]) -> bool:
    """Whether an error is of Ctrl-C, or of a ``finally`` clause that Ctrl-C began too early."""
    return isinstance(error, KeyboardInterrupt) or bool(error and is_interrupt(error.__context__))


def error_of_input(error: BaseException) -> Optional[BaseException]:
    """The error to report if the user's input is wrong; otherwise ``None``.

    Such errors are: a ``ValueError`` or ``ModuleNotFoundError`` from a ``raise`` statement in this
    package, whose text is meant for users; any error from a ``raise`` or ``assert`` statement in
    fairseq, which checks little besides the input; an error whose text begins with a flag; a
    missing file. If fairseq's trainer wraps one of them in a plain ``Exception``, the original
    error is returned.
    """
    if type(error) is Exception and isinstance(error.__context__, Exception):
        original = error_of_input(error.__context__)
        if original is not None:
            return original
    # hydra's, of an option that is missing; its cause names it.
    if _option_of(error) is None and _option_of(error.__cause__) is not None:
        error = error.__cause__ or error
    names_a_flag = isinstance(error, (ValueError, AssertionError)) and str(error).startswith("--")
    # fairseq's "Model file not found" has no errno.
    is_of_file = isinstance(error, FILE_ERRORS) or (type(error) is OSError and error.errno is None)
    package = _raised_by(error.__traceback__)
    is_ours = isinstance(error, (ValueError, ModuleNotFoundError)) and package == PACKAGE
    is_mismatch = isinstance(error, RuntimeError) and str(error).startswith(MISMATCH)
    names_an_option = names_a_flag or _option_of(error) is not None
    is_told = names_an_option or is_mismatch or is_of_file or is_ours or package in FAIRSEQ
    return error if is_told and isinstance(error, Exception) else None


def _option_of(error: Optional[BaseException]) -> Optional[str]:
    """The option in an error of omegaconf, whose classes would be slow to import."""
    return str(getattr(error, "full_key", None) or "").rpartition(".")[2] or None


def line_of(error: Optional[BaseException]) -> Optional[str]:
    """The text for an error in the user's input; ``None`` for no error."""
    if error is None:
        return None
    text = str(error) or type(error).__name__
    if text.startswith(MISMATCH):
        mismatch = " ".join(text.partition("\n")[2].split())[:MOST_DETAILS]
        text = (
            f"the checkpoint cannot be loaded ({mismatch}); give a complete one that was trained "
            "with these data and options"
        )
    option = _option_of(error)
    if option is not None:
        text = f"{flag_of(option)}: {first_line(error)}"
    remedy = next((remedy for part, remedy in REMEDIES.items() if re.search(part, text)), None)
    return text if remedy is None else f"{text.rstrip('.! ')}; {remedy}"


def _hook_before(previous: Hook) -> Hook:
    def tell(
        kind: type[BaseException], error: BaseException, traceback: Optional[TracebackType]
    ) -> None:
        line = line_of(error_of_input(error)) if _in_command(traceback) else None
        if line is None or os.environ.get("FASTDEC_TRACEBACK"):
            previous(kind, error, traceback)
        else:
            # Python exits with the code of a SystemExit raised by the hook.
            end_with(f"{os.path.basename(sys.argv[0])}: {line}")

    tell.previous = previous  # type: ignore[attr-defined]
    return tell


def _in_command(traceback: Optional[TracebackType]) -> bool:
    """Whether an error was raised within the main function of a fairseq command."""
    codes = (frame.f_code for frame, _ in walk_tb(traceback))
    return any(
        (os.path.basename(os.path.dirname(code.co_filename)), code.co_name) in MAIN_FUNCTIONS
        for code in codes
    )


def _raised_by(traceback: Optional[TracebackType]) -> Optional[str]:
    """The package with the ``raise`` or ``assert`` statement of an error; ``None`` for a bug."""
    if traceback is None:
        return None
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame = traceback.tb_frame
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    # Frames of Cython have no code.
    code = frame.f_code.co_code
    is_compiled = frame.f_code.co_filename.endswith(".pyx")
    is_raised = is_compiled or dis.opname[code[traceback.tb_lasti]] == "RAISE_VARARGS"
    return package if is_raised else None
