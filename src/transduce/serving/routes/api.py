"""Our own API: n-best lists with scores, word alignments, attention, streams of lines."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field

from transduce.analysis.attention_page import packed_attention
from transduce.serving.http.json_bodies import parse_json
from transduce.serving.keys import Keys
from transduce.serving.languages import name_of
from transduce.serving.refusal import Refused
from transduce.serving.routes.requested_wording import RequestedWording, by_name
from transduce.serving.service import Service, TranslatedDocument, finite
from transduce.text.detection import detectable
from transduce.translation.alignment.word_links import align
from transduce.translation.memory.read import DEFAULT_THRESHOLD, LEAST_THRESHOLD, MemoryUse
from transduce.translation.memory.units import TranslationMemory
from transduce.translation.options import Options, Translation
from transduce.translation.translator import TextFormat

MAX_BEAM = 16
Code = Annotated[str, Field(max_length=32)]
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


class ErrorResponse(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="What is wrong, and what to do.")


class _TranslationRequest(RequestedWording):
    source: Code = Field(
        default="auto",
        description="Language of the text; auto: the only possible one, or detected.",
    )
    target: Code | None = Field(
        default=None, description="Language to translate to; if not given, the only possible one."
    )
    n_best: int = Field(default=1, ge=1, le=8, description="Number of translations of each line.")
    beam: int | None = Field(
        default=None,
        ge=1,
        le=MAX_BEAM,
        description="Beam size; if not given, 4 (for parsing 21), or n_best if that is more.",
    )
    alignment: bool = Field(default=False, description="Return word alignments.")
    attention: bool = Field(
        default=False, description="Return the attention weights of all layers and heads."
    )

    memory: Annotated[str, Field(max_length=100)] | None = Field(
        default=None,
        description="Name of a translation memory of this server; GET /v1/models lists them.",
    )
    memory_threshold: float = Field(
        default=DEFAULT_THRESHOLD,
        ge=LEAST_THRESHOLD,
        le=1,
        strict=False,
        description="How similar a line of the memory must be to be offered.",
    )
    memory_prefix: bool = Field(
        default=False,
        description="Begin translations as a similar one does, as far as its source is the same.",
    )

    def options(self, default: Options, service: Service) -> Options:
        """Return the translator's options: its own, with what is asked for."""
        beam = max(default.beam, self.n_best) if self.beam is None else self.beam
        if self.n_best > beam:
            raise Refused(422, f"n_best={self.n_best} of beam={beam}: use a wider beam")
        return replace(
            default,
            beam=beam,
            n_best=self.n_best,
            attention=self.attention or self.alignment,
            wording=self.wording(service.glossaries),
            memory=self._memory(service.memories),
        )

    def _memory(self, memories: Mapping[str, TranslationMemory]) -> MemoryUse | None:
        known = by_name(memories, self.memory, "translation memory")
        if known is None:
            return None
        return MemoryUse(known, self.memory_threshold, self.memory_prefix)


class TranslateRequest(_TranslationRequest):
    """Texts to translate."""

    text: str | Annotated[list[str], Field(min_length=1, max_length=1_000)] = Field(
        description="One text or several. Each line is translated separately.",
        examples=["A man is riding a bike."],
    )
    format: TextFormat = Field(
        default="text",
        description="html or xml: each text is a document. Its markup is kept, and tags within "
        "sentences follow their words; the lines of the answer are the texts between other tags.",
    )

    def check(self) -> None:
        """Raise if fields do not go together."""
        if self.format != "text" and (self.alignment or self.attention):
            raise Refused(422, f"alignment and attention are for text, not for {self.format}")


class StreamRequest(_TranslationRequest):
    """A document to translate."""

    text: str = Field(
        description="A document, one paragraph a line.", examples=["A man.\n\nA dog."]
    )


class AlternativeTranslation(BaseModel):
    """One of the n best translations of a line."""

    text: str
    score: float | None = Field(
        description="Log-probability, divided by the length penalty; null if it is not finite."
    )


class OfferedMatch(BaseModel):
    """What the translation memory has for a line."""

    source: str
    text: str
    score: float = Field(description="1: the same source; else the share of tokens that agree.")
    is_used: bool = Field(description="True: this is the translation, as it is.")


