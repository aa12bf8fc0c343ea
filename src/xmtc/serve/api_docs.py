"""The description of the API for people, at /docs: made from /openapi.json, without a script and from nowhere else."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse

METHODS = ("get", "post", "put", "delete", "patch")


async def docs_page(request: Request) -> HTMLResponse:
    """The page."""
    html, policy = _page(request.app)
    return HTMLResponse(html, headers={"Content-Security-Policy": policy, "Cache-Control": "no-cache"})


@cache
def _page(app: Any) -> tuple[str, str]:
    """(the page, the policy that allows its style and nothing else)."""
    from jinja2 import Environment, PackageLoader, select_autoescape

    style = files("xmtc.serve").joinpath("templates", "docs.css").read_text("utf-8")
    environment = Environment(
        loader=PackageLoader("xmtc.serve"), autoescape=select_autoescape(default=True), trim_blocks=True
    )
    description = app.openapi()
    html = environment.get_template("docs.html").render(
        info=description["info"], groups=groups(description), style=style
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return html, f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"


def groups(description: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The operations of an OpenAPI description by tag, with their schemas as text.

    >>> operation = {"tags": ["a"], "summary": "S", "responses": {"200": {"description": "OK"}}}
    >>> groups({"paths": {"/x": {"get": operation}}})["a"][0]["path"]
    '/x'
    """
    found: dict[str, list[dict[str, Any]]] = {}
    schemas = description.get("components", {}).get("schemas", {})
    for path, operations in description["paths"].items():
        for method in METHODS:
            if (operation := operations.get(method)) is None:
                continue
            body = operation.get("requestBody", {}).get("content", {})
            found.setdefault((operation.get("tags") or ["other"])[0], []).append(
                {
                    "path": path,
                    "method": method.upper(),
                    "summary": operation.get("description") or operation.get("summary", ""),
                    "parameters": operation.get("parameters", []),
                    "body": [(kind, _shown(content.get("schema", {}), schemas)) for kind, content in body.items()],
                    "answers": [
                        (status, answer.get("description", ""), _answer(answer, schemas))
                        for status, answer in operation["responses"].items()
                    ],
                }
            )
    return found


def _answer(answer: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The schema of an answer; of refusals none, since they all have the same."""
    content = answer.get("content", {})
    return _shown(content["application/json"].get("schema", {}), schemas) if "application/json" in content else ""


def _shown(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """A schema as an example with types in place of values."""
    return json.dumps(_outline(schema, schemas), indent=2, ensure_ascii=False)


def _outline(schema: dict[str, Any], schemas: dict[str, Any]) -> Any:
    if "$ref" in schema:
        return _outline(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        outlines = [_outline(choice, schemas) for choice in choices]
        words = [each for each in outlines if isinstance(each, str)]
        others = [each for each in outlines if not isinstance(each, str)]
        return " or ".join([*words, *(json.dumps(each) for each in others)]) if words else others[0]
    if "const" in schema:
        return repr(schema["const"])
    kind = schema.get("type", "anything")
    if kind == "array":
        return [_outline(schema.get("items", {}), schemas)]
    if kind == "object":
        fields = {name: _outline(field, schemas) for name, field in schema.get("properties", {}).items()}
        return fields or {"field": "string"}
    return kind
