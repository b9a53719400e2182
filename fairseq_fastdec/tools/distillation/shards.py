"""Shards: consecutive sentences of a corpus that are translated and stored together."""

from collections.abc import Iterator

from ...corpora.chunks import Chunk, ChunkStore, Translated


def shards_of(n_sentences: int, size: int) -> Iterator[Chunk]:
    """Split a corpus into shards: chunks whose lines are sentence numbers.

    The corpus itself is identified by the settings.

    Args:
        size: sentences per shard; the last one can have fewer.
    """
    for number, start in enumerate(range(0, n_sentences, size)):
        sentences = range(start, min(start + size, n_sentences))
        yield Chunk(number, start, b"".join(b"%d\n" % sentence for sentence in sentences))


def translations_in(store: ChunkStore, n_shards: int) -> Iterator[tuple[int, str]]:
    """The numbers of all translated sentences, in order, and their translations.

    Raises:
        DamagedChunk: for a shard that is damaged or missing.
        OSError: for a file that cannot be read.
    """
    for shard in range(n_shards):
        # Not splitlines(), since sentences can contain other line separators.
        for line in store.read(shard).content.decode("utf-8").split("\n")[:-1]:
            number, _, translation = line.partition("\t")
            yield int(number), translation


def rendered(translations: dict[int, str]) -> Translated:
    """The lines of a shard, ``NUMBER<tab>TRANSLATION``.

    Args:
        translations: by sentence number, for the sentences that were translated.
    """
    lines = "".join(f"{number}\t{translations[number]}\n" for number in sorted(translations))
    return Translated(lines.encode("utf-8"), {})
