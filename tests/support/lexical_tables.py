"""Lexical tables for shortlists."""


def write_table(path, lines):
    """Write ``lines`` of target word, source word and probability."""
    path.write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines), encoding="utf-8")
    return str(path)


def next_words(path, n_words):
    """Write a table that translates each word to the next one."""
    lines = [(f"w{(number + 1) % n_words}", f"w{number}", 1.0) for number in range(n_words)]
    return write_table(path, lines)
