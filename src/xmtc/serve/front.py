"""What every request passes first and every answer last: id, token, limits, headers, a log line, no traceback."""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xmtc.serve.limits import check_head, limited
from xmtc.serve.logs import log
from xmtc.serve.problems import Refused, problem
from xmtc.serve.security import add_headers, check_token, request_id_of
from xmtc.serve.state import Phase, ServerState

REASONS = {
    401: "no_token",
    404: "not_found",
    405: "method",
    408: "slow_body",
    413: "too_large",
    415: "content_type",
    429: "queue_full",
    503: "stopping",
    504: "waited_too_long",
}
UNKNOWN_PATH = "other"  # in metrics, which must not grow with what clients make up
CLIENT_GONE = 499


class Front:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, server: ServerState) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; what is no HTTP request passes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        headers = Headers(scope=scope)
        scope.setdefault("state", {})["request_id"] = request_id = request_id_of(headers)

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                sent = MutableHeaders(scope=message)
                add_headers(sent, request_id)
                if self._server.phase in (Phase.DRAINING, Phase.STOPPING):
                    sent["Connection"] = "close"  # so that the client's next request goes elsewhere
            await send(message)

        try:
            check_head(scope)
            check_token(headers, scope["path"], self._server.settings.token)
            settings = self._server.settings
            messages = await limited(receive, headers, settings.max_body, settings.timeout)
            await self._app(scope, messages, send_with_headers)
        except ClientDisconnect:
            status = status or CLIENT_GONE
        except HTTPException as error:
            await problem(Request(scope), error)(scope, receive, send_with_headers)
        except Exception as error:
            log("error", logging.ERROR, error, request_id=request_id, path=scope["path"])
            if not status:
                refused = Refused(500, "an error of the server; its log has this request_id")
                await problem(Request(scope), refused)(scope, receive, send_with_headers)
        finally:
            self._tell(scope, status or CLIENT_GONE, time.perf_counter() - start)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        metrics = self._server.metrics
        path = getattr(scope.get("route"), "path", UNKNOWN_PATH)
        metrics.requests.labels(scope["method"] if path != UNKNOWN_PATH else "any", path, status).inc()
        metrics.seconds.labels(path).observe(seconds)
        if status >= 400 and status != CLIENT_GONE:
            metrics.refusals.labels(REASONS.get(status, "bad_input" if status < 500 else "error")).inc()
        state: MutableMapping[str, Any] = scope["state"]
        client = scope.get("client")
        log(
            "request",
            logging.ERROR if status == 500 else logging.INFO,
            request_id=state["request_id"],
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(1000 * seconds, 2),
            client=client[0] if client else None,
            **state.get("noted", {}),
        )
