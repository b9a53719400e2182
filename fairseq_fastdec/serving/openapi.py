"""The OpenAPI description of the HTTP interface."""

from typing import Any

from ..translating.tagged import KINDS
from .config import ServerOptions
from .requests import FORMATS, TEXT
from .texts import MOST_CHARS

JSON = "application/json"
DRAFT = (
    "an earlier translation of each text of q, in the same order; the model verifies it, so the "
    "response is the same, but faster where they agree; empty or missing for none"
)
GLOSSARY = (
    "terms and their translations: a translation contains those of the terms in its sentence; "
    "a term without capital letters is found in any case"
)
# No white space at the beginning and the end. Python strips more than patterns of JSON Schema,
# which are those of JavaScript, call white space.
INK = r"[^\s\x1c-\x1f\x85]"
NOT_EMPTY = rf"^{INK}(.*{INK})?$"
FORBIDDEN = "phrases that no translation contains"
PAIR = "a sentence and its translation; they are not split into sentences"
ALIGNMENT = (
    "return the subwords and the alignment of each sentence of q: hard, pairs of a source and a "
    "target subword, from 0; or soft, for each target subword and the end of the sentence, the "
    "probabilities of the source subwords, and the sum of the others"
)
FORMAT = (
    "what the texts contain: tags of html, placeholders such as {name} and %s, or a list of both; "
    "they are carried over to the translations"
)
CONSTRAINTS = (
    "phrases that the translation contains: a string or several; for a list of texts, one of these "
    "or null for each. A text with constraints has to be one sentence"
)
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def description(
    sources: list[str], targets: list[str], max_alternatives: int, options: ServerOptions
) -> dict[str, Any]:
    """The description of a server with these languages and limits.

    Args:
        sources: the languages, and ``auto`` if they are detected.
    """
    text = {"type": "string", "maxLength": options.max_chars}
    texts = {"type": "array", "items": text, "maxItems": options.max_texts}
    key = {"api_key": {"type": "string"}}
    libretranslate = _object(
        {
            "q": {"oneOf": [text, texts]},
            "source": {"type": "string", "enum": sources},
            "target": {"type": "string", "enum": targets},
            "format": {"type": "string", "enum": [*FORMATS], "default": TEXT},
            "alternatives": {"type": "integer", "minimum": 0, "maximum": max_alternatives},
            **key,
        },
        ["q", "source", "target"],
    )
    form = _object({**libretranslate["properties"], "q": text}, libretranslate["required"])
    libretranslate["properties"] |= {
        "glossary": {
            "type": "object",
            "propertyNames": {"pattern": NOT_EMPTY},
            "additionalProperties": {**text, "pattern": NOT_EMPTY},
            "maxProperties": options.max_texts,
            "description": GLOSSARY,
        },
        "forbidden": {**texts, "description": FORBIDDEN},
        "format": {
            "oneOf": [
                libretranslate["properties"]["format"],
                {"type": "array", "items": {"enum": [*KINDS]}, "minItems": 1},
            ],
            "description": FORMAT,
        },
    }
    languages = {name: libretranslate["properties"][name] for name in ("source", "target")}
    alignment = {"type": "string", "enum": ["hard", "soft"], "description": ALIGNMENT}
    phrases: list[dict[str, Any]] = [text, texts]
    constraints: dict[str, dict[str, Any]] = {
        "one": {"oneOf": phrases},
        "many": {
            "type": "array",
            "items": {"oneOf": [*phrases, {"type": "null"}]},
            "maxItems": options.max_texts,
        },
    }
    # Requests that LibreTranslate does not have, for one text and for many.
    others = {
        name: [
            _object({"q": kind, **own, **languages, **key}, ["q", required, "source", "target"])
            for required, own in (
                ("draft", {"draft": {**kind, "description": DRAFT}, "alignment": alignment}),
                ("alignment", {"alignment": alignment}),
                ("constraints", {"constraints": {**constraints[name], "description": CONSTRAINTS}}),
            )
        ]
        for name, kind in (("one", text), ("many", texts))
    }
    curator = _object(
        {
            "texts": texts,
            "src_lang": {"type": "string", "enum": [own for own in sources if own != "auto"]},
            "tgt_lang": {"type": "string", "enum": targets},
            **key,
        },
        ["texts", "src_lang", "tgt_lang"],
    )
    sentence = {"type": "string", "maxLength": min(MOST_CHARS, options.max_chars)}
    pair = {"type": "array", "items": sentence, "minItems": 2, "maxItems": 2, "description": PAIR}
    scored = _object(
        {
            "pairs": {"type": "array", "items": pair, "maxItems": options.max_texts},
            **languages,
            **key,
        },
        ["pairs", "source", "target"],
    )
    detected = _object(
        {"language": {"type": "string"}, "confidence": {"type": "number"}},
        ["language", "confidence"],
    )
    strings = {"type": "array", "items": {"type": "string"}}
    rows = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
    sentence = {"sourceTokens": strings, "targetTokens": strings, "alignment": rows}
    sentences = {"type": "array", "items": _object(sentence, list(sentence))}
    one = _object(
        {
            "translatedText": {"type": "string"},
            "alternatives": strings,
            "alignment": sentences,
            "detectedLanguage": detected,
        },
        ["translatedText"],
    )
    many = _object(
        {
            "translatedText": strings,
            "alternatives": {"type": "array", "items": strings},
            "alignment": {"type": "array", "items": sentences},
            "detectedLanguage": {"type": "array", "items": detected},
        },
        ["translatedText"],
    )
    translated = {"oneOf": [one, many, _object({"translations": strings}, ["translations"])]}
    language = _object(
        {"code": {"type": "string"}, "name": {"type": "string"}, "targets": strings},
        ["code", "name", "targets"],
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "fairseq_fastdec", "version": "1"},
        # An alternative to the field api_key.
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "paths": {
            "/translate": _post(
                "Translate a text or a list of texts",
                {
                    JSON: {"anyOf": [libretranslate, *others["many"], *others["one"], curator]},
                    **dict.fromkeys(FORMS, {"anyOf": [form, *others["one"]]}),
                },
                translated,
            ),
            "/score": _post(
                "The mean log-probability of the tokens of given translations",
                {JSON: scored},
                _object({"scores": {"type": "array", "items": {"type": "number"}}}, ["scores"]),
            ),
            "/detect": _post(
                "The most probable language of a text among the source languages",
                dict.fromkeys((JSON, *FORMS), _object({"q": text, **key}, ["q"])),
                {"type": "array", "items": detected},
            ),
            "/languages": _get("The languages", JSON, {"type": "array", "items": language}),
            "/frontend/settings": _get("Limits and defaults", JSON, {"type": "object"}),
            "/health": _get("Whether the server is up", JSON, {"type": "object"}),
            "/metrics": _get("Metrics for Prometheus", "text/plain", {"type": "string"}),
            "/openapi.json": _get("This description", JSON, {"type": "object"}),
            "/": _get("A web page for translating", "text/html", {"type": "string"}),
        },
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _get(summary: str, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    answer = {"description": summary, "content": {kind: {"schema": schema}}}
    return {"get": {"summary": summary, "responses": {"200": answer}}}


def _post(
    summary: str, bodies: dict[str, dict[str, Any]], schema: dict[str, Any]
) -> dict[str, Any]:
    error = {JSON: {"schema": _object({"error": {"type": "string"}}, ["error"])}}
    reasons = {
        "400": "an invalid field",
        "403": "the api_key is missing or wrong",
        "408": "the body did not arrive in time",
        "413": "the body, or a text in it, is too long",
        "429": "too many sentences are waiting; see Retry-After",
        "500": "internal error",
        "504": "it took too long",
    }
    answers: dict[str, Any] = {
        status: {"description": reason, "content": error} for status, reason in reasons.items()
    }
    answers["200"] = {"description": summary, "content": {JSON: {"schema": schema}}}
    content = {kind: {"schema": body} for kind, body in bodies.items()}
    return {
        "post": {
            "summary": summary,
            "security": [{"key": []}, {}],
            "requestBody": {"required": True, "content": content},
            "responses": answers,
        }
    }
