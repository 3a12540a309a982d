"""LibreTranslate's API for files: one is sent in a form, and its translation fetched by a link."""

import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from transduce.errors import InputError
from transduce.serving.keys import Keys
from transduce.serving.languages import Route
from transduce.serving.refusal import Refused
from transduce.serving.routes.api import bearer_of, check_content_type, check_key, refusals
from transduce.serving.routes.requested_wording import by_name
from transduce.serving.service import Service, check_route
from transduce.text.detection import detectable
from transduce.text.markup.marked import Line, text_of
from transduce.translation.documents.inline_codes import (
    line_of_translation,
    lines_to_translate,
    place_translations,
)
from transduce.translation.documents.registry import ParsedFile, file_format, parse_file
from transduce.translation.memory.read import MemoryUse
from transduce.translation.options import Options
from transduce.translation.wording.read import wording

MAX_FIELDS = 16
_UNSAFE = re.compile(r"[^\w. ()\[\]-]|^\.+")
_LONGEST_NAME = 100
_NAMED = "The name of one of this server; GET /v1/models lists them."
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file", "source", "target"],
                    "properties": {
                        "file": {"type": "string", "format": "binary"},
                        "source": {"type": "string", "example": "en"},
                        "target": {"type": "string", "example": "de"},
                        "api_key": {"type": "string"},
                        "glossary": {"type": "string", "description": _NAMED},
                        "memory": {"type": "string", "description": _NAMED},
                    },
                }
            }
        },
    }
}


class TranslateFileResponse(BaseModel):
    """Where the translated file is."""

    translatedFileUrl: str = Field(  # noqa: N815 - their name
        description="Fetch it there within a few minutes."
    )


@dataclass(frozen=True)
class _Upload:
    """A file that was sent, and what is to be done with it."""

    content: bytes
    name: str
    source: str
    target: str
    api_key: str
    glossary: str
    memory: str


def make_files(service: Service, keys: Keys) -> APIRouter:
    """Make the routes for files."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate_file",
        responses=refusals(400, 403, 408, 413, 415, 429),
        openapi_extra=_FORM,
    )
    async def translate_file(request: Request) -> TranslateFileResponse:
        """Translate a file: its structure and formatting are kept."""
        check_content_type(request, "form")
        sent = await _read(request)
        check_key(keys, sent.api_key, bearer_of(request))
        with service.one_more_file():
            written = await _translated(service, sent)
        key = service.files.add(written, sent.name)
        name = quote(f"{key}.{sent.name}")
        return TranslateFileResponse(translatedFileUrl=f"{request.base_url}download_file/{name}")

    @router.get("/download_file/{filename}", responses={404: {"description": "No such file."}})
    async def download_file(filename: str) -> Response:
        """Fetch a translated file; its address cannot be guessed, so no key is needed."""
        held = service.files.get(filename.partition(".")[0])
        if held is None:
            raise Refused(404, "no such file: it was never here, or its time is over")
        disposition = f"attachment; filename*=UTF-8''{quote(held.name)}"
        # Never as what it is: a page or a picture of a stranger must not run or show here.
        return Response(
            held.content,
            media_type="application/octet-stream",
            headers={"Content-Disposition": disposition},
        )

    return router


async def _read(request: Request) -> _Upload:
    """Read the form: one file, and a few fields."""
    try:
        async with request.form(max_files=1, max_fields=MAX_FIELDS) as form:
            file = form.get("file")
            if not isinstance(file, UploadFile) or not file.filename:
                raise Refused(400, "send the file as the field file of the form, with its name")
            names = ("source", "target", "api_key", "glossary", "memory")
            texts: dict[str, Any] = {
                name: value[:1_000] if isinstance(value := form.get(name), str) else ""
                for name in names
            }
            for name in ("source", "target"):
                if not texts[name]:
                    raise Refused(400, f"{name}: send the code of a language, such as en")
            content = await file.read()
            return _Upload(content, _safe_name(file.filename), **texts)
    except (HTTPException, UnicodeError) as malformed:  # also in the charset that it names
        raise Refused(400, "the form cannot be read") from malformed


def _safe_name(name: str) -> str:
    """Return the last part of a file's name, short and without unusual characters."""
    last = _UNSAFE.sub("_", re.split(r"[/\\]", name)[-1])
    stem, dot, suffix = last.rpartition(".")
    return f"{stem[:_LONGEST_NAME]}{dot}{suffix[:10]}" if dot else last[:_LONGEST_NAME]


async def _translated(service: Service, sent: _Upload) -> bytes:
    """Translate a file; what is wrong with it is a refusal.

    Placeholders are kept where one model translates: a second does not see the source.
    """
    named = None if sent.source == "auto" else sent.source
    try:
        kind = file_format(sent.name)
        parse = partial(parse_file, source=named, target=sent.target)
        parsed = await service.file_work(partial(parse, sent.content, sent.name))
        lines = await service.file_work(partial(lines_to_translate, parsed.segments))
        start = detectable("\n".join(map(text_of, lines)), "text")
        [(route, _)] = await service.routes_if_needed(sent.source, sent.target, [start])
        if route is None:
            return sent.content
        keeps = kind.has_placeholders and route.via is None
        options = _options(service, sent, route, keeps_placeholders=keeps)
        found = await _translated_lines(service, route, lines, options)
        return await service.file_work(partial(_written, parsed, found))
    except InputError as fault:
        raise Refused(400, str(fault)) from fault


def _options(service: Service, sent: _Upload, route: Route, *, keeps_placeholders: bool) -> Options:
    """Return how the last model of a route translates, with the glossary and memory of a form."""
    default = service.default_options(route)
    glossary = by_name(service.glossaries, sent.glossary or None, "glossary")
    memory = by_name(service.memories, sent.memory or None, "translation memory")
    options = replace(
        default,
        wording=wording(glossary, keep_placeholders=keeps_placeholders),
        memory=None if memory is None else MemoryUse(memory, threshold=1),
    )
    check_route(route, options)
    return options


async def _translated_lines(
    service: Service, route: Route, lines: list[Line], options: Options
) -> list[str]:
    """Translate lines by one model, or by two: the second reads what the first has written."""
    *before, last = (Route((leg,)) for leg in route.legs)
    for leg in before:
        found = await service.translate_lines(leg, lines, service.default_options(leg))
        lines = await service.file_work(partial(_lines_again, lines, found))
    return await service.translate_lines(last, lines, options)


def _lines_again(lines: list[Line], translations: list[str]) -> list[Line]:
    return list(map(line_of_translation, lines, translations))


def _written(parsed: ParsedFile, translations: list[str]) -> bytes:
    return parsed.written(place_translations(parsed.segments, translations))
