"""Opens text for reading: all text of users is read here, also by fairseq's modules.

Text is UTF-8, whatever the locale. A byte order mark at the beginning of a file is not part of it.
"""

import codecs
import contextlib
import io
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, Optional, Union

from ..processes.streams import standard

MARK = codecs.BOM_UTF8
# UTF-8; the byte order mark is skipped.
ENCODING = "utf-8-sig"
PathLike = Union[str, "os.PathLike[str]"]


class Text(io.TextIOWrapper):
    """A file of text. Errors of decoding name it, and are ``ValueError``."""

    def __init__(self, file: Any, name: PathLike, **options: Any) -> None:
        """
        Args:
            file: a binary file.
            name: for messages.
            options: those of ``TextIOWrapper``.
        """
        super().__init__(file, encoding=ENCODING, **options)
        self._name = name

    def read(self, *size: Any) -> str:
        """See ``TextIOWrapper``."""
        try:
            return super().read(*size)
        except UnicodeDecodeError as error:
            raise self._named(error) from error

    def readline(self, *size: Any) -> Any:
        """See ``TextIOWrapper``."""
        try:
            return super().readline(*size)
        except UnicodeDecodeError as error:
            raise self._named(error) from error

    def __next__(self) -> Any:
        try:
            return super().__next__()
        except UnicodeDecodeError as error:
            raise self._named(error) from error

    def _named(self, error: UnicodeDecodeError) -> ValueError:
        return ValueError(
            f"{self._name}: not UTF-8 ({error.reason}); convert it, for example with iconv"
        )


def opened(path: PathLike, errors: str = "strict", newline: Optional[str] = "\n") -> Text:
    """Open a file of text.

    Args:
        errors, newline: see :func:`open`. By default lines end only with ``\\n``, so that files of
            parallel text stay aligned.

    Raises:
        OSError: if it cannot be read.
    """
    return Text(open(path, "rb"), path, errors=errors, newline=newline)


@contextlib.contextmanager
def input_text(path: str, newline: Optional[str] = "\n") -> Iterator[Text]:
    """Open a file of text, or standard input for ``-``, as :func:`opened` does.

    Raises:
        OSError: if it cannot be read.
        ValueError: if standard input is closed.
    """
    if path != "-":
        with opened(path, newline=newline) as file:
            yield file
        return
    text = Text(standard("stdin").buffer, "standard input", newline=newline)
    try:
        yield text
    finally:
        text.detach()


def open_text(path: PathLike, mode: str = "r", encoding: Optional[str] = None) -> Any:
    """Python's ``open`` for modules of other packages, with UTF-8 in place of other encodings."""
    if mode == "r":
        return opened(path, newline=None)
    return open(path, mode, encoding=encoding)


def without_mark(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a file, in pieces or lines, without the byte order mark at the beginning."""
    rest, begin = iter(pieces), b""
    for piece in rest:
        begin += piece
        if not MARK.startswith(begin):
            break
    begin = begin.removeprefix(MARK)
    if begin:
        yield begin
    yield from rest


def check_can_be_read_again(option: str, path: PathLike) -> None:
    """Check that a file can be read several times; a missing one is reported when it is opened.

    Args:
        option: for the message.

    Raises:
        ValueError: for a pipe, or a device that is not empty.
    """
    with contextlib.suppress(OSError):
        mode, is_null = os.stat(path).st_mode, os.path.samefile(path, os.devnull)
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and not is_null:
            raise ValueError(
                f"{option} {path}: not a regular file; write it to a file first, since it is read "
                "more than once"
            )


def check_is_not_read(option: str, output: PathLike, inputs: Iterable[Optional[PathLike]]) -> None:
    """Check that a file to be written is none of the files to be read, which would be lost.

    Args:
        option: for the message.
        inputs: files, also by other names and through links; ``None`` and other values are ignored.

    Raises:
        ValueError: if it is one of them.
    """
    for path in inputs:
        is_input = path is not None and os.path.isfile(path) and os.path.exists(output)
        if is_input and os.path.samefile(path or "", output):
            raise ValueError(f"{option} {output}: is the input; name another file than {path}")


def check_keeps(option: str, directory: PathLike, inputs: Iterable[Optional[PathLike]]) -> None:
    """Check that a directory that will be replaced contains none of the files to be read.

    Args:
        option: for the message.
        inputs: files and directories; ``None`` is ignored.

    Raises:
        ValueError: if it contains one of them, or is one.
    """
    replaced = os.path.realpath(directory)
    for path in inputs:
        if path is not None and os.path.commonpath([replaced, os.path.realpath(path)]) == replaced:
            raise ValueError(
                f"{option}: {directory} would be replaced, but contains the input {path}; name "
                "another directory"
            )
