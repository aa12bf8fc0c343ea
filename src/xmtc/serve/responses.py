"""Which refusals an operation documents in the OpenAPI description."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from xmtc.serve.bodies import inlined
from xmtc.serve.problems import MEDIA_TYPE
from xmtc.serve.schemas import Problem

WHY = {
    400: "Bad input.",
    401: "The token is missing or wrong.",
    403: "Not allowed by how the server was started.",
    404: "There is no such model.",
    408: "The body came too slowly.",
    413: "Too large: the body, or the number of documents.",
    415: "Another kind of body was expected.",
    422: "Bad input: which field, and why.",
    431: "The head of the request is too large.",
    429: "The queue is full; Retry-After says when to come again.",
    503: "The server is starting or stopping.",
    504: "Waited too long.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers with these statuses, for the description of an operation.

    >>> sorted(problems(404, 429)[404])
    ['content', 'description']
    """
    schema = inlined(Problem.model_json_schema())
    return {
        status: {
            "description": WHY.get(status, HTTPStatus(status).phrase),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status in statuses
    }


PROBLEMS = problems(401, 404, 408, 413, 415, 422, 429, 503, 504)
