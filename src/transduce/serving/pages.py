"""What a person sees: the page to translate on, the attention page, and the protocol explained."""

import asyncio
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from string import Template
from typing import Annotated

from fastapi import APIRouter, Form
from fastapi.responses import HTMLResponse, Response

from transduce.analysis.attention_page import attention_page
from transduce.decoding.options import Options
from transduce.serving.api import Code, check_key
from transduce.serving.guard import POLICY
from transduce.serving.keys import Keys
from transduce.serving.refusal import Refused
from transduce.serving.service import Service

ASSETS = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/web/page.css": ("page.css", "text/css"),
    "/web/page.js": ("page.js", "text/javascript"),
    "/web/docs.js": ("docs.js", "text/javascript"),
    "/web/icon.svg": ("icon.svg", "image/svg+xml"),
}
_IN_OUR_FRAME = {"X-Frame-Options": "SAMEORIGIN"}


def make_pages(service: Service, keys: Keys) -> APIRouter:
    """Make the routes of the pages and of their files."""
    router = APIRouter(include_in_schema=False)
    for path, (name, media_type) in ASSETS.items():
        router.add_api_route(path, _file(name, media_type), methods=["GET", "HEAD"])

    @router.post("/attention")
    async def attention(
        text: Annotated[str, Form()],
        source: Annotated[Code, Form()],
        target: Annotated[Code, Form()],
        api_key: Annotated[str | None, Form(max_length=1_000)] = None,
    ) -> HTMLResponse:
        """Show who looked at whom in one line, on a page for a frame of ours."""
        try:
            check_key(keys, api_key)
            pair = service.pair(source, target)
            line = " ".join(text.split())
            [[shown]] = [
                one.lines for one in await service.translate(pair, [line], Options(attention=True))
            ]
            if not shown.attention:
                raise Refused(400, "there is no text: nobody looks at anything")
        except Refused as refused:
            return _apology(refused)
        page = await asyncio.to_thread(
            attention_page, shown.attention, source=shown.source, translation=shown.text
        )
        # The page has a policy of its own, which knows its script by its digest.
        policy = "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        return HTMLResponse(page, headers=_IN_OUR_FRAME | {"Content-Security-Policy": policy})

    return router


def _file(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    content = (files("transduce.serving") / "web" / name).read_bytes()

    async def give() -> Response:
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return give


_APOLOGY = Template("""<!doctype html>
<html lang="en">
<title>No attention to show</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/web/page.css">
<main><p role="alert">$message</p></main>
</html>
""")


def _apology(refused: Refused) -> HTMLResponse:
    policy = POLICY.format(ancestors="'self'")
    return HTMLResponse(
        _APOLOGY.substitute(message=escape(refused.message)),
        status_code=refused.status,
        headers=_IN_OUR_FRAME | refused.headers | {"Content-Security-Policy": policy},
    )
