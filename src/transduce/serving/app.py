"""The application: APIs, pages and metrics over one service, behind one guard."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from transduce.serving.batcher import Batcher
from transduce.serving.guard import Guard
from transduce.serving.http.sites import Sites
from transduce.serving.keys import Keys
from transduce.serving.languages import LanguagePair
from transduce.serving.limits import Limits
from transduce.serving.metrics import CONTENT_TYPE, Metrics
from transduce.serving.refusal import INTERNAL, Refused, validation_message
from transduce.serving.routes.api import make_api
from transduce.serving.routes.files import make_files
from transduce.serving.routes.libretranslate import make_libretranslate
from transduce.serving.routes.pages import make_pages
from transduce.serving.service import Service
from transduce.text.detection import LanguageDetector
from transduce.text.phrases.glossary import Glossary
from transduce.translation.memory.units import TranslationMemory
from transduce.translation.translator import Translator

DESCRIPTION = "Translates text with models of transduce. Errors are JSON objects with an `error`."


def make_app(
    translators: Mapping[LanguagePair, Translator],
    *,
    version: str,
    limits: Limits | None = None,
    keys: Keys | None = None,
    sites: Sites | None = None,
    glossaries: Mapping[str, Glossary] | None = None,
    memories: Mapping[str, TranslationMemory] | None = None,
    detector: LanguageDetector | None = None,
    max_batch: int = 64,
    wait_s: float = 0.003,
) -> FastAPI:
    """Make the ASGI application; `sites` says which pages may call it, and by which names.

    Requests may ask for glossaries and memories by their names. Without a detector, languages are
    not detected.
    """
    limits, keys, metrics = limits or Limits(), keys or Keys(), Metrics()
    sites = sites or Sites(has_keys=keys.are_needed)
    batcher = Batcher(
        max_queue=limits.max_queue, max_batch=max_batch, wait_s=wait_s, on_batch=metrics.count_batch
    )
    metrics.watch_queue(lambda: batcher.unanswered)
    service = Service(
        translators, batcher, limits, glossaries=glossaries, memories=memories, detector=detector
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.close()
        service.close()

    app = FastAPI(
        title="transduce",
        description=DESCRIPTION,
        version=version,
        docs_url=None,  # FastAPI's loads scripts from elsewhere; ours is in routes/pages
        redoc_url=None,
        openapi_url=None,  # FastAPI's writes it again for every request
        redirect_slashes=False,  # to whatever host a request names
        lifespan=lifespan,
    )
    for make_router in (make_libretranslate, make_files, make_api, make_pages):
        app.include_router(make_router(service, keys))

    @app.get("/metrics", include_in_schema=False)
    async def read_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    specification = json.dumps(app.openapi()).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def read_specification() -> Response:
        return Response(specification, media_type="application/json")

    _handle_errors(app)
    if sites.origins:
        _allow_origins(app, sites.origins)
    app.add_middleware(Guard, limits=limits, metrics=metrics, sites=sites)
    return app


def _allow_origins(app: FastAPI, origins: Sequence[str]) -> None:
    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST"],
        allow_headers=["Authorization", "Content-Type"],
        expose_headers=["Retry-After"],
    )


def _handle_errors(app: FastAPI) -> None:
    """Respond to every error in the same form, without repeating what was sent."""

    @app.exception_handler(Refused)
    async def refused(_request: Request, fault: Refused) -> JSONResponse:
        return JSONResponse({"error": fault.message}, fault.status, fault.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, fault: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": validation_message(fault.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def other(_request: Request, fault: HTTPException) -> JSONResponse:
        return JSONResponse({"error": fault.detail}, fault.status_code, fault.headers)

    @app.exception_handler(Exception)
    async def internal(_request: Request, _fault: Exception) -> JSONResponse:
        return JSONResponse({"error": INTERNAL}, 500)
