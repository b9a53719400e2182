"""The standard streams of a process that runs a command, and Ctrl-C."""

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from .errors import INTERRUPTED, end_with, error_of_input, is_interrupt, line_of, write

STREAMS = ("stdin", "stdout", "stderr")
# Seconds until an interrupt that could not be raised is raised again.
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
        # Modules hold locks from their hooks before a fork until those after it, which must run.
        os.fork = holding_interrupts()(os.fork)
        sys.unraisablehook = _raising_interrupts_again(sys.unraisablehook)
    try:
        try:
            command()
        except SystemExit as end:
            if not end.code:
                sys.stdout.flush()
            raise
        sys.stdout.flush()
    except (KeyboardInterrupt, Exception) as error:
        if is_interrupt(error):
            end_with(f"{program}: interrupted", INTERRUPTED)
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


@contextlib.contextmanager
def holding_interrupts() -> Iterator[None]:
    """Delay Ctrl-C until the end of this context.

    For example, an interrupt while a pool starts would leave its worker processes running.
    """
    held: list[int] = []
    with handling_interrupts(lambda number, _: held.append(number)):
        yield
    if held:
        _interrupt_again()


@contextlib.contextmanager
def handling_interrupts(action: Any) -> Iterator[None]:
    """Within this context, Ctrl-C has this action, if it would raise ``KeyboardInterrupt``.

    Args:
        action: as for ``signal.signal``. Programs that are started with ``SIG_IGN`` ignore Ctrl-C.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, action)
    try:
        yield
    finally:
        # A forked process has an action of its own.
        if signal.getsignal(signal.SIGINT) is action:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _ignore_interrupts() -> None:
    """Called in forked workers: Ctrl-C also reaches them, and their parent ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _raising_interrupts_again(previous: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook for exceptions in finalizers and callbacks, where interrupts would be lost."""

    def tell(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _interrupt_again()
        else:
            previous(unraisable)

    return tell


def _interrupt_again() -> None:
    # In the main thread, so that it ends a wait there.
    main = threading.main_thread().ident
    timer = threading.Timer(AGAIN, signal.pthread_kill, [main, signal.SIGINT])
    timer.daemon = True
    timer.start()
