"""LibreTranslate's API, so that its clients work unchanged: JSON or forms in, JSON out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.exceptions import HTTPException

from transduce.serving.http.json_bodies import parse_json
from transduce.serving.keys import Keys
from transduce.serving.languages import Route, name_of
from transduce.serving.refusal import Refused, validation_message
from transduce.serving.routes.api import (
    MAX_BEAM,
    Code,
    bearer_of,
    check_content_type,
    check_key,
    refusals,
)
from transduce.serving.service import Service
from transduce.text.detection import detectable
from transduce.translation.documents.registry import FILE_FORMATS

Body = TypeVar("Body", bound=BaseModel)

MAX_TEXTS = 1_000


def _or(default: Any) -> BeforeValidator:
    """Replace an empty value, which forms and some clients send, by the default."""
    return BeforeValidator(lambda value: default if value in ("", None) else value)


Key = Annotated[str, Field(max_length=1_000), _or("")]


class LibreTranslateRequest(BaseModel):
    """What LibreTranslate's clients send; unknown fields are ignored."""

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS)] = Field(
        description="One text or several.", examples=["A man is riding a bike."]
    )
    source: Code = Field(description="Language code, or auto.", examples=["en"])
    target: Code = Field(description="Language code.", examples=["de"])
    format: Annotated[Literal["text", "html"], _or("text")] = Field(
        default="text", description="text or html.", examples=["text"]
    )
    alternatives: Annotated[int, Field(ge=0, lt=MAX_BEAM), _or(0)] = Field(
        default=0, description="Number of alternative translations."
    )
    api_key: Key = Field(default="", description="A key, if this server needs one.")


class DetectRequest(BaseModel):
    """A text whose language is to be detected."""

    q: str = Field(examples=["A man is riding a bike."])
    api_key: Key = Field(default="", description="A key, if this server needs one.")


class DetectedLanguage(BaseModel):
    """A language that the text may be in."""

    language: str
    confidence: float = Field(description="0 to 100; 0: it was not detected.")


class LibreTranslateResponse(BaseModel):
    """The translation; the fields are lists if q is a list."""

    translatedText: str | list[str]  # noqa: N815 - their name
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        default=None, description="Only if the source is auto."
    )
    alternatives: list[str] | list[list[str]] | None = None
    via: str | list[str | None] | None = Field(
        default=None, description="The language between, if it takes two models."
    )


class Language(BaseModel):
    """A language that can be translated from."""

    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    """The state of the server."""

    status: str = Field(description="ok, or what is wrong.", examples=["ok"])
    restarts: int = Field(default=0, description="How often the model thread had to be restarted.")


_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {"model": Health, "description": "The server does not translate."}
}


