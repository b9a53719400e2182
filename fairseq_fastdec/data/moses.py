"""sacremoses without the work that cannot change a line."""

import re
import sys
from typing import Any

# The modules of fairseq's ``--tokenizer moses``, and of the same for bundles.
MODULES = ("fairseq.data.encoders.moses_tokenizer", "fairseq_fastdec.bundles.codec")
# Substitutions of sacremoses, and the character that each of their matches contains.
SUBSTITUTIONS = {
    "AGGRESSIVE_HYPHEN_SPLIT": "-",
    "COMMA_SEPARATE_1": ",",
    "COMMA_SEPARATE_2": ",",
    "COMMA_SEPARATE_3": ",",
}
LISTS_OF_SUBSTITUTIONS = {"ENGLISH_SPECIFIC_APOSTROPHE": "'", "FR_IT_SPECIFIC_APOSTROPHE": "'"}


class PatternWithCharacter:
    """A compiled pattern that is not searched in a text without a character of all its matches."""

    def __init__(self, pattern: "re.Pattern[str]", character: str) -> None:
        self._pattern = pattern
        self._character = character

    def sub(self, replacement: str, text: str) -> str:
        """``pattern.sub(replacement, text)``."""
        return self._pattern.sub(replacement, text) if self._character in text else text


def skip_idle_work(tokenizer: Any) -> None:
    """Change a tokeniser of ``--tokenizer moses`` in place; its output stays the same.

    sacremoses searches every line for commas, hyphens and apostrophes beside all letters of
    Unicode, and collects these letters again for a full stop within a line. Other tokenisers, and
    versions of sacremoses before 0.1, whose patterns are strings, are left as they are.

    Args:
        tokenizer: an object of a class of :data:`MODULES`, whose ``tok`` is sacremoses' tokeniser,
            or any other.
    """
    if type(tokenizer).__module__ not in MODULES:
        return
    moses = tokenizer.tok
    if type(moses) is not sys.modules["sacremoses"].MosesTokenizer:
        return
    if not isinstance(moses.COMMA_SEPARATE_1[0], re.Pattern):
        return
    for name, character in SUBSTITUTIONS.items():
        setattr(moses, name, _with_character(getattr(moses, name), character))
    for name, character in LISTS_OF_SUBSTITUTIONS.items():
        rules = getattr(moses, name)
        setattr(moses, name, [_with_character(rule, character) for rule in rules])
    # Both are only used as conditions.
    moses.islower = frozenset(moses.IsLower).issuperset
    moses.isanyalpha = frozenset(moses.IsAlpha).intersection


def _with_character(
    substitution: tuple[Any, str], character: str
) -> tuple[PatternWithCharacter, str]:
    pattern, replacement = substitution
    return PatternWithCharacter(pattern, character), replacement
