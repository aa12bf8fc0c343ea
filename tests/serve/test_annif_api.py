"""Annif's paths: what its clients send and expect (Annif 1.4.3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving import KEYS, running, tiny_model

import xmtc
from xmtc.serve.annif_schemas import DetectedLanguages, ProjectList, SuggestionResultList, VocabularyList

SUGGEST, BATCH = "/v1/projects/tagger/suggest", "/v1/projects/tagger/suggest-batch"


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == status
    return found


def test_the_server_and_its_projects_are_described(client: TestClient) -> None:
    assert client.get("/v1/").json()["version"] == xmtc.__version__
    (project,) = ProjectList.model_validate_json(client.get("/v1/projects").content).projects
    assert client.get("/v1/projects/tagger").json() == project.model_dump()
    assert (project.project_id, project.backend.backend_id, project.is_trained) == ("tagger", "dismec", True)
    (vocabulary,) = VocabularyList.model_validate_json(client.get("/v1/vocabs").content).vocabs
    assert project.vocab == vocabulary
    assert vocabulary.size == 3
    missing = problem(client.get("/v1/projects/none"), 404)
    assert (missing["title"], missing["detail"]) == ("Project not found", "Project 'none' not found")


def test_a_form_gets_suggestions(client: TestClient) -> None:
    answer = client.post(SUGGEST, data={"text": "blue sky", "limit": "2", "metadata_author": "N. N.", "project": "x"})
    assert answer.headers["content-type"] == "application/json"
    results = SuggestionResultList.model_validate_json(answer.content).results
    assert (results[0].uri, results[0].label, results[0].notation) == (KEYS[1], "Weather and sky", None)
    assert len(results) == 2
    assert all(0 < hit.score <= 1 for hit in results)


def test_limit_and_threshold_cut_the_list(client: TestClient) -> None:
    def scores(**form: str) -> list[float]:
        return [hit["score"] for hit in client.post(SUGGEST, data={"text": "blue sky", **form}).json()["results"]]

    every = scores()
    assert len(every) == 3
    assert every == sorted(every, reverse=True)
    assert scores(limit="0") == []
    assert scores(limit="2147483647") == every
    assert scores(threshold=str(every[1])) == every[:2]
    assert scores(threshold="1.0") == []
    assert scores(text=" \n") == []


def test_a_batch_gets_a_list_each(client: TestClient) -> None:
    documents = [{"text": "blue sky", "document_id": "d1"}, {"text": "red berry", "metadata": {"a": "b"}}, {"text": ""}]
    answer = client.post(BATCH, params={"limit": 1}, json={"documents": documents}).json()
    assert [result["document_id"] for result in answer] == ["d1", None, None]
    single = client.post(SUGGEST, data={"text": "blue sky", "limit": "1"}).json()["results"]
    assert answer[0]["results"] == single
    assert answer[2]["results"] == []
    assert client.post(BATCH, json={"documents": []}).json() == []


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"limit": "3"},
        {"text": "a", "limit": "-1"},
        {"text": "a", "limit": "many"},
        {"text": "a", "threshold": "1.5"},
        {"text": "a", "threshold": "nan"},
        {"text": "a\0b"},
        {"text": "a", "language": "fi"},
    ],
)
def test_bad_forms_are_bad_requests(client: TestClient, form: dict[str, str]) -> None:
    assert problem(client.post(SUGGEST, data=form, headers=FORM), 400)["title"] == "Bad Request"


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("body", [b"text=%ff%fe", "text=ü".encode(), b"&".join([b"a=1"] * 101), b"\0"])
def test_forms_that_are_none_are_bad_requests(client: TestClient, body: bytes) -> None:
    problem(client.post(SUGGEST, content=body, headers=FORM), 400)


def test_bad_batches_are_bad_requests(client: TestClient) -> None:
    too_many = {"documents": [{"text": "a"}] * 33}
    bodies: tuple[Any, ...] = ({}, {"documents": {}}, {"documents": [{}]}, {"documents": [{"text": 3}]}, too_many, [])
    for body in bodies:
        problem(client.post(BATCH, json=body), 400)
    for query in ("limit=-1", "limit=x", "threshold=2", "threshold=nan", "language=fi"):
        problem(client.post(f"{BATCH}?{query}", json={"documents": [{"text": "a"}]}), 400)
    detail = problem(client.post(f"{BATCH}?language=fi", json={"documents": [{"text": "a"}]}), 400)["detail"]
    assert detail == 'language "fi" not supported by vocabulary'


def test_a_body_that_is_too_large_is_told_in_plain_text(model_folder: Path) -> None:
    with running(model_folder, max_body=1000) as client:
        answer = client.post(SUGGEST, data={"text": "a" * 1000})
        assert answer.status_code == 413
        assert answer.headers["content-type"].startswith("text/plain")
        problem(client.post("/v1/models/tagger/predict", json={"documents": ["a" * 1000]}), 413)


def test_languages_are_detected_among_candidates(client: TestClient) -> None:
    def detect(text: str, *languages: str) -> Any:
        return client.post("/v1/detect-language", json={"text": text, "languages": languages})

    answer = detect("The ship left the harbour and was never seen again", "fi", "en")
    first, *others = DetectedLanguages.model_validate_json(answer.content).results
    assert first.language == "en"
    assert first.score > 0.5
    assert {other.language for other in others} == {"fi", None}
    assert detect("Foo 42", "en").json()["results"][0] == {"language": None, "score": 1.0}
    assert problem(detect("a", "xx"), 400)["detail"] == "unsupported candidate languages"
    for body in (
        {"text": "a"},
        {"text": "a", "languages": []},
        {"text": "a", "languages": ["en"] * 6},
        {"languages": ["en"]},
    ):
        problem(client.post("/v1/detect-language", json=body), 400)


def test_learning_has_to_be_allowed(client: TestClient) -> None:
    answer = problem(client.post("/v1/projects/tagger/learn", json=[]), 403)
    assert answer["title"] == "Learning not allowed"
    assert answer["detail"] == "Project 'tagger' is not configured to allow learning via API"


def test_a_model_learns_and_the_one_before_is_kept(tmp_path: Path) -> None:
    place = tiny_model(tmp_path / "tagger", "dismec")
    documents = [{"text": "violet yam", "subjects": [{"uri": KEYS[0], "label": "Fruit"}, {"uri": "unknown"}]}] * 5
    with running(place, allow_learn=True) as client:
        before = client.get("/v1/models").json()["models"][0]["version"]
        answer = client.post("/v1/projects/tagger/learn", json=[*documents, {"text": "no subjects"}, {}])
        assert (answer.status_code, answer.content) == (204, b"")
        body = {"documents": ["violet yam"], "k": 1}
        after = client.post("/v1/models/tagger/predict", json=body).json()
        assert after["results"][0]["labels"][0]["id"] == KEYS[0]
        assert (before[:2], after["version"][:2]) == ("1.", "2.")
        problem(client.post("/v1/projects/tagger/learn", json=[{"text": "a", "subjects": [{"uri": "unknown"}]}]), 400)
        problem(client.post("/v1/projects/tagger/learn", json={"documents": []}), 400)
    assert xmtc.load(place).train_documents_ == 53
    assert xmtc.load(f"{place}.before").train_documents_ == 48
    assert f'"checksum": "{before[2:]}' in Path(f"{place}.before", "manifest.json").read_text()
    assert json.loads((place / "manifest.json").read_text())["training"]["updates"]["times"] == 1


def test_what_cannot_learn_is_not_allowed_to(tmp_path: Path) -> None:
    model = "rocchio"
    with running(tiny_model(tmp_path / "tagger", model), allow_learn=True) as client:
        problem(client.post("/v1/projects/tagger/learn", json=[]), 403)
