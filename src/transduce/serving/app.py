"""The application: protocols, pages and metrics over one service, behind one guard."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from transduce.decoding.translator import Translator
from transduce.serving.api import make_api
from transduce.serving.batcher import Batcher
from transduce.serving.guard import Guard
from transduce.serving.keys import Keys
from transduce.serving.languages import Pair
from transduce.serving.libretranslate import make_libretranslate
from transduce.serving.limits import Limits
from transduce.serving.metrics import CONTENT_TYPE, Metrics
from transduce.serving.pages import make_pages
from transduce.serving.refusal import Refused, complaint
from transduce.serving.service import Service

DESCRIPTION = "Translates text with models of transduce. Errors are JSON objects with an `error`."


def make_app(
    translators: Mapping[Pair, Translator],
    *,
    version: str,
    limits: Limits | None = None,
    keys: Keys | None = None,
    origins: Sequence[str] = (),
    max_batch: int = 64,
    wait_s: float = 0.003,
) -> FastAPI:
    """Make an ASGI application that translates; `origins` are other sites whose pages may ask."""
    limits, keys, metrics = limits or Limits(), keys or Keys(), Metrics()
    batcher = Batcher(
        max_queue=limits.max_queue, max_batch=max_batch, wait_s=wait_s, tell=metrics.batch
    )
    metrics.watch_queue(lambda: batcher.unanswered)
    service = Service(translators, batcher, limits)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await batcher.close()

    app = FastAPI(
        title="transduce",
        description=DESCRIPTION,
        version=version,
        docs_url=None,  # they load scripts from elsewhere; ours is in pages
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(make_libretranslate(service, keys))
    app.include_router(make_api(service, keys))
    app.include_router(make_pages(service, keys))

    @app.get("/metrics", include_in_schema=False)
    async def tell_metrics() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    _answer_faults(app)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
            expose_headers=["Retry-After"],
        )
    app.add_middleware(Guard, limits=limits, metrics=metrics)
    return app


def _answer_faults(app: FastAPI) -> None:
    """Give every fault the same shape, and never what was sent."""

    @app.exception_handler(Refused)
    async def refused(_request: Request, fault: Refused) -> JSONResponse:
        return JSONResponse({"error": fault.message}, fault.status, fault.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, fault: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": complaint(fault.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def other(_request: Request, fault: HTTPException) -> JSONResponse:
        return JSONResponse({"error": fault.detail}, fault.status_code, fault.headers)

    @app.exception_handler(Exception)
    async def ours(_request: Request, _fault: Exception) -> JSONResponse:
        return JSONResponse({"error": "a fault of this server: see its log"}, 500)
