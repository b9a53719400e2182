"""Terms whose translations are prescribed."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from ..data.text import PathLike, open_text
from .language_codes import are_same
from .languages import Pair

N_COLUMNS = (2, 3)
# Characters of scripts that do not separate words by spaces.
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
WORD = re.compile(r"\w")


class Term(NamedTuple):
    """A term and its translation.

    Attributes:
        source, target: the texts.
        pair: the languages; ``None`` for all.
        place: where the term was given, for messages.
    """

    source: str
    target: str
    pair: Optional[Pair]
    place: str


@dataclass(eq=False)
class Glossary:
    """Terms by their source.

    A term without capital letters is found in any case, others only as they are written. Of terms
    that overlap, the one that begins first is found, and of these the longest.

    Attributes:
        terms: by source, those without capital letters in lower case.
    """

    terms: dict[str, list[Term]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths: dict[str, set[int]] = {}
        for source in self.terms:
            lengths.setdefault(source[0].lower(), set()).add(len(source))
        self._lengths = {first: sorted(own, reverse=True) for first, own in lengths.items()}

    @classmethod
    def of(cls, terms: Iterable[Term]) -> "Glossary":
        """
        Raises:
            ValueError: for an empty term, and for different translations of a term for the same
                languages.
        """
        by_source: dict[str, list[Term]] = {}
        for term in terms:
            own = term._replace(
                source=" ".join(term.source.split()), target=" ".join(term.target.split())
            )
            for side, text in (("term", own.source), ("translation", own.target)):
                if not text:
                    raise ValueError(f"{own.place}: an empty {side}; write one, or remove the line")
            known = by_source.setdefault(own.source, [])
            for other in known:
                if other.pair == own.pair and other.target != own.target:
                    raise ValueError(
                        f"{own.place}: translates {own.source} as {own.target}, and {other.place} "
                        f"as {other.target}; remove one of them"
                    )
            known.append(own)
        return cls(by_source)

    @classmethod
    def read(cls, path: PathLike) -> "Glossary":
        """Read lines of a term, a tab and its translation; after another tab, languages.

        Empty lines and lines that begin with ``#`` are skipped. Languages are written ``en-de``.

        Raises:
            OSError: for a file that cannot be read.
            ValueError: see :meth:`of`, and for other lines.
        """
        with open_text(path) as file:
            return cls.of(_terms(file, str(path)))

    @classmethod
    def given(cls, terms: Mapping[str, str]) -> "Glossary":
        """Terms with their translations; see :meth:`of`."""
        return cls.of(Term(source, target, None, "glossary") for source, target in terms.items())

    def translations(self, text: str, pair: Pair) -> list[str]:
        """The translations of the terms in a sentence, each once, in the order of the sentence.

        Args:
            pair: the languages of the sentence and its translation.
        """
        text = " ".join(text.split())
        found: dict[str, None] = {}
        place = 0
        while place < len(text):
            term = self._term_at(text, place, pair)
            if term is not None:
                found[term.target] = None
            place += 1 if term is None else len(term.source)
        return list(found)

    def _term_at(self, text: str, start: int, pair: Pair) -> Optional[Term]:
        """The longest term at a place of a sentence."""
        for length in self._lengths.get(text[start].lower(), ()):
            part = text[start : start + length]
            if len(part) < length or not _is_whole(text, start, start + length):
                continue
            for source in dict.fromkeys((part, part.lower())):
                of_source = [
                    term for term in self.terms.get(source, ()) if _applies(term.pair, pair)
                ]
                # Terms for these languages come before those for all.
                if of_source:
                    return max(of_source, key=lambda term: term.pair is not None)
        return None


def glossary_of(given: Any) -> Optional[Glossary]:
    """
    Args:
        given: a glossary, the path of one, a dict of terms and their translations, or ``None``.

    Raises:
        ValueError: for another type, terms that are not valid, and a file that cannot be read.
    """
    if given is None or isinstance(given, Glossary):
        return given
    if isinstance(given, Mapping):
        if not all(isinstance(text, str) for term in given.items() for text in term):
            raise ValueError("glossary: terms and translations must be strings")
        return Glossary.given(given)
    if not isinstance(given, (str, os.PathLike)):
        raise ValueError(
            f"glossary {given!r}: must be a path, or a dict of terms and their translations"
        )
    try:
        return Glossary.read(given)
    except OSError as error:
        raise ValueError(f"glossary {given}: {error.strerror or error}") from error


def with_glossary(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of :func:`load`, whose glossary is read once; see :func:`glossary_of`."""
    read = {"glossary": glossary_of(options["glossary"])} if "glossary" in options else {}
    return {**options, **read}


def _terms(lines: Iterable[str], name: str) -> Iterator[Term]:
    """The terms of a file."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        place, columns = f"{name}, line {number}", line.rstrip("\r\n").split("\t")
        if len(columns) not in N_COLUMNS:
            raise ValueError(
                f"{place}: {len(columns)} columns; write a term, a tab and its translation, and "
                "for one pair of languages another tab and the pair, for example en-de"
            )
        pair = None
        if len(columns) > N_COLUMNS[0] and columns[-1].strip():
            names = columns[-1].strip().split("-")
            if len(names) != len(Pair._fields) or not all(names):
                raise ValueError(f"{place}: the languages {columns[-1]}; write them as en-de")
            pair = Pair(*names)
        yield Term(columns[0], columns[1], pair, place)


def _applies(own: Optional[Pair], pair: Pair) -> bool:
    """Whether a term for some languages applies to a pair."""
    if own is None:
        return True
    return all(
        name is not None
        and wanted is not None
        and (name == wanted or are_same(name, wanted) or are_same(wanted, name))
        for name, wanted in zip(pair, own)
    )


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a text does not begin or end inside a word."""
    return not (_is_inside(text, start) or _is_inside(text, end))


def _is_inside(text: str, place: int) -> bool:
    """Whether a word extends over a place."""
    if not 0 < place < len(text):
        return False
    around = text[place - 1], text[place]
    return all(WORD.match(own) and not UNSPACED.match(own) for own in around)
