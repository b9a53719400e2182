"""Translations of words with alignments."""

from hypothesis import strategies as st

from fairseq_fastdec.translating.results import Translation


def reversed_words(sentence):
    """A translation with the words in reverse, each aligned with its own."""
    words = sentence.split()
    n = len(words)
    pairs = [(n - 1 - number, number) for number in range(n)]
    target = [word.upper() for word in reversed(words)]
    return Translation(
        " ".join(target), tokens=(*target,), source_tokens=(*words,), alignment=pairs
    )


def drawn_words(data, sentence, letters):
    """Any words of these letters, with any alignment.

    Args:
        data: hypothesis's.
    """
    words = data.draw(st.lists(st.text(letters, min_size=1, max_size=4), max_size=6))
    sources = sentence.split()
    links = st.tuples(st.integers(0, len(sources) - 1), st.integers(0, max(len(words) - 1, 0)))
    pairs = data.draw(st.lists(links, max_size=8))
    return Translation(
        " ".join(words), tokens=(*words,), source_tokens=(*sources,), alignment=pairs
    )
