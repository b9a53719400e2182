"""Reads the bodies of requests: limits, formats and fields."""

import hmac
import json
from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from .config import ServerOptions

MAX_ALTERNATIVES = 10
MAX_FIELDS = 1100
MAX_NAME = 32


async def read_fields(request: Request, options: ServerOptions) -> dict[str, Any]:
    """Read the fields of a request: JSON, a URL-encoded form or a multipart form.

    Fields that are ``null`` are left out.

    Raises:
        HTTPException: 400 for a malformed body, 403 for a wrong key, 413 if the body is too long.
    """
    body = await _read_body(request, options.max_body_bytes)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            fields = json.loads(body)
        elif kind == "application/x-www-form-urlencoded":
            fields = _without_lists(
                parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
            )
        elif kind == "multipart/form-data":
            fields = await _multipart(request, body)
        else:
            raise HTTPException(
                400,
                f"content-type {kind!r}: choose from application/json, "
                "application/x-www-form-urlencoded, multipart/form-data",
            )
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not valid {kind}") from error
    if not isinstance(fields, dict):
        raise HTTPException(400, "the body must be an object with fields")
    fields = {name: value for name, value in fields.items() if value is not None}
    check_key(fields.get("api_key") or _bearer(request), options.api_keys)
    return fields


def _bearer(request: Request) -> str:
    """The key in the ``Authorization: Bearer`` header; empty without such a header."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


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


async def _multipart(request: Request, body: bytes) -> dict[str, Any]:
    """The fields of a multipart form. Files are refused, so nothing is written to disk."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    form = await Request(request.scope, receive).form(
        max_files=0, max_fields=MAX_FIELDS, max_part_size=max(len(body), 1)
    )
    return _without_lists({name: form.getlist(name) for name in form})


def _without_lists(form: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {name: values[0] if len(values) == 1 else values for name, values in form.items()}


def check_key(key: object, keys: tuple[str, ...]) -> None:
    """Compare an API key with all valid keys, in constant time.

    Raises:
        HTTPException: 403 if there are valid keys and none of them matches.
    """
    given = key.encode(errors="replace") if isinstance(key, str) else b""
    matches = [hmac.compare_digest(given, valid.encode()) for valid in keys]
    if keys and not any(matches):
        raise HTTPException(403, "api_key: missing or wrong")


def texts_of(fields: dict[str, Any], name: str, options: ServerOptions) -> list[str]:
    """The texts in a field that holds a string or a list of strings.

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
    return texts


def drafts_of(fields: dict[str, Any], n: int, options: ServerOptions) -> Optional[list[str]]:
    """The drafts of n texts; missing drafts are empty strings. ``None`` without the field.

    Raises:
        HTTPException: 400 for anything but strings, 413 if they are too long.
    """
    if "draft" not in fields:
        return None
    drafts = texts_of(fields, "draft", options)
    return [*drafts, *[""] * n][:n]


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
