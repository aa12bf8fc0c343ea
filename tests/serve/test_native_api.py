"""Our own paths: what they answer, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving import KEYS, running, tiny_corpus, tiny_model

import xmtc
from xmtc.serve.schemas import ExplainResponse, LabelList, ModelList, PredictResponse, Problem

PREDICT = "/v1/models/tagger/predict"


def predict(client: TestClient, *documents: Any, **options: Any) -> Any:
    answer = client.post(PREDICT, json={"documents": list(documents), **options})
    assert answer.status_code == 200, answer.text
    PredictResponse.model_validate_json(answer.content)
    return answer.json()


def refused(client: TestClient, body: Any, status: int = 422, path: str = PREDICT) -> Any:
    answer = client.post(path, content=body if isinstance(body, bytes) else json.dumps(body), headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return Problem.model_validate_json(answer.content)


JSON = {"Content-Type": "application/json"}


def test_models_say_what_they_can(client: TestClient) -> None:
    (model,) = ModelList.model_validate_json(client.get("/v1/models").content).models
    assert (model.id, model.kind, model.labels, model.documents) == ("tagger", "dismec", 3, 48)
    assert model.explains and model.learns and model.tuned
    assert model.version.startswith("1.")
    assert model.curve and all(0 <= point.precision <= 1 for point in model.curve)


def test_predictions_are_those_of_the_model(client: TestClient, model_folder: Path) -> None:
    texts = ["a red berry", "sky", ""]
    found = predict(client, *texts, k=3)
    top = xmtc.load(model_folder).predict(texts, 3)
    for row, result in enumerate(found["results"]):
        assert [label["id"] for label in result["labels"]] == [top.labels.key(at) for at in top.ids[row]]
        assert [label["score"] for label in result["labels"]] == pytest.approx(top.scores[row].tolist(), abs=1e-6)
    assert found["score_kind"] == top.kind.value


def test_labels_come_with_name_and_path(client: TestClient) -> None:
    labels = predict(client, "black berry", k=3)["results"][0]["labels"]
    berries = next(label for label in labels if label["id"] == KEYS[2])
    assert berries["name"] == "Berries"
    assert berries["path"] == ["Fruit", "Berries"]


def test_a_document_may_be_an_object_with_fields(client: TestClient) -> None:
    as_text, as_object = predict(client, "blue sky", {"text": "blue sky", "year": "2026"})["results"]
    assert as_text == as_object
    errors = refused(client, {"documents": ["sky", {"title": "blue sky"}]}).errors
    assert errors[0].field == "documents.1"
    assert "trained with: text" in errors[0].reason


def test_fields_are_joined_as_in_training(tmp_path: Path) -> None:
    model = xmtc.make("dismec").fit(tiny_corpus())
    model.reading_ = {"text_field": "title,body"}
    model.save(tmp_path / "tagger")
    with running(tmp_path / "tagger") as client:
        both, joined, one = predict(client, {"title": "red", "body": "berry"}, "red\n\nberry", {"title": "berry"}, k=3)[
            "results"
        ]
    assert both == joined
    assert one["labels"][0]["score"] != both["labels"][0]["score"]


def test_a_threshold_cuts_the_list(client: TestClient) -> None:
    every = predict(client, "black berry", k=3)["results"][0]["labels"]
    at = every[1]["score"]
    assert predict(client, "black berry", threshold=at - 1e-4)["results"][0]["labels"] == every[:2]
    assert predict(client, "black berry", threshold=at - 1e-4, k=1)["results"][0]["labels"] == every[:1]


def test_tuned_thresholds_are_those_of_the_labels(client: TestClient, model_folder: Path) -> None:
    model = xmtc.load(model_folder)
    assert model.thresholds_ is not None
    (names,) = model.predict(["black berry"], 3).threshold(model.thresholds_).names()
    found = predict(client, "black berry", threshold="tuned")["results"][0]["labels"]
    assert [label["name"] for label in found] == [name for name, _ in names]


def test_thresholds_that_a_model_has_not_are_refused(tmp_path: Path) -> None:
    with running(tiny_model(tmp_path / "tagger", "knn")) as client:
        assert "was not tuned" in refused(client, {"documents": ["a"], "threshold": "tuned"}).detail
        assert "probabilities, from 0 to 1" in refused(client, {"documents": ["a"], "threshold": 30}).detail


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": "one text"}, "documents"),
        ({"documents": [3]}, "documents.0"),
        ({"documents": ["a", None]}, "documents.1"),
        ({"documents": [{"text": 3}]}, "documents.0.text"),
        ({"documents": ["a\0b"]}, "documents.0"),
        ({"documents": [{"text": "a\0b"}]}, "documents.0.text"),
        ({"documents": ["a"], "k": 0}, "k"),
        ({"documents": ["a"], "k": 1001}, "k"),
        ({"documents": ["a"], "k": "5"}, "k"),
        ({"documents": ["a"], "k": True}, "k"),
        ({"documents": ["a"], "threshold": "best"}, "threshold"),
        ({"documents": ["a"], "language": "fi"}, "language"),
        ({"documents": ["a"], "limit": 5}, "limit"),
        ({"documents": ["a"] * 100, "k": 500}, "k"),
        (["a"], "body"),
    ],
)
def test_bad_input_names_its_field(client: TestClient, body: Any, field: str) -> None:
    errors = refused(client, body).errors
    assert errors and errors[0].field.startswith(field)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no JSON",
        b"\0\0\0\0",
        b'{"documents": ["\xff\xfe"]}',
        b'{"documents": ["\\ud800"]}',
        b'{"\\ud800": 1}',
        b"[" * 100_000,
        b'{"documents": ' * 50_000,
        b'{"documents": ["a"], "k": ' + b"9" * 5000 + b"}",
        b'{"documents": ["a"], "threshold": NaN}',
        b'{"documents": ["a"], "threshold": 1e999}',
    ],
)
def test_broken_bodies_are_refused(client: TestClient, body: bytes) -> None:
    assert refused(client, body).title == "Bad input"


def test_another_kind_of_body_is_refused(client: TestClient) -> None:
    answer = client.post(PREDICT, content=b'{"documents": ["a"]}', headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert client.post(PREDICT, content=b"{}").status_code == 415


def test_unknown_models_and_paths_are_not_found(client: TestClient) -> None:
    assert "no model 'other'" in refused(client, {"documents": ["a"]}, 404, "/v1/models/other/predict").detail
    assert client.get("/v1/nothing").json()["status"] == 404
    assert client.get(PREDICT).json()["status"] == 405


def test_explanations_say_which_words_count(client: TestClient, model_folder: Path) -> None:
    answer = client.post("/v1/models/tagger/explain", json={"text": "black berry", "label": KEYS[2]})
    found = ExplainResponse.model_validate_json(answer.content)
    expected = xmtc.load(model_folder).explain("black berry", KEYS[2])
    assert answer.json() == {"model": "tagger", "version": found.version, **expected.to_json()}
    assert client.post("/v1/models/tagger/explain", json={"text": "black berry", "label": "Berries"}).status_code == 200
    assert refused(client, {"text": "a", "label": "none"}, 422, "/v1/models/tagger/explain").errors[0].field == "label"


def test_labels_are_found_by_parts_of_names(client: TestClient) -> None:
    def found(search: str, **options: Any) -> list[str]:
        answer = client.get("/v1/models/tagger/labels", params={"search": search, **options})
        return [label.name for label in LabelList.model_validate_json(answer.content).labels]

    assert found("SKY") == ["Weather and sky"]
    assert found("berr") == ["Berries"]
    assert found(KEYS[0]) == ["Fruit"]
    assert found("") == ["Fruit", "Weather and sky", "Berries"]
    assert found("r", limit=2) == ["Fruit", "Weather and sky"]
    assert found("no such label") == []
    (label,) = client.get("/v1/models/tagger/labels?search=berries").json()["labels"]
    assert label == {"id": KEYS[2], "name": "Berries", "path": ["Fruit", "Berries"], "count": 16}
    assert client.get("/v1/models/tagger/labels?limit=0").json()["errors"][0]["field"] == "limit"


def test_feedback_is_a_corpus_to_train_on(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "feedback.jsonl"
    with running(model_folder, feedback=file) as client:
        for text, label in (("red berry", KEYS[2]), ("a sky\nin two lines", KEYS[1])):
            body = {"text": text, "labels": [label], "predicted": [KEYS[0]]}
            answer = client.post("/v1/models/tagger/feedback", json=body)
            assert answer.status_code == 202
            assert answer.json()["request_id"] == answer.headers["x-request-id"]
        unknown = {"text": "a", "labels": ["none"]}
        assert refused(client, unknown, 422, "/v1/models/tagger/feedback").errors[0].field == "labels.0"
    corpus = xmtc.read(file)
    assert corpus.texts is not None
    assert list(corpus.texts) == ["red berry", "a sky\nin two lines"]
    assert [corpus.labels.key(corpus.labels_of(at)[0]) for at in range(2)] == [KEYS[2], KEYS[1]]
    assert file.stat().st_mode & 0o077 == 0  # texts of people, for its owner only


def test_feedback_that_nobody_collects_is_refused(client: TestClient) -> None:
    body = {"text": "a", "labels": [KEYS[0]]}
    assert "--feedback" in refused(client, body, 403, "/v1/models/tagger/feedback").detail


def test_several_models_are_served_under_their_names(model_folder: Path, tmp_path: Path) -> None:
    other = tiny_model(tmp_path / "tagger", "prior")
    with running(model_folder, f"other={other}") as client:
        assert [model["id"] for model in client.get("/v1/models").json()["models"]] == ["tagger", "other"]
        body = {"documents": ["blue sky"], "k": 1}
        best = [client.post(f"/v1/models/{id}/predict", json=body).json() for id in ("tagger", "other")]
    assert [answer["results"][0]["labels"][0]["name"] for answer in best] == ["Weather and sky", "Fruit"]
    assert best[0]["version"] != best[1]["version"]
