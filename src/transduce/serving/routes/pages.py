"""The web pages: the one to translate on, the attention page, and the documented API."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response

from transduce.analysis.attention_page import attention_page
from transduce.serving.keys import Keys
from transduce.serving.refusal import POLICY, Refused
from transduce.serving.routes.api import Code, check_key
from transduce.serving.routes.requested_wording import RequestedWording
from transduce.serving.service import Service
from transduce.trees.brackets import TreeError, parse_brackets
from transduce.trees.svg import tree_svg

ASSETS = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/web/page.css": ("page.css", "text/css"),
    "/web/page.js": ("page.js", "text/javascript"),
    "/web/docs.js": ("docs.js", "text/javascript"),
    "/web/icon.svg": ("icon.svg", "image/svg+xml"),
}
MAX_TREE_CHARS = 20_000
"""Of a tree to draw."""
_SAME_ORIGIN_FRAME = {"X-Frame-Options": "SAMEORIGIN"}


def make_pages(service: Service, keys: Keys) -> APIRouter:
    """Make the routes of the pages and of their assets."""
    router = APIRouter(include_in_schema=False)
    for path, (name, media_type) in ASSETS.items():
        router.add_api_route(path, _file(name, media_type), methods=["GET", "HEAD"])

    @router.post("/attention")
    async def attention(
        text: Annotated[str, Form()],
        source: Annotated[Code, Form()],
        target: Annotated[Code, Form()],
        glossary: Annotated[str, Form(max_length=100)] = "",
        api_key: Annotated[str | None, Form(max_length=1_000)] = None,
    ) -> HTMLResponse:
        """Return the attention page of one line, for a frame on our own page."""
        try:
            check_key(keys, api_key)
            route = service.route(source, target)
            line = " ".join(text.split())
            words = RequestedWording(glossary=glossary or None).wording(service.glossaries)
            options = replace(service.default_options(route), attention=True, wording=words)
            [[shown]] = [one.lines for one in await service.translate(route, [line], options)]
            if not shown.attention:
                raise Refused(400, "the text is empty: there is no attention to show")
        except Refused as refused:
            return _error_page(refused)
        page = await asyncio.to_thread(
            attention_page, shown.attention, source=shown.source, translation=shown.text
        )
        # The page has its own policy, which allows its script by digest.
        policy = "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        return HTMLResponse(page, headers=_SAME_ORIGIN_FRAME | {"Content-Security-Policy": policy})

    @router.post("/tree")
    async def tree(text: Annotated[str, Form(max_length=MAX_TREE_CHARS)]) -> Response:
        """Return the picture of a tree in brackets, for a frame on our own page."""
        try:
            picture = await asyncio.to_thread(lambda: tree_svg(parse_brackets(text)))
        except TreeError as fault:
            return _error_page(Refused(400, f"no tree to show: {fault}"))
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
        headers = _SAME_ORIGIN_FRAME | {"Content-Security-Policy": policy}
        return Response(picture, media_type="image/svg+xml", headers=headers)

    return router


def _file(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    content = (files("transduce.serving") / "web" / name).read_bytes()

    async def respond() -> Response:
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return respond


_ERROR_PAGE = Template("""<!doctype html>
<html lang="en">
<title>No attention to show</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/web/page.css">
<main><p role="alert">$message</p></main>
</html>
""")


def _error_page(refused: Refused) -> HTMLResponse:
    policy = POLICY.format(ancestors="'self'")
    return HTMLResponse(
        _ERROR_PAGE.substitute(message=escape(refused.message)),
        status_code=refused.status,
        headers=_SAME_ORIGIN_FRAME | refused.headers | {"Content-Security-Policy": policy},
    )
