"""Who may ask: the bearer token; and the headers that tell browsers to trust nothing beyond the answer."""

from __future__ import annotations

import re
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders

from xmtc.errors import BadInput, ConfigError
from xmtc.serve.problems import Refused

SHORTEST_TOKEN = 16
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")
ORIGIN = re.compile(r"\*|https?://[A-Za-z0-9.\[\]:-]+")
#: Paths that hold nothing worth a token: the page's files, the description of the API, whether the server lives.
OPEN = re.compile(r"/|/page/.*|/docs|/openapi\.json|/ready|/v2/health/(live|ready)|/favicon\.ico")
HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def read_token(path: Path) -> str:
    """The token in a file: one line, which others cannot guess."""
    try:
        token = path.read_text("ascii").strip()
    except OSError as error:
        raise BadInput(path, None, f"cannot be read: {error.strerror}", "write a token into it, one line") from error
    except ValueError as error:
        raise BadInput(path, None, "a token is one line of ASCII", "make one: openssl rand -hex 32") from error
    if len(token) < SHORTEST_TOKEN or not token.isprintable() or " " in token:
        problem = f"a token is one word of at least {SHORTEST_TOKEN} characters"
        raise BadInput(path, None, problem, "make one: openssl rand -hex 32")
    return token


def check_origin(origin: str) -> str:
    """An origin as browsers send it, or `*` for every page; a ConfigError for anything else.

    >>> check_origin("https://example.org")
    'https://example.org'
    """
    if not ORIGIN.fullmatch(origin):
        raise ConfigError(f"--cors {origin}: an origin such as https://example.org was expected, without a path")
    return origin


def check_token(headers: Headers, path: str, token: str | None) -> None:
    """Refuse a request without the token, unless its path is an open one."""
    if token is None or OPEN.fullmatch(path):
        return
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), token.encode()):
        raise Refused(
            401,
            "this server wants the header `Authorization: Bearer TOKEN`",
            headers={"WWW-Authenticate": 'Bearer realm="xmtc"'},
        )


def request_id_of(headers: Headers) -> str:
    """The id of a request: the client's `X-Request-ID` if it is one, else a new one."""
    given = headers.get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def add_headers(headers: MutableHeaders, request_id: str) -> None:
    """The headers of every answer, where the answer has not set its own."""
    headers["X-Request-ID"] = request_id
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
