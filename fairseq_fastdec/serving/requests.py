"""Reads the bodies of requests: limits, formats and fields."""

import hmac
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Optional
from urllib.parse import unquote_to_bytes

from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from ..translating.alignments import HARD, SOFT
from ..translating.glossary import Glossary
from ..translating.results import BYTE_ORDER_MARK
from ..translating.sentences import strings_of
from ..translating.tagged import KINDS
from ..translating.turns import in_turns, turn
from .config import ServerOptions
from .texts import MOST_CHARS

TEXT = "text"
FORMATS = (TEXT, *KINDS)
MAX_ALTERNATIVES = 10
MAX_FIELDS = 1100
MAX_NAME = 32
# The number of bytes of a form that are parsed at once.
PIECE = 1 << 14


class Asked(NamedTuple):
    """The translations that a request asks for.

    Attributes:
        kinds: what the texts contain, of :data:`.tagged.KINDS`.
        n: the number of translations of each text.
        alignment: the kind of the alignments to return; ``None`` for none.
        options: of all sentences, see :meth:`.translator.Translator.translate_async`.
        drafts: of each text; ``None`` without drafts.
        constraints: of each text, or of none.
    """

    kinds: tuple[str, ...] = ()
    n: int = 1
    alignment: Optional[str] = None
    options: Mapping[str, Any] = MappingProxyType({})
    drafts: Optional[list[str]] = None
    constraints: Sequence[list[str]] = ()


def asked_of(fields: dict[str, Any], n_texts: int, options: ServerOptions) -> Asked:
    """Read the fields of a request that are about the translations of its n texts.

    Raises:
        HTTPException: 400 for values that are wrong or cannot be combined, 413 for texts that are
            too long.
    """
    kinds, n = formats_of(fields), 1 + alternatives_of(fields)
    drafts, alignment = drafts_of(fields, n_texts, options), alignment_of(fields)
    for name, own in (("draft", drafts), ("alignment", alignment)):
        if own and (n > 1 or kinds):
            raise HTTPException(400, f"{name}: only with format text and without alternatives")
    constraints, given = constraints_of(fields, n_texts, options), phrases_of(fields, options)
    if constraints:
        given["decoding"] = "beam"
    return Asked(kinds, n, alignment, given, drafts, constraints)


async def read_fields(request: Request, options: ServerOptions) -> dict[str, Any]:
    """Read the fields of a request: JSON, a URL-encoded form or a multipart form.

    Fields that are ``null`` are left out.

    Raises:
        HTTPException: 400 for a malformed body, 403 for a wrong key, 413 if the body is too long.
    """
    body = await _read_body(request, options.max_body_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    await turn()
    try:
        if kind == "application/json":
            fields = _json(body, MAX_FIELDS + 2 * options.max_texts)
        elif kind == "application/x-www-form-urlencoded":
            fields = await _urlencoded(body)
        elif kind == "multipart/form-data":
            fields = await _multipart(request, body)
        else:
            raise HTTPException(
                400,
                f"content-type {kind!r}: choose from application/json, "
                "application/x-www-form-urlencoded, multipart/form-data",
            )
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not valid {kind} in UTF-8") from error
    if not isinstance(fields, dict):
        raise HTTPException(400, "the body must be an object with fields")
    fields = {name: value for name, value in fields.items() if value is not None}
    check_key(fields.get("api_key") or _bearer(request), options.api_keys)
    return fields


def _bearer(request: Request) -> str:
    """The key in the ``Authorization: Bearer`` header; empty without such a header.

    Clients encode it in UTF-8 or in Latin-1.
    """
    header = request.headers.get("authorization", "").encode("latin-1")
    scheme, _, key = header.partition(b" ")
    if scheme.lower() != b"bearer":
        return ""
    try:
        return key.strip().decode()
    except UnicodeDecodeError:
        return key.strip().decode("latin-1")


def _json(body: bytes, most: int) -> Any:
    """Parse JSON.

    Raises:
        HTTPException: 413 for more than ``most`` values, which would take long to parse.
        ValueError: if it is not JSON in UTF-8.
    """
    text = body.decode("utf-8-sig")
    # Quotes that are not escaped are the ends of strings, and commas outside of strings separate
    # values. A value has at most two strings: its key and itself.
    parts = text.replace(r"\\", "").replace(r"\"", "").split('"', 4 * most)
    if sum(part.count(",") for part in parts[::2]) >= most or len(parts) > 4 * most:
        raise HTTPException(413, f"the body has more than {most} values")
    # The time for an integer is not proportional to its length.
    return json.loads(text, parse_int=float)


async def _read_body(request: Request, limit: int) -> bytes:
    """Read the body, up to the limit; the length in the header is not trusted."""
    too_long = HTTPException(413, f"the body is longer than {limit} bytes")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length[:20]) > limit:
        raise too_long
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_long
    return bytes(body)


