"""Writes texts of words for fairseq-preprocess."""


def write_words(path, lines):
    """Write a line for each list of words."""
    path.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
