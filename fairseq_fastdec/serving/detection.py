"""Detects the language of texts, with the package py3langid."""

import importlib
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

from ..translating.language_codes import language_of

# Longer texts take longer, and are not recognised better.
MOST_CHARS = 2000


class Detected(NamedTuple):
    """A language of a server, and how certain it is, from 0 to 100."""

    language: str
    confidence: float


class Detector:
    """Chooses among the source languages of a server. Methods are thread-safe."""

    def __init__(self, languages: Sequence[str]) -> None:
        """
        Args:
            languages: the names of the languages; of several names with one ISO 639-1 code, such as
                two scripts, the first is detected.
        """
        langid = _installed()
        self._names: dict[str, str] = {}
        for name in languages:
            self._names.setdefault(language_of(name), name)
        self._identifier = self._known = None
        if langid is not None:
            model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
            self._known = sorted(set(model.labels()) & self._names.keys())
            if self._known:
                model.set_languages(self._known)
                self._identifier = model
        self._lock = threading.Lock()

    @property
    def is_possible(self) -> bool:
        """Whether the package is installed, and knows one of the languages."""
        return self._identifier is not None

    def detect(self, text: str) -> Detected:
        """The most probable language of a text."""
        assert self._identifier is not None
        with self._lock:
            code, probability = self._identifier.classify(text[:MOST_CHARS])
        return Detected(self._names[code], round(100 * float(probability), 1))


def _installed() -> Optional[Any]:
    try:
        return importlib.import_module("py3langid.langid")
    except ModuleNotFoundError:
        return None
