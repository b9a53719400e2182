"""Translations on disk, in shards that are there as a whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple


class Shards:
    """Consecutive sentences in files of the same number of them: ``NUMBER<tab>TRANSLATION``.

    A shard is written under another name first. Whenever the process is ended, every file of a
    shard's name is complete, and its sentences are in no other.
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
        return [n for n in range(len(self.sentences)) if not self._path(n).exists()]

    def write(self, shard: int, translations: Dict[int, str]) -> None:
        """Write a shard.

        Args:
            translations: by sentence number; sentences that were not translated are not there.
        """
        path = self._path(shard)
        lines = (f"{number}\t{translations[number]}\n" for number in sorted(translations))
        write_at_once(path, "".join(lines))

    def read(self) -> Iterator[Tuple[int, str]]:
        """All sentences that were translated, in order, and their translations.

        Raises:
            ValueError: for a file that is not what :meth:`write` writes.
        """
        for shard, expected in enumerate(self.sentences):
            path = self._path(shard)
            last = expected.start - 1
            # Other characters that Python takes for ends of lines can be in a sentence.
            for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
                number, tab, translation = line.partition("\t")
                if not (tab and number.isdecimal() and last < int(number) < expected.stop):
                    raise ValueError(f"{path}: damaged; delete it and run the command again")
                last = int(number)
                yield last, translation

    def _path(self, shard: int) -> Path:
        return self._directory / f"{shard:06}.tsv"


def write_at_once(path: Path, content: str) -> None:
    """Write a file so that nobody ever finds a part of it, even after a power failure."""
    part = path.with_name(f"{path.name}.part")
    with open(part, "w", encoding="utf-8", newline="\n") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def check_settings(path: Path, settings: Dict[str, Any]) -> None:
    """Keep the settings in a file, or compare them with those that are there.

    Translations of different settings must not get into the same data.

    Args:
        settings: values that JSON has.

    Raises:
        ValueError: if the file holds other settings; it names them.
    """
    if not path.exists():
        write_at_once(path, json.dumps(settings, indent=1) + "\n")
        return
    kept = json.loads(path.read_text(encoding="utf-8"))
    for name in sorted({*kept, *settings}):
        old, new = kept.get(name), settings.get(name)
        if old != new:
            raise ValueError(
                f"{path.parent}: holds translations made with {name} = {old}, and now it is "
                f"{new}; name another directory, or delete this one"
            )
