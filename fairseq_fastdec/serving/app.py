"""The HTTP interface, compatible with LibreTranslate and NeMo Curator's translation stage."""

from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple, Optional

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from ..translating.alignments import HARD
from ..translating.errors import QueueFull
from ..translating.languages import Languages
from ..translating.results import SentenceError, Translation
from ..translating.sentences import SplitText
from ..translating.tagged import PLACEHOLDERS
from ..translating.translator import Translator
from ..translating.turns import at_most
from .config import ServerOptions
from .detection import Detected, Detector
from .languages import name_of
from .metrics import MeasuredApp, Metrics
from .openapi import description
from .requests import (
    MAX_ALTERNATIVES,
    Asked,
    asked_of,
    pairs_of,
    read_fields,
    string_of,
    texts_of,
)
from .slow_clients import in_time, while_connected
from .texts import (
    AnySplit,
    split_tagged,
    split_texts,
    translate_texts,
    with_constraints,
    with_drafts,
)

PAGE = Path(__file__).with_name("page.html")
AUTO = "auto"
# A server with one source language returns it for all texts.
UNSURE = 0.0
# The maximum number of a request's sentences in a model's queue, so that a long text neither fills
# the queue nor delays all other requests.
AT_ONCE = 64


class LanguagePair(NamedTuple):
    """A model and the languages of its requests.

    Attributes:
        source, target: the languages, or the default ones of a model of many.
        beam: the configured beam size; a request for more alternatives raises it.
        languages: of a model that translates between many.
        aligns: whether translations can be aligned while they are decoded.
    """

    source: str
    target: str
    translator: Translator
    beam: int = 1
    languages: Optional[Languages] = None
    aligns: bool = False

    @property
    def sources(self) -> list[str]:
        """The source languages."""
        return list(self.languages.tokens) if self.languages is not None else [self.source]

    @property
    def targets(self) -> list[str]:
        """The target languages."""
        return list(self.languages.tokens) if self.languages is not None else [self.target]

    def named(self, source: str, target: str) -> "LanguagePair":
        """This model for two languages of a request.

        Raises:
            ValueError: if it does not have them.
        """
        if self.languages is None:
            if (source.lower(), target.lower()) == (self.source.lower(), self.target.lower()):
                return self
            raise ValueError(f"choose from {self.source} to {self.target}")
        pair = self.languages.pair(source, target)
        return self._replace(source=pair.source or source, target=pair.target or target)

    def of_call(self) -> dict[str, str]:
        """The options of a call that name the languages."""
        if self.languages is None:
            return {}
        return {"source": self.source, "target": self.target}


