"""Shards: consecutive sentences of a corpus that are translated, kept and lost together."""

from collections.abc import Iterator
from typing import NamedTuple, Optional

from ..translation.chunks import ChunkStore, Translated


class Shard(NamedTuple):
    """Sentences to be translated, as a :class:`~..translation.chunks.Chunk`.

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

    @property
    def source(self) -> bytes:
        """A name of the sentences; the settings say which corpus they are of."""
        return f"sentences {self.first} to {self.sentences.stop - 1}\n".encode("ascii")


class Shards(NamedTuple):
    """A corpus in shards, as :class:`~..translation.coordinator.Work`.

    Attributes:
        size: sentences in a shard; the last one can be shorter.
    """

    n_sentences: int
    size: int

    def chunks(self) -> Iterator[Shard]:
        """See :class:`~..translation.coordinator.Work`."""
        for number, start in enumerate(range(0, self.n_sentences, self.size)):
            yield Shard(number, range(start, min(start + self.size, self.n_sentences)))

    def share_read(self) -> Optional[float]:
        """See :class:`~..translation.coordinator.Work`."""
        return None

    def place(self, number: int) -> str:
        """See :class:`~..translation.coordinator.Work`."""
        return f"sentence {number + 1}"

    def translations(self, store: ChunkStore) -> Iterator[tuple[int, str]]:
        """All sentences that were translated, in order, and their translations.

        Raises:
            DamagedChunk: for a shard that is damaged or gone.
            OSError: for a file that cannot be read.
        """
        for shard in self.chunks():
            # Other characters that Python takes for ends of lines can be in a sentence.
            for line in store.read(shard.number).content.decode("utf-8").split("\n")[:-1]:
                number, _, translation = line.partition("\t")
                yield int(number), translation


def rendered(translations: dict[int, str]) -> Translated:
    """A shard's lines, ``NUMBER<tab>TRANSLATION``.

    Args:
        translations: by sentence number; sentences that were not translated are not there.
    """
    lines = "".join(f"{number}\t{translations[number]}\n" for number in sorted(translations))
    return Translated(lines.encode("utf-8"), {})
