"""Translations on disk, in shards that are there as a whole or not at all."""

import hashlib
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from .. import atomic_files


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

    def missing(self) -> List[int]:
        """The numbers of the shards that are not there yet."""
        return [n for n in range(len(self.sentences)) if not self.path(n).exists()]

    def is_damaged(self, shard: int) -> bool:
        """Whether the file of a shard that is there is not what :meth:`write` wrote.

        Raises:
            OSError: if it cannot be read.
        """
        try:
            self._translations(shard)
        except ValueError:
            return True
        return False

    def write(self, shard: int, translations: Dict[int, str]) -> None:
        """Write a shard.

        Args:
            translations: by sentence number; sentences that were not translated are not there.
        """
        lines = "".join(f"{number}\t{translations[number]}\n" for number in sorted(translations))
        header = _header(len(translations), lines.encode("utf-8"))
        atomic_files.write_text(self.path(shard), header.decode("ascii") + lines)

    def read(self) -> Iterator[Tuple[int, str]]:
        """All sentences that were translated, in order, and their translations.

        Raises:
            OSError: for a file that cannot be read.
            ValueError: for a file that is not what :meth:`write` writes.
        """
        for shard in range(len(self.sentences)):
            yield from self._translations(shard)

    def path(self, shard: int) -> Path:
        """The file of a shard."""
        return self._directory / f"{shard:06}.tsv"

    def _translations(self, shard: int) -> List[Tuple[int, str]]:
        path, expected = self.path(shard), self.sentences[shard]
        damaged = ValueError(f"{path}: damaged; run the command again, which translates it anew")
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


def _header(n_sentences: int, content: bytes) -> bytes:
    """The first line of a shard."""
    digest = hashlib.sha256(content).hexdigest()
    return f"sentences {n_sentences} sha256 {digest}\n".encode("ascii")
