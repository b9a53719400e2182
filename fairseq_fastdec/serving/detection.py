"""Detects the language of texts, with the package py3langid."""

import importlib
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from ..translating.language_codes import language_of

# Longer texts take longer, and are not recognised better.
MOST_CHARS = 2000
# The package knows Norwegian by the code of both standards, and Nynorsk.
STANDARDS = {"no": "nb"}


class Detected(NamedTuple):
    """A language of a server, and how certain it is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Chooses among the source languages of a server. Methods are thread-safe.

    Attributes:
        is_installed: whether there is the package.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        """
        Args:
            languages: the names of the languages; of several names with one ISO 639-1 code, such as
                two scripts, the first is detected.
        """
        langid = _installed()
        self.is_installed = langid is not None
        self._names: dict[str, str] = {}
        self._identifier: Any = None
        self._lock = threading.Lock()
        if langid is None:
            return
        codes: dict[str, str] = {}
        for name in languages:
            codes.setdefault(language_of(name), name)
        model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
        for label in model.labels:
            code = language_of(label)
            found = codes.get(code) or codes.get(STANDARDS.get(code, ""))
            if found is not None:
                self._names[label] = found
        # All texts would be in the only language that the package knows.
        if len(self._names) > 1:
            model.set_languages(list(self._names))
            self._identifier = model

    @property
    def is_possible(self) -> bool:
        """Whether the package is installed, and knows several of the languages."""
        return self._identifier is not None

    def detect(self, text: str) -> Detected:
        """The most probable language of a text."""
        with self._lock:
            label, probability = self._identifier.classify(text[:MOST_CHARS])
        return Detected(self._names[label], round(100 * float(probability), 1))


def _installed() -> Optional[Any]:
    try:
        return importlib.import_module("py3langid.langid")
    except ModuleNotFoundError:
        return None
