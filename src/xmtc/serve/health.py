"""Whether the server lives and is ready, as KServe asks (`/v2`), and what Prometheus collects."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.responses import Response

from xmtc.serve.bodies import Json
from xmtc.serve.problems import Refused
from xmtc.serve.responses import problems
from xmtc.serve.state import Phase, ServerState, state_of

router = APIRouter(tags=["health"])


class Live(BaseModel):
    """The server answers."""

    live: bool


class Ready(BaseModel):
    """The server, or a model of it, takes requests."""

    ready: bool


class Tensor(BaseModel):
    """What goes into a model or comes out of it; -1 is any number."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(BaseModel):
    """A model, as KServe describes models."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]


@router.get("/v2/health/live", response_model=Live)
async def live() -> Json:
    """Whether the process answers."""
    return Json({"live": True})


@router.get("/v2/health/ready", response_model=Ready, responses=problems(503))
@router.get("/ready", response_model=Ready, responses=problems(503))
async def ready(request: Request) -> Json:
    """Whether models are warm and the server is not about to stop."""
    return _ready(state_of(request))


@router.get("/v2/models/{model}/ready", response_model=Ready, responses=problems(401, 404, 503))
async def model_ready(request: Request, model: str) -> Json:
    """Whether a model takes requests."""
    state = state_of(request)
    state.models[model]
    return _ready(state)


@router.get("/v2/models/{model}", response_model=ModelMetadata, responses=problems(401, 404))
async def model_metadata(request: Request, model: str) -> Json:
    """A model, as KServe describes models."""
    served = state_of(request).models[model]
    answer: dict[str, Any] = {
        "name": model,
        "versions": [served.version],
        "platform": f"xmtc_{served.model.name}",
        "inputs": [{"name": "documents", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [
            {"name": "labels", "datatype": "BYTES", "shape": [-1, -1]},
            {"name": "scores", "datatype": "FP32", "shape": [-1, -1]},
        ],
    }
    return Json(answer)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **problems(401)})
async def metrics(request: Request) -> Response:
    """Counters, in the text format of Prometheus."""
    return Response(state_of(request).metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _ready(state: ServerState) -> Json:
    if state.phase is not Phase.READY:
        raise Refused(503, f"the server is {state.phase}", headers={"Retry-After": "1"})
    return Json({"ready": True})