def make_libretranslate(service: Service, keys: Keys) -> APIRouter:
    """Make the routes of LibreTranslate's API."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate",
        response_model_exclude_none=True,
        responses=refusals(400, 403, 408, 413, 415, 429),
        openapi_extra=_body_of(LibreTranslateRequest),
    )
    async def translate(request: Request) -> LibreTranslateResponse:
        """Translate one text or several."""
        body = await _read(request, LibreTranslateRequest)
        check_key(keys, body.api_key, bearer_of(request))
        return await _translate(service, body)

    @router.post(
        "/detect",
        responses=refusals(400, 403, 408, 413, 415),
        openapi_extra=_body_of(DetectRequest),
    )
    async def detect(request: Request) -> list[DetectedLanguage]:
        """List the source languages, the most likely first; where none is detected, with 0."""
        body = await _read(request, DetectRequest)
        check_key(keys, body.api_key, bearer_of(request))
        [guesses] = await service.detect([body.q], service.sources)
        return [_detected(code, confidence) for code, confidence in guesses]

    @router.get("/languages")
    async def languages() -> list[Language]:
        """List the source languages, each with its target languages."""
        return [
            Language(code=code, name=name_of(code), targets=service.targets(code))
            for code in service.sources
        ]

    @router.get("/health", response_model_exclude_defaults=True, responses=_UNHEALTHY)
    async def health(response: Response) -> Health:
        """Return ok while the server translates, else 503 and what is wrong."""
        fault = service.batcher.fault
        response.status_code = 503 if fault else 200
        return Health(status=fault or "ok", restarts=service.batcher.restarts)

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """Return what a frontend may offer."""
        return _frontend_settings(service, needs_key=keys.are_needed)

    return router


async def _translate(service: Service, body: LibreTranslateRequest) -> LibreTranslateResponse:
    is_one = isinstance(body.q, str)
    texts = [body.q] if isinstance(body.q, str) else body.q
    service.check_texts(texts)  # all of them: some may have no route, or several models
    starts = [detectable(text, body.format) for text in texts]
    routes = await service.routes_if_needed(body.source, body.target, starts)
    found = await _by_route(service, [route for route, _ in routes], texts, body)
    best, others = [one[0] for one in found], [one[1:] for one in found]
    detected = [_detected(*guess) for _, guess in routes]
    via = [route.via if route else None for route, _ in routes]
    return LibreTranslateResponse(
        translatedText=best[0] if is_one else best,
        detectedLanguage=None if body.source != "auto" else (detected[0] if is_one else detected),
        alternatives=None if not body.alternatives else (others[0] if is_one else others),
        via=(via[0] if is_one else via) if any(via) else None,
    )


async def _by_route(
    service: Service,
    routes: Sequence[Route | None],
    texts: Sequence[str],
    body: LibreTranslateRequest,
) -> list[list[str]]:
    """Translate texts, those of one route together; return the n best translations of each.

    A text without a route stays as it is.
    """
    found = {number: [texts[number]] for number, route in enumerate(routes) if route is None}
    best = body.alternatives + 1
    for route in dict.fromkeys(filter(None, routes)):
        numbers = [number for number, one in enumerate(routes) if one == route]
        default = service.default_options(route)
        options = replace(default, beam=max(default.beam, best), n_best=best)
        own = [texts[number] for number in numbers]
        done = await service.translate(route, own, options, format=body.format)
        found |= {number: one.texts for number, one in zip(numbers, done, strict=True)}
    return [found[number] for number in range(len(texts))]


def _detected(code: str, confidence: float) -> DetectedLanguage:
    return DetectedLanguage(language=code, confidence=round(100 * confidence, 1))


def _frontend_settings(service: Service, *, needs_key: bool) -> dict[str, Any]:
    first = service.pairs[0]
    return {
        "apiKeys": needs_key,
        "charLimit": service.limits.max_characters,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": needs_key,
        "language": {
            "source": {"code": first.source, "name": name_of(first.source)},
            "target": {"code": first.target, "name": name_of(first.target)},
        },
        "suggestions": False,
        "supportedFilesFormat": list(FILE_FORMATS),
    }


async def _read(request: Request, schema: type[Body]) -> Body:
    """Read a body, as a form if its content type says so, else as JSON; files are refused."""
    if check_content_type(request, "json", "form") == "form":
        fields = await _form(request)
    else:
        fields = parse_json(await request.body(), malformed=400)
        if not isinstance(fields, dict):
            raise Refused(400, "the body must be a JSON object")
    try:
        return schema.model_validate(fields)
    except ValidationError as invalid:
        raise Refused(400, validation_message(invalid.errors(include_url=False))) from invalid


async def _form(request: Request) -> dict[str, Any]:
    try:
        form = await request.form(max_files=0, max_fields=MAX_TEXTS)
    except (HTTPException, UnicodeError) as malformed:  # also in the charset that it names
        raise Refused(400, "the form cannot be read") from malformed
    texts: dict[str, Any] = {name: form.get(name) for name in form}
    several = form.getlist("q")
    return texts | ({"q": several} if len(several) > 1 else {})


def _body_of(kind: type[BaseModel]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    types = ("application/json", "application/x-www-form-urlencoded")
    return {
        "requestBody": {"required": True, "content": {name: {"schema": schema} for name in types}}
    }
