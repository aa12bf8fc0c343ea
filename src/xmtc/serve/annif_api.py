"""Annif's REST API, so that its clients, and Annif itself with `backend=http`, can ask this server.

A model is a project. Paths, parameters, answers and status codes are those of Annif 1.4; what a server of ours refuses
beyond (401, 408, 429, 504) is added. A label's key is its URI. Scores lie between 0 and 1, as Annif wants them. A label
set does not keep notations apart from other names, so they are null.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from xmtc import __version__
from xmtc.corpus.languages import NAMES, language_shares
from xmtc.predictions import Predictions
from xmtc.serve.annif_schemas import (
    INDEXED_DOCUMENTS,
    MAX_INT32,
    ApiInfo,
    BatchSuggestionResult,
    DetectedLanguages,
    DetectLanguage,
    IndexedDocument,
    Project,
    ProjectList,
    SuggestBatch,
    SuggestForm,
    SuggestionResultList,
    VocabularyList,
)
from xmtc.serve.batching import Work
from xmtc.serve.bodies import FORM, Json, body_of, form_body, json_body, json_value
from xmtc.serve.learning import learn_from
from xmtc.serve.native_api import DIGITS, check_size
from xmtc.serve.problems import Refused, refused_by
from xmtc.serve.responses import problems
from xmtc.serve.schemas import MAX_K
from xmtc.serve.served_models import ServedModel
from xmtc.serve.state import ServerState, note, state_of

PROBLEMS = problems(400, 401, 404, 408, 413, 415, 429, 503, 504)
ProjectId = Annotated[str, Path(description="project identifier")]
router = APIRouter(prefix="/v1", tags=["Annif"])


@router.get("/", response_model=ApiInfo, responses=problems(401))
async def show_info() -> Json:
    """What answers here."""
    return Json({"title": "Annif REST API, served by xmtc", "version": __version__})


@router.get("/vocabs", response_model=VocabularyList, responses=problems(401))
async def list_vocabs(request: Request) -> Json:
    """The label sets of all models."""
    state = state_of(request)
    return Json({"vocabs": [_vocabulary(served, state) for served in state.models]})


@router.get("/projects", response_model=ProjectList, responses=problems(401))
async def list_projects(request: Request) -> Json:
    """The models as projects."""
    state = state_of(request)
    return Json({"projects": [_project(served, state) for served in state.models]})


@router.get("/projects/{project_id}", response_model=Project, responses=problems(401, 404))
async def show_project(request: Request, project_id: ProjectId) -> Json:
    """A model as a project."""
    state = state_of(request)
    return Json(_project(_found(state, project_id), state))


@router.post(
    "/projects/{project_id}/suggest",
    response_model=SuggestionResultList,
    responses=PROBLEMS,
    openapi_extra=body_of(SuggestForm, FORM),
)
async def suggest(request: Request, project_id: ProjectId) -> Json:
    """Suggest subjects for a text."""
    state = state_of(request)
    served = _found(state, project_id)
    state.queue.check_room(project_id, 1)
    try:
        form = SuggestForm.model_validate_strings(await form_body(request))
    except ValidationError as error:
        raise refused_by(error, 400) from None
    (results,) = await _suggested(request, served, [form.text], form.limit, form.threshold, form.language)
    return Json({"results": results})


@router.post(
    "/projects/{project_id}/suggest-batch",
    response_model=list[BatchSuggestionResult],
    responses=PROBLEMS,
    openapi_extra=body_of(SuggestBatch),
)
async def suggest_batch(
    request: Request,
    project_id: ProjectId,
    limit: Annotated[int, Query(ge=0, le=MAX_INT32)] = 10,
    threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
    language: str | None = None,
) -> Json:
    """Suggest subjects for up to 32 documents."""
    state = state_of(request)
    served = _found(state, project_id)
    state.queue.check_room(project_id, 1)
    documents = (await json_body(request, SuggestBatch, 400)).documents
    check_size(len(documents), state.settings.max_batch)
    texts = [document.text for document in documents]
    found = await _suggested(request, served, texts, limit, threshold, language)
    ids = [document.document_id for document in documents]
    return Json([{"results": results, "document_id": id} for results, id in zip(found, ids, strict=True)])


@router.post(
    "/projects/{project_id}/learn",
    status_code=204,
    response_class=Response,
    responses=problems(400, 401, 403, 404, 408, 413, 415, 503),
    openapi_extra=body_of(INDEXED_DOCUMENTS),
)
async def learn(request: Request, project_id: ProjectId) -> Response:
    """Let a model learn from documents with their subjects."""
    state = state_of(request)
    served = _found(state, project_id)
    if not state.settings.allow_learn or not served.model.capabilities.partial_fit:
        detail = f"Project '{project_id}' is not configured to allow learning via API"
        raise Refused(403, detail, title="Learning not allowed")
    documents: list[IndexedDocument] = await json_value(request, INDEXED_DOCUMENTS, 400)
    pairs = [
        (document.text, [subject.uri for subject in document.subjects])
        for document in documents
        if document.text is not None and document.subjects is not None
    ]
    note(request, model=project_id, documents=len(pairs))
    await learn_from(state, served.id, pairs)
    return Response(status_code=204)


@router.post(
    "/detect-language",
    response_model=DetectedLanguages,
    responses=problems(400, 401, 408, 413, 415),
    openapi_extra=body_of(DetectLanguage),
)
async def detect_language(request: Request) -> Json:
    """How likely a text is in each of some languages."""
    body = await json_body(request, DetectLanguage, 400)
    if any(language not in NAMES for language in body.languages):
        raise Refused(400, "unsupported candidate languages")
    shares = language_shares(body.text)
    scores: dict[str | None, float] = {
        language: round(shares.get(language, 0.0), DIGITS) for language in body.languages
    }
    scores[None] = round(max(0.0, 1.0 - sum(scores.values())), DIGITS)
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    return Json({"results": [{"language": language, "score": score} for language, score in ordered]})


async def _suggested(
    request: Request, served: ServedModel, texts: list[str], limit: int, threshold: float, language: str | None
) -> list[list[dict[str, Any]]]:
    """The subjects of each text, as Annif lists them; a text without a word has none."""
    state = state_of(request)
    if language and language != state.settings.language:
        raise Refused(400, f'language "{language[:50]}" not supported by vocabulary')
    if not texts:
        return []
    top: Predictions = await state.answer(request, Work(served, texts, min(max(limit, 1), MAX_K)))
    top = top.unit_scores()

    def entry(at: int, score: float) -> dict[str, Any]:
        uri, label, _ = served.described(at)
        return {"uri": uri, "label": label, "notation": None, "score": round(score, DIGITS)}

    return [
        [
            entry(at, score)
            for at, score in zip(ids[:limit], scores[:limit], strict=True)
            if at >= 0 and score > 0 and score >= threshold and text.strip()
        ]
        for text, ids, scores in zip(texts, top.ids.tolist(), top.scores.tolist(), strict=True)
    ]


def _found(state: ServerState, project_id: str) -> ServedModel:
    if project_id not in state.models:
        raise Refused(404, f"Project '{project_id[:100]}' not found", title="Project not found")
    return state.models[project_id]


def _vocabulary(served: ServedModel, state: ServerState) -> dict[str, Any]:
    return {"vocab_id": served.id, "languages": [state.settings.language], "size": len(served.labels), "loaded": True}


def _project(served: ServedModel, state: ServerState) -> dict[str, Any]:
    return {
        "project_id": served.id,
        "name": served.model.title,
        "language": state.settings.language,
        "backend": {"backend_id": served.model.name},
        "vocab": _vocabulary(served, state),
        "vocab_language": state.settings.language,
        "is_trained": True,
        "modification_time": served.created or None,
    }
