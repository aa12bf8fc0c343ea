"""The bodies of requests and answers: JSON and forms in, JSON out."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from xmtc.serve.problems import Refused, bad_input, refused_by

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
MAX_FIELDS = 100  # of a form


class Json(Response):
    """An answer of plain data."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Numbers that are no numbers become null, as JSON has none."""
        return orjson.dumps(content)


async def json_body(request: Request, schema: type[M], status: int = 422) -> M:
    """The body as its schema says; refused with this status if it is something else."""
    _check_type(request, JSON)
    try:
        return schema.model_validate_json(await request.body())
    except ValidationError as error:
        raise refused_by(error, status) from None


async def json_value(request: Request, adapter: TypeAdapter[T], status: int = 422) -> T:
    """As `json_body`, for a body that is no object."""
    _check_type(request, JSON)
    try:
        return adapter.validate_json(await request.body())
    except ValidationError as error:
        raise refused_by(error, status) from None


async def form_body(request: Request) -> dict[str, str]:
    """The fields of a form; of a field that comes twice the last counts."""
    _check_type(request, FORM)
    try:
        text = (await request.body()).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        reason = f"no form in UTF-8 with at most {MAX_FIELDS} fields, percent-encoded"
        raise bad_input([("body", reason)], 400) from None
    return dict(pairs)


def body_of(schema: type[BaseModel] | TypeAdapter[Any], media_type: str = JSON) -> dict[str, Any]:
    """For OpenAPI: an operation takes such a body."""
    described = schema.json_schema() if isinstance(schema, TypeAdapter) else schema.model_json_schema()
    return {"requestBody": {"required": True, "content": {media_type: {"schema": inlined(described)}}}}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema with its definitions where they are used: OpenAPI looks for them elsewhere."""
    definitions = schema.pop("$defs", {})

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            if "$ref" in part:
                return walk(definitions[part["$ref"].rpartition("/")[2]])
            return {key: walk(value) for key, value in part.items()}
        return [walk(each) for each in part] if isinstance(part, list) else part

    found: dict[str, Any] = walk(schema)
    return found


def _check_type(request: Request, wanted: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        said = f"not {given!r:.100}" if given else "and the request does not say what its body is"
        raise Refused(415, f"Content-Type must be {wanted}, {said}")
