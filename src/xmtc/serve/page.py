"""The page at `/`: plain files of this package, sent with headers that let a browser load nothing else.

Nothing is built and nothing comes from elsewhere. Texts and label names reach the page as JSON and become text there,
never markup; the Content-Security-Policy would stop a script in them all the same. The colours are the reports'.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
LOOK = ("look.css", "shading.css")  # shared with the reports
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",  # a browser asks each time whether its copy is still right
}


class PageFile(NamedTuple):
    """A file of the page: its bytes, its type, and a tag that changes with them."""

    content: bytes
    media_type: str
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> PageFile:
        """The type is that of the name's ending.

        >>> PageFile.of("a.css", b"p {}").media_type
        'text/css; charset=utf-8'
        """
        digest = hashlib.sha256(content).hexdigest()[:32]
        return cls(content, f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8", f'"{digest}"')

    def answer(self, request: Request) -> Response:
        """The file, or that the browser has it already."""
        headers = {**HEADERS, "ETag": self.etag}
        known = {tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")}
        if self.etag in known:
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def page_files() -> dict[str, PageFile]:
    """The files of the page by name.

    >>> sorted(page_files())[:2]
    ['api.js', 'app.js']
    """
    own = [path for path in files("xmtc.serve").joinpath("static").iterdir() if path.is_file()]
    shared = [files("xmtc.evaluation.reports").joinpath("templates", name) for name in LOOK]
    return {path.name: PageFile.of(path.name, path.read_bytes()) for path in (*own, *shared)}


def page_routes() -> APIRouter:
    """Routes for `/` and `/page/...`; they need no token, since they hold nothing but the page.

    >>> [route.path for route in page_routes().routes][:2]
    ['/', '/page/api.js']
    """
    router = APIRouter(include_in_schema=False)
    found = page_files()
    start = found.pop("index.html")
    for path, file in [("/", start), *((f"/page/{name}", found[name]) for name in sorted(found))]:
        router.add_api_route(path, _sender(file), methods=["GET", "HEAD"], response_class=Response)
    return router


def _sender(file: PageFile) -> Callable[[Request], Response]:
    async def send(request: Request) -> Response:
        return file.answer(request)

    return send  # type: ignore[return-value]