class TranslatedLine(BaseModel):
    """A line and its translation."""

    source: str
    text: str
    score: float | None = Field(description="Of the text; 0 for a blank line.")
    alternatives: list[AlternativeTranslation] = Field(
        description="The n best; the first is the text itself."
    )
    note: str = Field(description="What was unusual about this translation; mostly empty.")
    is_finished: bool = Field(description="False: it was cut off at the maximum length.")
    memory: OfferedMatch | None = Field(
        default=None, description="The same or a similar line of the translation memory."
    )
    alignment: list[tuple[int, int]] | None = Field(
        default=None,
        description="Pairs of word numbers, from 0: a source word and its translation.",
    )
    source_words: tuple[str, ...] | None = Field(
        default=None,
        description="With an alignment, the words of the source: between spaces, or the model's "
        "tokens in a script without spaces.",
    )
    text_words: tuple[str, ...] | None = Field(
        default=None, description="With an alignment, the words of the text, likewise."
    )
    attention: list[dict[str, Any]] | None = Field(
        default=None,
        description="For each sentence: tokens of source, read (the target shifted right) and "
        "target; weights of encoder [layers, heads, source, source], decoder [.., target, read] "
        "and cross [.., target, source] as little-endian 16-bit unsigned integers in base64, where "
        "65535 stands for 1; `shapes` has the numbers.",
    )


class TranslatedText(BaseModel):
    """A text and the translations of its lines."""

    text: str = Field(description="The whole translation; blank lines and line ends are kept.")
    lines: list[TranslatedLine]


class TranslateResponse(BaseModel):
    """Translations, in the order of the texts."""

    source: str
    target: str
    via: str | None = Field(
        default=None, description="The language between, if it takes two models."
    )
    translations: list[TranslatedText]


class PairDescription(BaseModel):
    """The languages of a model."""

    source: str
    source_name: str
    target: str
    target_name: str


class ServerDescription(BaseModel):
    """The language pairs and the limits of this server."""

    pairs: list[PairDescription]
    needs_key: bool
    max_characters: int
    max_attention_characters: int
    glossaries: list[str] = Field(description="Names of the glossaries that a request may ask for.")
    memories: list[str] = Field(description="Names of the translation memories, likewise.")


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of error responses, by status."""
    reasons = {
        400: "Malformed, or languages that this server does not translate.",
        403: "No key, or a wrong one.",
        408: "The body took too long to arrive.",
        413: "Too much at once, or too much to finish before the deadline.",
        415: "The body is declared as something that is not accepted here.",
        422: "A field is missing, unknown or invalid.",
        429: "The server is too busy: try again after Retry-After seconds.",
    }
    return {status: {"model": ErrorResponse, "description": reasons[status]} for status in statuses}


class _ParsedRequest(Request):
    """A request whose JSON has been read."""

    parsed: Any = None

    async def json(self) -> Any:
        return self.parsed


class BoundedRoute(APIRoute):
    """A route that reads the JSON of its requests within bounds, if they declare it as JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what handles a request."""
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            given = _ParsedRequest(request.scope, request.receive)
            if request.method == "POST":
                check_content_type(request, "json")
                given.parsed = parse_json(await given.body() or b"null", malformed=422)
            return await handle(given)

        return handle_bounded


def check_content_type(request: Request, *allowed: str) -> str:
    """Return whether the body is declared as json or as a form; raise if that is not allowed.

    What is not declared is json.
    """
    kinds = {"": "json", "application/json": "json"} | dict.fromkeys(FORM_TYPES, "form")
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = "json" if given.endswith("+json") else kinds.get(given, "other")
    if kind not in allowed:
        raise Refused(415, f"send {' or '.join(allowed)}, and say so in the Content-Type")
    return kind


_bearer = HTTPBearer(auto_error=False, description="A key, if this server needs one.")


def check_key(keys: Keys, *given: str | None) -> None:
    """Raise unless the first key that was sent is accepted."""
    if not keys.allow(next((key for key in given if key), None)):
        raise Refused(403, "this server needs a key, and none or a wrong one was sent")


def bearer_of(request: Request) -> str | None:
    """Return the bearer token in the headers of a request, if any."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def make_api(service: Service, keys: Keys) -> APIRouter:
    """Make the routes below /v1."""
    router = APIRouter(prefix="/v1", tags=["transduce"], route_class=BoundedRoute)

    def allowed(
        given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    ) -> None:
        check_key(keys, given.credentials if given else None)

    # Only where it is needed, or the documentation would ask for a key.
    only_with_key = [Depends(allowed)] if keys.are_needed else []

    @router.post(
        "/translate",
        dependencies=only_with_key,
        response_model=TranslateResponse,
        responses=refusals(400, 403, 408, 413, 415, 422, 429),
    )
    async def translate(body: TranslateRequest) -> Response:
        """Translate texts: the n best translations of each line, with alignment and attention."""
        return await _translate(service, body)

    @router.post(
        "/stream",
        dependencies=only_with_key,
        response_class=StreamingResponse,
        responses=_STREAMED | refusals(400, 403, 408, 413, 415, 422, 429),
    )
    async def stream(body: StreamRequest) -> StreamingResponse:
        """Translate a long document: each line is sent as soon as it is translated."""
        return await _stream(service, body)

    @router.get("/models")
    async def models() -> ServerDescription:
        """Return the language pairs and the limits of this server."""
        return _description(service, needs_key=keys.are_needed)

    return router


