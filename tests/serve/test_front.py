"""Tokens, ids, headers, limits, logs, metrics: what every request meets."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient
from serving import running, tiny_model

from xmtc.errors import BadInput, BadModelFolder, ConfigError
from xmtc.serve.logs import JsonLines
from xmtc.serve.security import check_origin, read_token
from xmtc.serve.served_models import ServedModel

PREDICT = "/v1/models/tagger/predict"
BODY = {"documents": ["blue sky"]}
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """The log, as JSON lines."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("xmtc.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def requests_in(lines: io.StringIO) -> list[dict[str, Any]]:
    found = [orjson.loads(line) for line in lines.getvalue().splitlines()]
    return [line for line in found if line["event"] == "request"]


def test_without_the_token_only_open_paths_answer(model_folder: Path) -> None:
    with running(model_folder, token=TOKEN) as client:
        for path in ("/v1/models", "/v1/projects", "/metrics", "/v2/models/tagger", "/v1/nothing", "/page"):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["title"] == "Unauthorized"
        for given in ("Bearer wrong-token-of-some-length", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ü"):
            headers = {b"Authorization": given.encode()}
            assert client.post(PREDICT, json=BODY, headers=headers).status_code == 401
            form = client.post("/v1/projects/tagger/suggest", data={"text": "a"}, headers=headers)
            assert form.status_code == 401
        for path in ("/v2/health/live", "/v2/health/ready", "/ready", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 200, path
        for scheme in ("Bearer", "bearer"):
            assert client.post(PREDICT, json=BODY, headers={"Authorization": f"{scheme} {TOKEN}"}).status_code == 200


def test_a_token_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    for content in ("", "short", "two words of enough length", "a-token-with-ümlaut-in-it"):
        file.write_text(content)
        with pytest.raises(BadInput, match="openssl rand"):
            read_token(file)
    with pytest.raises(BadInput, match="cannot be read"):
        read_token(tmp_path / "none")


def test_pages_of_other_origins_are_let_in_only_if_named(model_folder: Path, client: TestClient) -> None:
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in client.get("/v1/models", headers=origin).headers
    with running(model_folder, cors=("https://example.org",), token=TOKEN) as named:
        asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        assert named.options(PREDICT, headers=asked).headers["access-control-allow-origin"] == origin["Origin"]
        answer = named.get("/v1/models", headers=origin)
        assert answer.status_code == 401
        assert answer.headers["access-control-allow-origin"] == origin["Origin"]
        other = named.get("/v1/models", headers={"Origin": "https://example.com"})
        assert "access-control-allow-origin" not in other.headers
    for bad in ("example.org", "https://example.org/page", "https://", ""):
        with pytest.raises(ConfigError, match="--cors"):
            check_origin(bad)


def test_each_answer_has_an_id_and_headers_that_trust_nothing(client: TestClient) -> None:
    for answer in (
        client.post(PREDICT, json=BODY, headers={"X-Request-ID": "mine-1"}),
        client.get("/v1/nothing", headers={"X-Request-ID": "mine-1"}),
        client.post(PREDICT, json={}, headers={"X-Request-ID": "mine-1"}),
    ):
        assert answer.headers["x-request-id"] == "mine-1"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
    for odd in ("", "a b", "x" * 101, "a<script>"):
        answer = client.get("/v1/models", headers={"X-Request-ID": odd})
        assert answer.headers["x-request-id"] != odd
        assert len(answer.headers["x-request-id"]) == 32
    assert client.get("/v1/nothing", headers={"X-Request-ID": "mine-2"}).json()["request_id"] == "mine-2"


def test_the_log_has_a_line_a_request_without_its_text(model_folder: Path, lines: io.StringIO) -> None:
    with running(model_folder) as client:
        client.post(PREDICT, json=BODY, headers={"X-Request-ID": "one"})
        client.post(PREDICT, json={"documents": ["secret\0text"]}, headers={"X-Request-ID": "two"})
    one, two = (line for line in requests_in(lines) if line["request_id"] in ("one", "two"))
    assert (one["status"], one["model"], one["documents"], one["path"]) == (200, "tagger", 1, PREDICT)
    assert two["status"] == 422
    assert "blue sky" not in lines.getvalue()
    assert "secret" not in lines.getvalue()


def test_the_log_has_texts_if_asked(model_folder: Path, lines: io.StringIO) -> None:
    with running(model_folder, log_texts=True) as client:
        client.post(PREDICT, json=BODY)
    (line,) = (line for line in requests_in(lines) if line["path"] == PREDICT)
    assert line["texts"] == ["blue sky"]
    assert line["results"][0]["labels"]


def test_large_bodies_are_refused_with_and_without_a_length(model_folder: Path) -> None:
    with running(model_folder, max_body=1000) as client:
        large = orjson.dumps({"documents": ["a" * 1000]})
        headers = {"Content-Type": "application/json"}
        announced = client.post(PREDICT, content=large, headers=headers)
        chunked = client.post(PREDICT, content=iter([large[:600], large[600:]]), headers=headers)
        for answer in (announced, chunked):
            assert answer.status_code == 413
            assert "1,000 bytes" in answer.json()["detail"]
        assert client.post(PREDICT, json=BODY).status_code == 200


def test_too_many_documents_are_refused(model_folder: Path) -> None:
    with running(model_folder, max_batch=32) as client:
        answer = client.post(PREDICT, json={"documents": ["a"] * 33})
        assert (answer.status_code, answer.json()["status"]) == (413, 413)
        assert client.post(PREDICT, json={"documents": ["a"] * 32}).status_code == 200


def test_metrics_count_what_happens(model_folder: Path) -> None:
    with running(model_folder) as client:
        client.post(PREDICT, json={"documents": ["a", "b", "c"]})
        client.post(PREDICT, json={})
        client.get("/some/path/that/a/client/made/up")
        answer = client.get("/metrics")
        version = client.get("/v1/models").json()["models"][0]["version"]
    assert answer.headers["content-type"].startswith("text/plain")
    for line in (
        'xmtc_requests_total{method="POST",path="/v1/models/{model}/predict",status="200"} 1.0',
        'xmtc_refusals_total{reason="bad_input"} 1.0',
        'xmtc_documents_total{model="tagger"} 3.0',
        'xmtc_batch_documents_count{model="tagger"} 1.0',
        'xmtc_queue_documents{model="tagger"} 0.0',
        f'xmtc_model_info{{kind="dismec",model="tagger",version="{version}"}} 1.0',
        "xmtc_ready 1.0",
        "process_resident_memory_bytes",
    ):
        assert line in answer.text, line
    assert "made/up" not in answer.text


def test_an_error_of_ours_is_told_without_its_traceback(model_folder: Path, lines: io.StringIO) -> None:
    with running(model_folder) as client:
        served = client.app.state.server.models["tagger"]  # type: ignore[attr-defined]
        served.model.predict = None  # what nobody expects
        answer = client.post(PREDICT, json=BODY)
    assert answer.status_code == 500
    assert "Traceback" not in answer.text
    assert "TypeError" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["request_id"] in lines.getvalue()
    assert "TypeError" in lines.getvalue()


def test_health_is_what_kserve_asks_for(client: TestClient) -> None:
    assert client.get("/v2/health/live").json() == {"live": True}
    for path in ("/v2/health/ready", "/ready", "/v2/models/tagger/ready"):
        assert client.get(path).json() == {"ready": True}
    model = client.get("/v2/models/tagger").json()
    assert (model["name"], model["platform"]) == ("tagger", "xmtc_dismec")
    assert client.get("/v2/models/none").status_code == client.get("/v2/models/none/ready").status_code == 404


def test_the_docs_page_lists_the_paths_and_loads_nothing(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.status_code == 200
    for path in client.get("/openapi.json").json()["paths"]:
        assert f"<code>{path}</code>" in answer.text
    assert "<script" not in answer.text
    assert "src=" not in answer.text
    assert "style-src 'sha256-" in answer.headers["content-security-policy"]


def test_models_that_cannot_be_served_are_refused_at_the_start(tmp_path: Path) -> None:
    good = tiny_model(tmp_path / "good")
    for models, error in (
        ([tmp_path / "none"], "no such model folder"),
        ([good, good], "there is a model good already"),
        ([f"a b={good}"], "no such model folder"),
    ):
        with pytest.raises((BadModelFolder, ConfigError), match=error), running(*models):
            pass


def test_a_server_is_not_ready_before_its_models_were_tried(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, given_up = threading.Event(), BadModelFolder("a damaged model")

    def slow_trial(served: ServedModel, max_batch: int) -> ServedModel:
        assert may_go_on.wait(30)
        raise given_up

    monkeypatch.setattr(ServedModel, "warm_up", slow_trial)
    with running(model_folder, ready=False) as client:
        server = client.app.state.server  # type: ignore[attr-defined]
        for path in ("/ready", "/v2/health/ready", "/v2/models/tagger/ready"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["detail"]) == (503, "the server is starting")
        assert client.get("/v2/health/live").status_code == 200
        may_go_on.set()
        while server.failure is None:  # which ends the process
            client.get("/ready")
        assert server.failure is given_up
        assert client.get("/ready").status_code == 503
