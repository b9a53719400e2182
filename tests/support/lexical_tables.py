"""Tables of word translations, of which shortlists are made."""


def write_table(path, lines):
    """``lines``: target word, source word, probability."""
    path.write_text("".join(f"{' '.join(map(str, line))}\n" for line in lines), encoding="utf-8")
    return str(path)
