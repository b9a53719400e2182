"""The multiply-adds of compiled code, counted by itself."""

from . import loading


def multiply_adds() -> int:
    """The multiply-adds of all products and attention so far; 0 where nothing was compiled."""
    library = loading.library()
    return 0 if library is None else library.multiply_adds()
