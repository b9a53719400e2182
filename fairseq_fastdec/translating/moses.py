"""Speeds up sacremoses: by skipping substitutions that cannot match, and by compiling fewer."""

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any

# Substitutions of sacremoses, and a character that all of their matches contain.
SUBSTITUTIONS = {
    "AGGRESSIVE_HYPHEN_SPLIT": "-",
    "COMMA_SEPARATE_1": ",",
    "COMMA_SEPARATE_2": ",",
    "COMMA_SEPARATE_3": ",",
}
LISTS_OF_SUBSTITUTIONS = {"ENGLISH_SPECIFIC_APOSTROPHE": "'", "FR_IT_SPECIFIC_APOSTROPHE": "'"}

# Characters of a pattern that is only compiled if it is used.
LONG = 1000


class LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # as copies and pickles ask
            raise AttributeError(name)
        found = getattr(re.compile(*self._arguments), name)
        setattr(self, name, found)  # found without this method from now on
        return found


@contextlib.contextmanager
def lazy_patterns() -> Iterator[None]:
    """Modules that are imported within get their long patterns as :class:`LazyPattern`.

    sacremoses has twelve with all letters of Unicode. Compiling them takes long, and a process that
    translates one sentence uses few of them.
    """
    compiled = re.compile

    def compile_short(pattern: Any, *flags: Any) -> Any:
        is_long = isinstance(pattern, str) and len(pattern) > LONG
        return LazyPattern(pattern, *flags) if is_long else compiled(pattern, *flags)

    re.compile = compile_short  # type: ignore[assignment]
    try:
        yield
    finally:
        re.compile = compiled


class PatternWithCharacter:
    """A compiled pattern that skips texts without a character that all matches contain."""

    def __init__(self, pattern: "re.Pattern[str]", character: str) -> None:
        self._pattern = pattern
        self._character = character

    def sub(self, replacement: str, text: str) -> str:
        """Equivalent to ``pattern.sub(replacement, text)``."""
        return self._pattern.sub(replacement, text) if self._character in text else text


def skip_idle_work(tokenizer: Any) -> None:
    """Speed up a tokeniser of ``--tokenizer moses`` in place, without changing its output.

    sacremoses searches every line for commas, hyphens and apostrophes next to any letter of
    Unicode, and collects these letters again for each full stop within a line. Other tokenisers
    are not changed, nor are those with patterns of their own.

    Args:
        tokenizer: any object; those for ``--tokenizer moses`` have sacremoses' tokeniser as
            ``tok``.
    """
    moses = getattr(tokenizer, "tok", None)
    sacremoses: Any = sys.modules.get("sacremoses")
    if moses is None or sacremoses is None or type(moses) is not sacremoses.MosesTokenizer:
        return
    if vars(moses).keys() & {*SUBSTITUTIONS, *LISTS_OF_SUBSTITUTIONS}:
        return
    for name, character in SUBSTITUTIONS.items():
        pattern, replacement = getattr(moses, name)
        setattr(moses, name, (PatternWithCharacter(pattern, character), replacement))
    for name, character in LISTS_OF_SUBSTITUTIONS.items():
        rules = [(PatternWithCharacter(own, character), text) for own, text in getattr(moses, name)]
        setattr(moses, name, rules)
    # sacremoses only tests the truth of both results.
    moses.islower = frozenset(moses.IsLower).issuperset
    moses.isanyalpha = frozenset(moses.IsAlpha).intersection
