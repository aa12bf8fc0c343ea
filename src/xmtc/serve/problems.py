"""Refusals: one exception, and its answer as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
ANNIF_PATHS = ("/v1/projects", "/v1/detect-language", "/v1/vocabs")
MAX_ERRORS, MAX_REASON = 10, 300  # fields that a refusal names, and characters about each


class Refused(HTTPException):
    """A request that is not answered: the status, one sentence that says why, and the fields that are wrong."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        errors: Iterable[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.title = title or HTTPStatus(status).phrase
        self.errors = list(errors)


class ClientGone(Exception):
    """The client has closed its connection: nobody waits for an answer."""


def refused_by(error: ValidationError, status: int = 422) -> Refused:
    """The refusal of a body that is not as its schema says."""
    found = [
        (_field(each["loc"]), reason_of(each["msg"])) for each in error.errors(include_url=False, include_input=False)
    ]
    return bad_input(found[:MAX_ERRORS], status)


def bad_input(errors: list[tuple[str, str]], status: int = 422) -> Refused:
    """The refusal of bad input, which names fields and what is wrong with each."""
    title = "Bad Request" if status == HTTPStatus.BAD_REQUEST else "Bad input"
    return Refused(status, "; ".join(f"{field}: {reason}" for field, reason in errors), title=title, errors=errors)


def problem(request: Request, error: HTTPException) -> Response:
    """The answer to a request that is refused; Annif says in plain text that a body is too large."""
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and request.url.path.startswith(ANNIF_PATHS):
        return Response(error.detail, error.status_code, headers, "text/plain")
    refused = error if isinstance(error, Refused) else Refused(error.status_code, _known_detail(error))
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": refused.title,
        "status": refused.status_code,
        "detail": refused.detail,
        "request_id": request.scope.get("state", {}).get("request_id"),
    }
    if refused.errors:
        content["errors"] = [{"field": field, "reason": reason} for field, reason in refused.errors]
    return Response(orjson.dumps(content), error.status_code, headers, MEDIA_TYPE)


def _known_detail(error: HTTPException) -> str:
    """What the router says, in a sentence."""
    sentences = {404: "there is nothing at this path; see /docs", 405: "this path does not take this method; see /docs"}
    return sentences.get(error.status_code, error.detail)


def _field(location: tuple[int | str, ...]) -> str:
    """The place of an error in the body, without the tags that tell apart what a document can be.

    >>> _field(("documents", 3, "text"))
    'documents.3'
    """
    parts = list(location)
    if len(parts) > 2 and parts[0] == "documents" and parts[2] in ("text", "fields"):
        del parts[2]
    return _printable(".".join(map(str, parts))) or "body"


def reason_of(message: str) -> str:
    """What pydantic says, as a reason that follows the name of a field."""
    message = message.removeprefix("Value error, ")
    return _printable(message[:1].lower() + message[1:])


def _printable(text: str) -> str:
    """Text from a request that can be sent back: without lone surrogates, and not at any length."""
    return text[:MAX_REASON].encode("utf-8", "replace").decode()
