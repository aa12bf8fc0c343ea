"""The application: models, queue, paths, put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from xmtc import __version__
from xmtc.errors import XmtcError
from xmtc.serve import annif_api, health, native_api
from xmtc.serve.api_docs import docs_page
from xmtc.serve.feedback import FeedbackFile
from xmtc.serve.front import CLIENT_GONE, Front
from xmtc.serve.page import page_routes
from xmtc.serve.problems import ANNIF_PATHS, ClientGone, bad_input, problem, reason_of
from xmtc.serve.responses import problems
from xmtc.serve.served_models import ServedModels
from xmtc.serve.settings import ServeSettings
from xmtc.serve.state import Phase, ServerState
from xmtc.serve.watching import watch

DESCRIPTION = """Tags texts with the right few labels of thousands or millions.

`/v1/models` is the API of xmtc; `/v1/projects` is that of Annif; `/v2` is what KServe asks for. Refusals come as
`application/problem+json`."""


def create_app(settings: ServeSettings) -> FastAPI:
    """The server's application; an XmtcError if a model or a file of the settings cannot be used."""
    state = ServerState(settings, ServedModels(settings.models))
    if settings.feedback is not None:
        state.feedback = FeedbackFile(settings.feedback)
    app = FastAPI(
        title="xmtc",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_life,
        responses=problems(431),
    )
    app.state.server = state
    for router in (native_api.router, annif_api.router, health.router):
        app.include_router(router)
    app.include_router(page_routes())
    app.add_api_route("/docs", docs_page, include_in_schema=False)
    for kind in (HTTPException, RequestValidationError, ClientGone, XmtcError):
        app.add_exception_handler(kind, _refuse)
    app.add_middleware(Front, server=state)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )
    return app


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    """From the first request to the last: warm up, watch folders, end."""
    state: ServerState = app.state.server
    state.begin()
    state.count_models()
    tasks = [asyncio.create_task(_warm_up(state))]
    if state.settings.watch:
        tasks.append(asyncio.create_task(watch(state)))
    yield
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    state.end()


async def _warm_up(state: ServerState) -> None:
    """Use each model once, then be ready."""
    for served in state.models:
        try:
            await state.queue.thread.do(partial(served.warm_up, state.settings.max_batch))
        except Exception as error:
            state.failure = error  # which ends the server
            return
    if state.phase is Phase.STARTING:
        state.enter(Phase.READY)


async def _refuse(request: Request, error: Exception) -> Response:
    """The answer to what an operation has raised."""
    if isinstance(error, ClientGone):
        return Response(status_code=CLIENT_GONE)
    if isinstance(error, RequestValidationError):  # of the path and the query: bodies are read by `bodies.py`
        found = [(str(each["loc"][-1]), reason_of(each["msg"])) for each in error.errors()]
        return problem(request, bad_input(found, 400 if request.url.path.startswith(ANNIF_PATHS) else 422))
    if isinstance(error, XmtcError):  # a model that cannot do this for this request
        return problem(request, bad_input([("body", str(error))]))
    assert isinstance(error, HTTPException)
    return problem(request, error)
