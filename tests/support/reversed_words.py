"""A translation with an alignment that tests can read."""

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
