"""LibreTranslate's protocol, so that its clients work unchanged: JSON or forms in, JSON out."""

import json
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.exceptions import HTTPException

from transduce.decoding.options import Options
from transduce.serving.api import (
    MAX_BEAM,
    USUAL_BEAM,
    Code,
    bearer_of,
    check_key,
    refusals,
)
from transduce.serving.keys import Keys
from transduce.serving.languages import name_of
from transduce.serving.refusal import Refused, complaint
from transduce.serving.service import Service

Asked = TypeVar("Asked", bound=BaseModel)

MAX_TEXTS = 1_000
NOT_DETECTED = 0.0
"""Languages are not detected: a language is named because there is no other, with confidence 0."""


def _or(default: Any) -> BeforeValidator:
    """Take nothing, as forms and some clients send it, for the default."""
    return BeforeValidator(lambda value: default if value in ("", None) else value)


Key = Annotated[str, Field(max_length=1_000), _or("")]


class TranslateRequest(BaseModel):
    """What LibreTranslate's clients send; fields that this server does not know are passed by."""

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS)] = Field(
        description="One text or several.", examples=["A man is riding a bike."]
    )
    source: Code = Field(description="Language code, or auto.", examples=["en"])
    target: Code = Field(description="Language code.", examples=["de"])
    format: Annotated[Code, _or("text")] = Field(
        default="text", description="text; html is refused.", examples=["text"]
    )
    alternatives: Annotated[int, Field(ge=0, lt=MAX_BEAM), _or(0)] = Field(
        default=0, description="How many other translations."
    )
    api_key: Key = Field(default="", description="A key, if this server needs one.")


class DetectRequest(BaseModel):
    """A text whose language is asked for."""

    q: str = Field(examples=["A man is riding a bike."])
    api_key: Key = Field(default="", description="A key, if this server needs one.")


class Detected(BaseModel):
    """A language that the text may be in."""

    language: str
    confidence: float = Field(description="From 0 to 100; 0: it was not detected.")


class Translation(BaseModel):
    """Lists where q is a list."""

    translatedText: str | list[str]  # noqa: N815 - their name
    detectedLanguage: Detected | list[Detected] | None = Field(  # noqa: N815
        default=None, description="Where the source was auto."
    )
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A language that can be translated from."""

    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    """How the server is."""

    status: str = Field(examples=["ok"])


def make_libretranslate(service: Service, keys: Keys) -> APIRouter:
    """Make the routes of the protocol."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate",
        response_model_exclude_none=True,
        responses=refusals(400, 403, 408, 413, 429),
        openapi_extra=_body_of(TranslateRequest),
    )
    async def translate(request: Request) -> Translation:
        """Translate a text, or several."""
        asked = await _read(request, TranslateRequest)
        check_key(keys, asked.api_key, bearer_of(request))
        if asked.format != "text":
            raise Refused(400, f"format {asked.format[:20]!r}: this server translates text alone")
        pair = service.pair(asked.source, asked.target)
        more = asked.alternatives
        options = Options(max(USUAL_BEAM, more + 1), n_best=more + 1)
        texts = [asked.q] if isinstance(asked.q, str) else asked.q
        found = [one.texts for one in await service.translate(pair, texts, options)]
        best, others = [one[0] for one in found], [one[1:] for one in found]
        detected = Detected(language=pair.source, confidence=NOT_DETECTED)
        is_one = isinstance(asked.q, str)
        return Translation(
            translatedText=best[0] if is_one else best,
            detectedLanguage=None
            if asked.source != "auto"
            else (detected if is_one else [detected] * len(best)),
            alternatives=None if not more else (others[0] if is_one else others),
        )

    @router.post(
        "/detect", responses=refusals(400, 403, 408, 413), openapi_extra=_body_of(DetectRequest)
    )
    async def detect(request: Request) -> list[Detected]:
        """Name the languages that this server reads: which one it is, it does not detect."""
        asked = await _read(request, DetectRequest)
        check_key(keys, asked.api_key, bearer_of(request))
        return [Detected(language=code, confidence=NOT_DETECTED) for code in service.sources]

    @router.get("/languages")
    async def languages() -> list[Language]:
        """List the languages that can be translated from, each with those it can become."""
        return [
            Language(code=code, name=name_of(code), targets=service.targets(code))
            for code in service.sources
        ]

    @router.get("/health")
    async def health() -> Health:
        """Say that the server works."""
        return Health(status="ok")

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """Tell a frontend what it may offer."""
        first = service.pairs[0]
        return {
            "apiKeys": keys.are_needed,
            "charLimit": service.limits.max_characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": keys.are_needed,
            "language": {
                "source": {"code": first.source, "name": name_of(first.source)},
                "target": {"code": first.target, "name": name_of(first.target)},
            },
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router


async def _read(request: Request, kind: type[Asked]) -> Asked:
    """Read a body of JSON or a form, whichever it says it is; what is not text is refused."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields = await _form(request)
    else:
        fields = _json(await request.body())
    try:
        return kind.model_validate(fields)
    except ValidationError as invalid:
        raise Refused(400, complaint(invalid.errors(include_url=False))) from invalid


async def _form(request: Request) -> dict[str, Any]:
    try:
        form = await request.form(max_files=0, max_fields=MAX_TEXTS)
    except HTTPException as malformed:
        raise Refused(400, "the form cannot be read") from malformed
    texts: dict[str, Any] = {name: form.get(name) for name in form}
    several = form.getlist("q")
    return texts | ({"q": several} if len(several) > 1 else {})


def _json(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as malformed:
        raise Refused(400, "the body is not JSON, and not said to be a form") from malformed
    if not isinstance(fields, dict):
        raise Refused(400, "the body must be a JSON object")
    return fields


def _body_of(kind: type[BaseModel]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    types = ("application/json", "application/x-www-form-urlencoded")
    return {
        "requestBody": {"required": True, "content": {name: {"schema": schema} for name in types}}
    }