class Service:
    """The models, limits and metrics of a server, and the handlers of its paths."""

    def __init__(self, pairs: list[LanguagePair], options: ServerOptions) -> None:
        """
        Raises:
            ValueError: if two models have the same languages.
        """
        names = {(pair.source.lower(), pair.target.lower()) for pair in pairs}
        if len(names) < len(pairs):
            raise ValueError("models: two models have the same source and target")
        # Models of one pair come first.
        self.pairs = sorted(pairs, key=lambda pair: pair.languages is not None)
        self.options = options
        self.at_once = min(AT_ONCE, options.max_queue)
        self.metrics = Metrics()
        for pair in pairs:
            self.metrics.watch(pair.source, pair.target, pair.translator)
        self.sources = list(dict.fromkeys(name for pair in pairs for name in pair.sources))
        self.targets = list(dict.fromkeys(name for pair in pairs for name in pair.targets))
        self.detector = Detector(self.sources) if len(self.sources) > 1 else None

    async def translate(self, request: Request) -> Response:
        fields = await self._fields(request)
        if "texts" in fields:
            return await self._translate_for_curator(request, fields)
        texts = texts_of(fields, "q", self.options)
        source, target = string_of(fields, "source", AUTO), string_of(fields, "target")
        asked = asked_of(fields, len(texts), self.options)
        detected = self._detected(texts) if source.lower() == AUTO else None
        pair = self._pair(detected.language if detected else source, target)
        found, hypotheses = await self._translated(request, pair, texts, asked)
        answer: dict[str, Any] = {"translatedText": [best[0] for best in found]}
        if asked.alignment is not None:
            answer["alignment"] = [[_alignment(best) for best, *_ in own] for own in hypotheses]
        if asked.n > 1:
            # Hypotheses with different tokens can have the same text.
            answer["alternatives"] = [
                [text for text in dict.fromkeys(best) if text != best[0]] for best in found
            ]
        if detected:
            answer["detectedLanguage"] = [detected._asdict()] * len(texts)
        if isinstance(fields["q"], str):
            answer = {name: value[0] for name, value in answer.items()}
        return JSONResponse(answer)

    async def _translate_for_curator(self, request: Request, fields: dict[str, Any]) -> Response:
        if not isinstance(fields["texts"], list):
            raise HTTPException(400, "texts: must be a list of strings")
        texts = texts_of(fields, "texts", self.options)
        pair = self._pair(string_of(fields, "src_lang"), string_of(fields, "tgt_lang"))
        found, _ = await self._translated(request, pair, texts, Asked())
        return JSONResponse({"translations": [best[0] for best in found]})

    async def score(self, request: Request) -> Response:
        fields = await self._fields(request)
        pairs = pairs_of(fields, self.options)
        source, target = string_of(fields, "source", AUTO), string_of(fields, "target")
        if source.lower() == AUTO:
            source = self._detected([text for text, _ in pairs]).language
        model = self._pair(source, target)
        work = self._score_pairs(model, pairs)
        scores = await self._answered(request, model, work, sum(len(own) for own, _ in pairs))
        return JSONResponse({"scores": scores})

    async def detect(self, request: Request) -> Response:
        fields = await self._fields(request)
        texts = texts_of(fields, "q", self.options)
        return JSONResponse([self._detected(texts)._asdict()])

    async def languages(self, request: Request) -> Response:
        codes = dict.fromkeys([*self.sources, *self.targets])
        return JSONResponse(
            [
                {
                    "code": code,
                    "name": name_of(code),
                    "targets": self._targets_of(code),
                }
                for code in codes
            ]
        )

    async def settings(self, request: Request) -> Response:
        first = self.pairs[0]
        languages = {
            name: {"code": code, "name": name_of(code)}
            for name, code in (("source", first.source), ("target", first.target))
        }
        return JSONResponse(
            {
                "apiKeys": bool(self.options.api_keys),
                "charLimit": self.options.max_chars,
                "filesTranslation": False,
                "frontendTimeout": 500,
                "keyRequired": bool(self.options.api_keys),
                "language": languages,
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def show_metrics(self, request: Request) -> Response:
        text = generate_latest(self.metrics.registry)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, request: Request) -> Response:
        sources = [AUTO] * self._detects + self.sources
        own = (sources, self.targets, MAX_ALTERNATIVES, self.options)
        return JSONResponse(description(*own))

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    async def _fields(self, request: Request) -> dict[str, Any]:
        return await in_time(
            read_fields(request, self.options),
            self.options.timeout_seconds,
            408,
            "the body did not arrive in time",
        )

    def _pair(self, source: str, target: str) -> LanguagePair:
        """The first model that has the languages of a request.

        Raises:
            HTTPException: 400 if there is none.
        """
        for pair in self.pairs:
            try:
                return pair.named(source, target)
            except ValueError as error:
                reason = str(error)
        if len(self.pairs) > 1 or self.pairs[0].languages is None:
            valid = ", ".join(
                f"{pair.source} to {pair.target}" if pair.languages is None
                else f"any two of {len(pair.sources)} languages, see /languages"
                for pair in self.pairs
            )  # fmt: skip
            reason = f"source {source}, target {target}: choose from {valid}"
        raise HTTPException(400, reason)

    def _targets_of(self, source: str) -> list[str]:
        """The languages into which a language can be translated."""
        found = [name for pair in self.pairs if source in pair.sources for name in pair.targets]
        return [name for name in dict.fromkeys(found) if name != source]

    @property
    def _detects(self) -> bool:
        """Whether requests need not name the source language."""
        is_possible = self.detector is not None and self.detector.is_possible
        return len(self.sources) == 1 or is_possible

    def _detected(self, texts: list[str]) -> Detected:
        """The language of a request's texts, which is the same for all of them.

        Raises:
            HTTPException: 400 if the server does not detect languages.
        """
        if len(self.sources) == 1:
            return Detected(self.sources[0], UNSURE)
        if self.detector is None or not self._detects:
            needed = "pip install 'fastdec-runtime[detect]' on the server"
            if self.detector is not None and self.detector.is_installed:
                needed = "py3langid does not know them"
            raise HTTPException(
                400, f"languages are not detected ({needed}); give source, see /languages"
            )
        return self.detector.detect("\n".join(texts))

    async def _translated(
        self, request: Request, pair: LanguagePair, texts: list[str], asked: Asked
    ) -> tuple[list[list[str]], list[list[list[Any]]]]:
        """See :func:`~.texts.translate_texts`."""
        work = self._translate_texts(pair, texts, asked)
        return await self._answered(request, pair, work, sum(map(len, texts)))

    async def _answered(
        self,
        request: Request,
        pair: LanguagePair,
        work: Coroutine[Any, Any, Any],
        n_characters: int,
    ) -> Any:
        """The result of a model's work for a request.

        Args:
            n_characters: of the source texts.

        Raises:
            HTTPException: if it cannot be done, or not in time.
        """
        limit = self.options.timeout_seconds
        try:
            found = await in_time(
                while_connected(request, work), limit, 504, f"not done within {limit} seconds"
            )
        except QueueFull as error:
            raise HTTPException(429, str(error), {"Retry-After": "1"}) from error
        except SentenceError as error:
            raise HTTPException(400, next(iter(error.errors.values()))) from error
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        self.metrics.characters.labels(pair.source, pair.target).inc(n_characters)
        return found

    async def _score_pairs(self, pair: LanguagePair, texts: list[tuple[str, str]]) -> list[float]:
        sentences = self.metrics.sentences.labels(pair.source, pair.target)
        options: dict[str, Any] = {**pair.of_call()}

        async def score(source: str, target: str) -> float:
            found = await pair.translator.score_async(source, target, **options)
            sentences.inc()
            return found

        return await at_most(self.at_once, score, texts)

    async def _translate_texts(
        self, pair: LanguagePair, texts: list[str], asked: Asked
    ) -> tuple[list[list[str]], list[list[list[Any]]]]:
        sentences = self.metrics.sentences.labels(pair.source, pair.target)
        options: dict[str, Any] = {**pair.of_call(), **asked.options}
        if asked.n > 1:
            options |= {"nbest": asked.n, "beam": max(asked.n, pair.beam), "decoding": "beam"}
        # Without alignments, inline tags separate texts.
        is_aligned = pair.aligns or PLACEHOLDERS in asked.kinds
        alignment = asked.alignment
        if asked.kinds:
            alignment = HARD if is_aligned else None
            options["details"] = True
        if alignment is not None:
            options |= {"details": True, "alignment": alignment}

        async def translate(sentence: str, own: dict[str, Any]) -> list[Any]:
            found = await pair.translator.translate_async(sentence, **options, **own)
            sentences.inc()
            best = found if isinstance(found, list) else [found]
            if isinstance(best[0], Translation) and best[0].error is not None:
                raise SentenceError({0: best[0].error}, [None])
            return best

        split: Sequence[AnySplit] = (
            await split_tagged(texts, asked.kinds, is_aligned, pair.source)
            if asked.kinds
            else await split_texts(texts, pair.source)
        )
        drafts: Iterable[Optional[SplitText]] = repeat(None)
        if asked.drafts is not None:
            drafts = await split_texts(asked.drafts, pair.target)
        both = zip(with_drafts(split, drafts), with_constraints(split, asked.constraints))
        given = ({**draft, **constraints} for draft, constraints in both)
        return await translate_texts(split, given, translate, asked.n, self.at_once)


def _alignment(found: Translation) -> dict[str, Any]:
    """The subwords and the alignment of a sentence, for the response."""
    return {
        "sourceTokens": found.source_tokens,
        "targetTokens": found.tokens,
        "alignment": found.alignment,
    }


def create_app(pairs: list[LanguagePair], options: ServerOptions) -> MeasuredApp:
    """Create the ASGI application.

    Raises:
        ValueError: if two models have the same languages.
    """
    service = Service(pairs, options)
    get, post = partial(Route, methods=["GET"]), partial(Route, methods=["POST"])
    routes = [
        get("/", service.page),
        post("/translate", service.translate),
        post("/score", service.score),
        post("/detect", service.detect),
        get("/languages", service.languages),
        get("/frontend/settings", service.settings),
        get("/health", service.health),
        get("/metrics", service.show_metrics),
        get("/openapi.json", service.openapi),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _refused,
            ClientDisconnect: _left,
            Exception: _failed,
        },
    )
    return MeasuredApp(app, service.metrics, {route.path for route in routes})


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "internal error"}, 500)