async def _urlencoded(body: bytes) -> dict[str, Any]:
    """The fields of a URL-encoded form.

    Raises:
        ValueError: for too many fields, or if they are not in UTF-8.
    """
    parts = body.split(b"&", MAX_FIELDS)
    if len(parts) > MAX_FIELDS:
        raise ValueError(f"more than {MAX_FIELDS} fields")
    fields = []
    for part in filter(None, parts):
        name, _, value = part.replace(b"+", b" ").partition(b"=")
        pieces = [await in_turns(_unquoted(encoded)) for encoded in (name, value)]
        fields.append((b"".join(pieces[0]).decode(), b"".join(pieces[1]).decode()))
    return _without_lists(fields)


def _unquoted(encoded: bytes) -> Iterator[bytes]:
    """Decode percent-encoded bytes, in pieces."""
    start = 0
    while start < len(encoded):
        # An escape begins with "%", so a piece that ends before one has whole escapes.
        end = encoded.find(b"%", start + PIECE)
        end = len(encoded) if end < 0 else end
        yield unquote_to_bytes(encoded[start:end])
        start = end


async def _multipart(request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a multipart form. Files are refused, so nothing is written to disk.

    Raises:
        HTTPException: 400 for a malformed form, or for one that is not in UTF-8.
        ValueError: if the body is not in UTF-8.
    """
    body.decode()
    _, parameters = parse_options_header(request.headers["content-type"])
    charset = parameters.get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):
        raise HTTPException(400, f"content-type: charset {charset.decode('latin-1')}: use utf-8")

    async def pieces() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), PIECE):
            await turn()
            yield body[start : start + PIECE]

    parser = MultiPartParser(
        request.headers,
        pieces(),
        max_files=0,
        max_fields=MAX_FIELDS,
        max_part_size=max(len(body), 1),
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error
    return _without_lists(form.multi_items())


def _without_lists(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields of a form; a name that occurs several times has a list of its values."""
    found: dict[str, list[Any]] = {}
    for name, value in fields:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def check_key(key: object, keys: tuple[str, ...]) -> None:
    """Compare an API key with all valid keys, in constant time.

    Raises:
        HTTPException: 403 if there are valid keys and none of them matches.
    """
    given = key.encode(errors="surrogatepass") if isinstance(key, str) else b""
    matches = [hmac.compare_digest(given, valid.encode()) for valid in keys]
    if keys and not any(matches):
        raise HTTPException(403, "api_key: missing or wrong")


def texts_of(fields: dict[str, Any], name: str, options: ServerOptions) -> list[str]:
    """The texts in a field that holds a string or a list of strings, without byte order marks.

    Raises:
        HTTPException: 400 for another type, 413 if there are too many or they are too long.
    """
    value = fields.get(name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise HTTPException(400, f"{name}: must be a string or a list of strings")
    if len(texts) > options.max_texts:
        raise HTTPException(413, f"{name}: {len(texts)} texts; the limit is {options.max_texts}")
    length = sum(map(len, texts))
    if length > options.max_chars:
        raise HTTPException(413, f"{name}: {length} characters; the limit is {options.max_chars}")
    for text in texts:
        check_unicode(name, text)
    return [text.removeprefix(BYTE_ORDER_MARK) for text in texts]


def pairs_of(fields: dict[str, Any], options: ServerOptions) -> list[tuple[str, str]]:
    """The pairs of a text and a translation in the field ``pairs``.

    Raises:
        HTTPException: 400 for another type, 413 if there are too many or they are too long.
    """
    pairs = fields.get("pairs")
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list) and [*map(type, pair)] == [str, str] for pair in pairs
    ):
        raise HTTPException(400, "pairs: must be a list of [TEXT, TRANSLATION], both strings")
    if len(pairs) > options.max_texts:
        raise HTTPException(413, f"pairs: {len(pairs)} pairs; the limit is {options.max_texts}")
    sources, targets = (
        texts_of({"pairs": [pair[side] for pair in pairs]}, "pairs", options) for side in (0, 1)
    )
    longest = max(map(len, [*sources, *targets]), default=0)
    if longest > MOST_CHARS:
        raise HTTPException(
            413, f"pairs: a text has {longest} characters; the limit of a sentence is {MOST_CHARS}"
        )
    return list(zip(sources, targets))


