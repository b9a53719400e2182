"""The standard streams of a process that runs a command, and Ctrl-C."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .errors import INTERRUPTED, end_with, error_of_input, line_of, write

STREAMS = ("stdin", "stdout", "stderr")
# Seconds until an interrupt that Python could not raise is raised again.
AGAIN = 0.1


class Closed(io.TextIOWrapper):
    """In place of a standard stream that was closed when the program was started.

    Reading returns nothing, and what is written is dropped.
    """


def run(command: Callable[[], Any], program: str) -> None:
    """Run the command of this process.

    Args:
        program: its name, for messages.
    """
    set_up_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        os.register_at_fork(after_in_child=_ignore_interrupts)
        sys.unraisablehook = _raising_interrupts_again(sys.unraisablehook)
    try:
        try:
            command()
        except SystemExit as end:
            if not end.code:
                sys.stdout.flush()
            raise
        sys.stdout.flush()
    except KeyboardInterrupt:
        end_with(f"{program}: interrupted", INTERRUPTED)
    except Exception as error:
        # An OSError without a file is of standard output: its reader has gone, or the disk is full.
        is_of_output = isinstance(error, OSError) and error.filename is None
        line = line_of(error if is_of_output else error_of_input(error))
        if line is None or os.environ.get("FASTDEC_TRACEBACK"):
            raise
        end_with(f"{program}: {line}")
    finally:
        write(sys.stdout, "")
        # From here on, Python would print where it was interrupted.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def set_up_streams() -> None:
    """Write UTF-8 to the standard streams, and open those that are closed.

    Otherwise the next file that the program opens would become the standard stream, and messages
    would be written to it.
    """
    for number, name in enumerate(STREAMS):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            os.set_inheritable(number, True)
            mode = "rb" if name == "stdin" else "wb"
            setattr(sys, name, Closed(open(number, mode, closefd=False), encoding="utf-8"))
    # Names of files may contain other bytes than UTF-8.
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def standard(name: str) -> Any:
    """A standard stream that is needed.

    Args:
        name: ``stdin`` or ``stdout``.

    Raises:
        ValueError: if the program was started with the stream closed.
    """
    stream = getattr(sys, name)
    if stream is None or isinstance(stream, Closed):
        raise ValueError(f"{name}: is closed; name a file instead, or redirect it")
    return stream


def ending_by_interrupts() -> contextlib.AbstractContextManager[None]:
    """Within this context, which imports modules, Ctrl-C ends the process at once.

    Some modules catch all exceptions of imports, and others convert them.
    """
    return _handling_interrupts(signal.SIG_DFL)


def ignoring_interrupts() -> contextlib.AbstractContextManager[None]:
    """Programs that are started within this context ignore Ctrl-C."""
    return _handling_interrupts(signal.SIG_IGN)


@contextlib.contextmanager
def _handling_interrupts(action: signal.Handlers) -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_interrupts() -> None:
    """Called in forked workers: Ctrl-C also reaches them, and their parent ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _raising_interrupts_again(previous: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook for exceptions in finalizers and callbacks, where interrupts would be lost."""

    def tell(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            timer = threading.Timer(AGAIN, signal.raise_signal, [signal.SIGINT])
            timer.daemon = True
            timer.start()
        else:
            previous(unraisable)

    return tell
