"""Tables of word translations, of which shortlists are made."""


def write_table(path, lines):
    """``lines``: target word, source word, probability."""
    path.write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines), encoding="utf-8")
    return str(path)


def next_words(path, n_words):
    """A table in which words have the next word for a translation; the source's may be copied."""
    lines = [(f"w{(number + 1) % n_words}", f"w{number}", 1.0) for number in range(n_words)]
    return write_table(path, lines)