def drafts_of(fields: dict[str, Any], n: int, options: ServerOptions) -> Optional[list[str]]:
    """The drafts of n texts; missing drafts are empty strings. ``None`` without the field.

    Raises:
        HTTPException: 400 for anything but strings, 413 if they are too long.
    """
    if "draft" not in fields:
        return None
    drafts = texts_of(fields, "draft", options)
    return [*drafts, *[""] * n][:n]


def phrases_of(fields: dict[str, Any], options: ServerOptions) -> dict[str, Any]:
    """The terms and the forbidden phrases of a request, as options of a call.

    Raises:
        HTTPException: 400 for another type, 413 if there are too many or they are too long.
    """
    found: dict[str, Any] = {}
    if "forbidden" in fields:
        found["forbidden"] = texts_of(fields, "forbidden", options)
    if "glossary" in fields:
        terms = fields["glossary"]
        if not isinstance(terms, dict) or not all(isinstance(own, str) for own in terms.values()):
            raise HTTPException(400, "glossary: must be an object of terms and their translations")
        for texts in ([*terms], [*terms.values()]):
            texts_of({"glossary": texts}, "glossary", options)
        try:
            found |= {"glossary": Glossary.given(terms), "decoding": "beam"}
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
    return found


def constraints_of(fields: dict[str, Any], n: int, options: ServerOptions) -> list[list[str]]:
    """The phrases of each of n texts; nothing without the field.

    Raises:
        HTTPException: 400 for another type, 413 if there are too many or they are too long.
    """
    given = fields.get("constraints")
    if given is None:
        return []
    several = given if isinstance(fields.get("q"), list) else [given]
    if not isinstance(several, list) or len(several) != n:
        raise HTTPException(
            400, f"constraints: must be one for each of {n} texts; use null for a text without"
        )
    try:
        found = [strings_of("constraints", own) or [] for own in several]
    except TypeError as error:
        raise HTTPException(400, str(error)) from error
    texts_of({"constraints": [phrase for own in found for phrase in own]}, "constraints", options)
    return found


def formats_of(fields: dict[str, Any]) -> tuple[str, ...]:
    """The kinds of texts in the field ``format``, of :data:`.tagged.KINDS`; none for plain ones.

    Raises:
        HTTPException: 400 for another value.
    """
    value = fields.get("format", TEXT)
    given = value if isinstance(value, list) else [value]
    names = [*dict.fromkeys(string_of({"format": own}, "format") for own in given)]
    for name in names:
        if name not in FORMATS:
            raise HTTPException(400, f"format {name!r}: choose from {', '.join(FORMATS)}")
    if not names or (TEXT in names and len(names) > 1):
        raise HTTPException(400, f"format: choose {TEXT}, or some of {', '.join(KINDS)}")
    return tuple(name for name in names if name != TEXT)


def alignment_of(fields: dict[str, Any]) -> Optional[str]:
    """The kind of the alignments, see :mod:`..translating.alignments`; ``None`` for none.

    Raises:
        HTTPException: 400 for another value.
    """
    value = fields.get("alignment")
    if value not in (None, HARD, SOFT):
        raise HTTPException(400, f"alignment: choose from {HARD}, {SOFT}")
    return value


def check_unicode(name: str, text: str) -> None:
    """Reject unpaired surrogates, which JSON can escape but UTF-8 cannot encode.

    Raises:
        HTTPException: 400 if the text has one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise HTTPException(400, f"{name}: has an unpaired surrogate") from error


def string_of(fields: dict[str, Any], name: str, default: str = "") -> str:
    """A field that holds a short name, such as a language code.

    Raises:
        HTTPException: 400 if it is missing without a default, or not such a string.
    """
    value = fields.get(name, default)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME:
        raise HTTPException(400, f"{name}: must be a string of 1 to {MAX_NAME} characters")
    check_unicode(name, value)
    return value


def alternatives_of(fields: dict[str, Any]) -> int:
    """The number of alternatives. Forms pass it as text.

    Raises:
        HTTPException: 400 for anything but a whole number up to :data:`MAX_ALTERNATIVES`.
    """
    value = fields.get("alternatives", 0)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():  # JSON Schema's integers include 1.0
        value = int(value)
    if type(value) is not int or not 0 <= value <= MAX_ALTERNATIVES:
        raise HTTPException(
            400, f"alternatives: must be a whole number from 0 to {MAX_ALTERNATIVES}"
        )
    return value
