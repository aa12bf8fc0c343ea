"""Our own paths: predict, explain, search labels, feedback."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from numpy.typing import NDArray

from xmtc.errors import XmtcError
from xmtc.evaluation.evaluate import THRESHOLD_DEPTH
from xmtc.predictions import Predictions, check_threshold
from xmtc.serve.batching import Work
from xmtc.serve.bodies import Json, body_of, json_body
from xmtc.serve.problems import Refused, bad_input
from xmtc.serve.responses import PROBLEMS, problems
from xmtc.serve.schemas import (
    MAX_ANSWER,
    MAX_LABEL,
    MAX_SEARCH,
    ExplainRequest,
    ExplainResponse,
    FeedbackRequest,
    FeedbackResponse,
    LabelList,
    ModelList,
    PredictRequest,
    PredictResponse,
)
from xmtc.serve.served_models import LENGTH, ServedModel
from xmtc.serve.state import note, state_of

DIGITS = 6  # of a score
router = APIRouter(prefix="/v1/models", tags=["xmtc"])


@router.get("", response_model=ModelList, responses=problems(401))
async def list_models(request: Request) -> Json:
    """The models that are served, with what each can do."""
    return Json({"models": [served.info for served in state_of(request).models]})


@router.post(
    "/{model}/predict", response_model=PredictResponse, responses=PROBLEMS, openapi_extra=body_of(PredictRequest)
)
async def predict(request: Request, model: str) -> Json:
    """The labels of documents, best first."""
    state = state_of(request)
    served = state.models[model]
    state.queue.check_room(model, 1)  # before anything is read
    body = await json_body(request, PredictRequest)
    check_size(len(body.documents), state.settings.max_batch)
    check_language(body.language, state.settings.language)
    texts = [served.text_of(document, f"documents.{at}") for at, document in enumerate(body.documents)]
    threshold = _threshold(served, body.threshold)
    # As `xmtc predict`: a threshold cuts a long list.
    length = body.k or LENGTH if threshold is None else max(body.k or 0, THRESHOLD_DEPTH)
    if length * len(texts) > MAX_ANSWER:
        reason = f"{length:,} labels for each of {len(texts):,} documents are more than {MAX_ANSWER:,} in one answer"
        raise bad_input([("k", f"{reason}; ask for fewer, or send fewer documents")])
    top: Predictions = await state.answer(request, Work(served, texts, length))
    if threshold is not None:
        top = top.threshold(threshold).top(body.k or length)
    results = [{"labels": labels} for labels in labels_of(served, top)]
    answer = {"model": model, "version": served.version, "score_kind": top.kind.value, "results": results}
    if state.settings.log_texts:
        note(request, results=results)
    return Json(answer)


@router.post(
    "/{model}/explain", response_model=ExplainResponse, responses=PROBLEMS, openapi_extra=body_of(ExplainRequest)
)
async def explain(request: Request, model: str) -> Json:
    """The words of a text that speak for a label."""
    state = state_of(request)
    served = state.models[model]
    state.queue.check_room(model, 1)
    if not served.model.capabilities.explain:
        raise bad_input([("model", f"{model} ({served.model.name}) cannot explain its answers")])
    body = await json_body(request, ExplainRequest)
    at = served.labels.lookup(body.label)
    key = served.labels.key(at if at >= 0 else served.label_at(body.label, "label"))
    why = await state.answer(request, Work(served, [body.text], call=lambda one: one.model.explain(body.text, key)))
    return Json({"model": model, "version": served.version, **why.to_json()})


@router.get("/{model}/labels", response_model=LabelList, responses=problems(401, 404, 422))
async def labels(
    request: Request,
    model: str,
    search: Annotated[str, Query(max_length=MAX_LABEL, description="A part of the name, or an id.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_SEARCH, description="Labels, at most.")] = 20,
) -> Json:
    """Labels whose names have a part, those first that begin with it."""
    served = state_of(request).models[model]
    known = served.labels
    counts = known.counts if known.counts is not None else np.zeros(len(known), np.int64)
    found = [
        {"id": known.key(at), "name": known.name(at), "path": known.path_names(at), "count": int(counts[at])}
        for at in served.search.find(search, limit)
    ]
    return Json({"labels": found})


@router.post(
    "/{model}/feedback",
    status_code=202,
    response_model=FeedbackResponse,
    responses=problems(401, 403, 404, 408, 413, 415, 422, 503),
    openapi_extra=body_of(FeedbackRequest),
)
async def feedback(request: Request, model: str) -> Json:
    """Write down which labels a text should have."""
    state = state_of(request)
    served = state.models[model]
    body = await json_body(request, FeedbackRequest)
    if state.feedback is None:
        raise Refused(403, "this server writes no feedback down; it was started without --feedback FILE")
    for name, given in (("labels", body.labels), ("predicted", body.predicted or [])):
        for place, key in enumerate(given):
            served.label_at(key, f"{name}.{place}")
    request_id: str = request.scope["state"]["request_id"]
    entry: dict[str, Any] = {
        "id": request_id,
        "text": body.text,
        "labels": list(dict.fromkeys(body.labels)),
        "predicted": body.predicted,
        "model": model,
        "version": served.version,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        await asyncio.to_thread(state.feedback.append, entry)
    except OSError as error:
        raise Refused(503, f"the feedback cannot be written: {error.strerror}") from error
    state.metrics.feedback.labels(model).inc()
    note(request, model=model)
    return Json({"request_id": request_id}, 202)


def labels_of(served: ServedModel, top: Predictions) -> list[list[dict[str, Any]]]:
    """The labels of each document as plain data."""

    def entry(at: int, score: float) -> dict[str, Any]:
        key, name, path = served.described(at)
        return {"id": key, "name": name, "score": round(score, DIGITS), "path": path}

    return [
        [entry(at, score) for at, score in zip(ids, scores, strict=True) if at >= 0]
        for ids, scores in zip(top.ids.tolist(), top.scores.tolist(), strict=True)
    ]


def check_size(documents: int, most: int) -> None:
    """Refuse more documents than one request may have."""
    if documents > most:
        raise Refused(413, f"{documents:,} documents in one request; send at most {most:,} at a time")


def check_language(wanted: str | None, there: str) -> None:
    """Refuse to name labels in a language that there are no names in."""
    if wanted not in (None, there):
        raise bad_input([("language", f"the names of the labels are in {there!r}, not in {wanted!r:.50}")])


def _threshold(served: ServedModel, wanted: float | str | None) -> float | NDArray[np.float32] | None:
    """The threshold that a request wants: a number, one for each label, or None."""
    if wanted is None:
        return None
    if wanted == "tuned":
        if served.model.thresholds_ is None:
            remedy = "the model was not tuned; give a number, or train it with --valid"
            raise bad_input([("threshold", remedy)])
        return served.model.thresholds_
    try:
        check_threshold(float(wanted), served.model.score_kind)
    except XmtcError as error:
        raise bad_input([("threshold", str(error))]) from error
    return float(wanted)
