"""Shards: consecutive sentences of a corpus that are translated, kept and lost together."""

from collections.abc import Iterator

from ..translation.chunks import Chunk, ChunkStore, Translated


def shards_of(n_sentences: int, size: int) -> Iterator[Chunk]:
    """A corpus in shards: chunks whose lines are the numbers of the sentences.

    The settings name the corpus.

    Args:
        size: sentences in a shard; the last one can have fewer.
    """
    for number, start in enumerate(range(0, n_sentences, size)):
        sentences = range(start, min(start + size, n_sentences))
        yield Chunk(number, start, b"".join(b"%d\n" % sentence for sentence in sentences))


def translations_in(store: ChunkStore, n_shards: int) -> Iterator[tuple[int, str]]:
    """All sentences that were translated, in order, and their translations.

    Raises:
        DamagedChunk: for a shard that is damaged or gone.
        OSError: for a file that cannot be read.
    """
    for shard in range(n_shards):
        # A sentence can have other characters that Python takes for ends of lines.
        for line in store.read(shard).content.decode("utf-8").split("\n")[:-1]:
            number, _, translation = line.partition("\t")
            yield int(number), translation


def rendered(translations: dict[int, str]) -> Translated:
    """The lines of a shard, ``NUMBER<tab>TRANSLATION``.

    Args:
        translations: by sentence number; without the sentences that were not translated.
    """
    lines = "".join(f"{number}\t{translations[number]}\n" for number in sorted(translations))
    return Translated(lines.encode("utf-8"), {})
