"""Translations on disk, in shards that are there as a whole or not at all."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .. import atomic_files
from ..translation.chunks import DamagedChunk, Translated


class Shard(NamedTuple):
    """Sentences to be translated, for :class:`~..translation.coordinator.Coordinator`.

    Attributes:
        number: from 0 on.
        sentences: their numbers in the corpus; consecutive.
    """

    number: int
    sentences: range

    @property
    def first(self) -> int:
        """The number of the first sentence."""
        return self.sentences.start

    @property
    def n_lines(self) -> int:
        """The number of sentences."""
        return len(self.sentences)


class Shards:
    """Consecutive sentences in files of the same number of them: ``NUMBER<tab>TRANSLATION``.

    Whenever the process is ended, every file of a shard's name is complete, and its sentences are
    in no other. Its first line, ``sentences COUNT
    sha256 DIGEST``, says what follows: what a crash of the machine or another program did to the
    file is noticed.
    """

    def __init__(self, directory: Path, n_sentences: int, size: int) -> None:
        """
        Args:
            directory: is created.
            size: sentences in a shard; the last one can be shorter.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        starts = range(0, n_sentences, size)
        self.sentences = [range(start, min(start + size, n_sentences)) for start in starts]

    def missing(self) -> list[int]:
        """The numbers of the shards that are not there yet."""
        return [n for n in range(len(self.sentences)) if not self.path(n).exists()]

    def is_damaged(self, shard: int) -> bool:
        """Whether the file of a shard that is there is not what :meth:`write` wrote.

        Raises:
            OSError: if it cannot be read.
        """
        try:
            self._translations(shard)
        except DamagedChunk:
            return True
        return False

    def has(self, shard: Shard) -> bool:
        """Whether a shard is there.

        Raises:
            DamagedChunk: if its file is not what :meth:`write` wrote.
            OSError: if it cannot be read.
        """
        if not self.path(shard.number).exists():
            return False
        self._translations(shard.number)
        return True

    def write(self, shard: Shard, translated: Translated) -> None:
        """Write a shard.

        Args:
            translated: as :func:`rendered` gives it.

        Raises:
            OSError: if the disk is full, for example; then nothing is left of it.
        """
        header = _header(translated.content.count(b"\n"), translated.content)
        atomic_files.write_bytes(self.path(shard.number), header + translated.content)

    def remove(self, shard: int) -> None:
        """Forget a shard."""
        self.path(shard).unlink(missing_ok=True)

    def read(self) -> Iterator[tuple[int, str]]:
        """All sentences that were translated, in order, and their translations.

        Raises:
            DamagedChunk: for a file that is not what :meth:`write` writes.
            OSError: for a file that cannot be read.
        """
        for shard in range(len(self.sentences)):
            yield from self._translations(shard)

    def path(self, shard: int) -> Path:
        """The file of a shard."""
        return self._directory / f"{shard:06}.tsv"

    def _translations(self, shard: int) -> list[tuple[int, str]]:
        path, expected = self.path(shard), self.sentences[shard]
        damaged = DamagedChunk(f"{path}: damaged; run the command again, which translates it anew")
        header, end, content = path.read_bytes().partition(b"\n")
        # Other characters that Python takes for ends of lines can be in a sentence.
        lines = content.split(b"\n")[:-1]
        if header + end != _header(len(lines), content):
            raise damaged
        translations = []
        last = expected.start - 1
        for line in lines:
            number, tab, translation = line.decode("utf-8").partition("\t")
            # Whole, and another shard's.
            if not (tab and number.isdecimal() and last < int(number) < expected.stop):
                raise damaged
            last = int(number)
            translations.append((last, translation))
        return translations


def rendered(translations: dict[int, str]) -> Translated:
    """A shard's lines.

    Args:
        translations: by sentence number; sentences that were not translated are not there.
    """
    lines = "".join(f"{number}\t{translations[number]}\n" for number in sorted(translations))
    return Translated(lines.encode("utf-8"), {})


def _header(n_sentences: int, content: bytes) -> bytes:
    """The first line of a shard."""
    digest = hashlib.sha256(content).hexdigest()
    return f"sentences {n_sentences} sha256 {digest}\n".encode("ascii")
