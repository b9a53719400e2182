"""Files of lines."""


def write(path, lines):
    """Write lines, and return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