_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One JSON object a line, for each line of the text in order, as in "
        "/v1/translate. If the server cannot go on, the last object has an `error`.",
        "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
    }
}


async def _translate(service: Service, body: TranslateRequest) -> Response:
    texts = [body.text] if isinstance(body.text, str) else body.text
    body.check()
    start = detectable("\n".join(texts), body.format)
    [(route, _)] = await service.detected_routes(body.source, body.target, [start])
    options = body.options(service.default_options(route), service)
    found = await service.translate(route, texts, options, format=body.format)

    def written() -> bytes:
        translations = [_translated_text(one, body) for one in found]
        whole = TranslateResponse(
            source=route.pair.source,
            target=route.pair.target,
            translations=translations,
            **({"via": route.via} if route.via else {}),
        )
        return whole.model_dump_json(exclude_unset=True).encode()

    lines = [line for one in found for line in one.lines]
    content = await service.texts.run(written, **_size(lines))
    return Response(content, media_type="application/json")


async def _stream(service: Service, body: StreamRequest) -> StreamingResponse:
    start = detectable(body.text, "text")
    [(route, _)] = await service.detected_routes(body.source, body.target, [start])
    options = body.options(service.default_options(route), service)
    parts = service.stream(route, body.text, options)
    first = await anext(parts)  # a refusal comes before the response begins
    blank_rows: dict[str, bytes] = {}

    async def written(lines: list[Translation]) -> bytes:
        return await service.texts.run(partial(_rows, lines, body, blank_rows), **_size(lines))

    async def rows() -> AsyncIterator[bytes]:
        yield await written(first)
        try:
            async for lines in parts:
                yield await written(lines)
        except Refused as refused:
            yield _row(ErrorResponse(error=refused.message))

    return StreamingResponse(rows(), media_type="application/x-ndjson")


def _size(lines: Sequence[Translation]) -> dict[str, int]:
    """Estimate the work of writing lines: that of attention is large."""
    characters = sum(len(text) for line in lines for text, _ in line.alternatives)
    weights = sum(part.encoder.size + part.cross.size for line in lines for part in line.attention)
    return {"characters": characters + weights, "lines": len(lines)}


def _rows(lines: Sequence[Translation], body: StreamRequest, blank_rows: dict[str, bytes]) -> bytes:
    """Write lines; a blank one is written once, however often it comes."""
    written = []
    for line in lines:
        row = blank_rows.get(line.source)
        if row is None:
            row = _row(_line(line, body))
            if not line.source:
                blank_rows[line.source] = row
        written.append(row)
    return b"".join(written)


def _description(service: Service, *, needs_key: bool) -> ServerDescription:
    return ServerDescription(
        pairs=[
            PairDescription(
                source=pair.source,
                source_name=name_of(pair.source),
                target=pair.target,
                target_name=name_of(pair.target),
            )
            for pair in service.pairs
        ],
        needs_key=needs_key,
        max_characters=service.limits.max_characters,
        max_attention_characters=service.limits.max_attention_characters,
        glossaries=list(service.glossaries),
        memories=list(service.memories),
    )


def _translated_text(one: TranslatedDocument, body: _TranslationRequest) -> TranslatedText:
    return TranslatedText(
        text=one.document.with_lines([line.text for line in one.lines]),
        lines=[_line(line, body) for line in one.lines],
    )


def _line(line: Translation, body: _TranslationRequest) -> TranslatedLine:
    optional: dict[str, Any] = {}
    if body.alignment:
        found = align(line.attention, source=line.source, translation=line.text)
        optional["alignment"] = found.links
        optional["source_words"], optional["text_words"] = found.source, found.translation
    if line.match is not None:
        optional["memory"] = OfferedMatch(
            source=line.match.source,
            text=line.match.target,
            score=round(line.match.score, 4),
            is_used=line.match.is_used,
        )
    if body.attention:
        optional["attention"] = packed_attention(line.attention)
    return TranslatedLine(
        source=line.source,
        text=line.text,
        score=finite(line.score),
        alternatives=[
            AlternativeTranslation(text=text, score=finite(score))
            for text, score in line.alternatives
        ],
        note=line.note,
        is_finished=line.is_finished,
        **optional,
    )


def _row(content: BaseModel) -> bytes:
    return content.model_dump_json(exclude_unset=True).encode() + b"\n"
