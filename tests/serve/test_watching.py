"""`--watch`: new models are taken over, bad folders are not."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from serving import running, tiny_model

from xmtc.serve import watching


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SECONDS", 0.01)


def version(client: TestClient) -> str:
    found: str = client.get("/v1/models").json()["models"][0]["version"]
    return found


def metric(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)


def wait_for(client: TestClient, name: str, value: float) -> None:
    for _ in range(1000):
        if metric(client, name) >= value:
            return
        time.sleep(0.01)
    raise AssertionError(f"{name} did not reach {value}")


def test_a_new_model_in_the_folder_is_taken_over(tmp_path: Path) -> None:
    place = tiny_model(tmp_path / "tagger")
    with running(place, watch=True) as client:
        before = version(client)
        body = {"documents": ["blue sky"], "k": 1}
        assert client.post("/v1/models/tagger/predict", json=body).json()["version"] == before
        tiny_model(place, "knn", times=10)
        wait_for(client, 'xmtc_model_swaps_total{model="tagger"}', 1)
        answer = client.post("/v1/models/tagger/predict", json=body).json()
        assert answer["version"] == version(client) != before
        assert answer["score_kind"] == "probability"
        text = client.get("/metrics").text
        assert before not in text
        assert f'version="{answer["version"]}"' in text


@pytest.mark.parametrize("harm", ["manifest", "array", "empty", "features"])
def test_a_bad_folder_is_refused_and_the_old_model_stays(tmp_path: Path, harm: str) -> None:
    place, other = tiny_model(tmp_path / "tagger"), tiny_model(tmp_path / "other", times=9)
    if harm == "manifest":
        (other / "manifest.json").write_text("{")
    elif harm == "array":
        largest = max(other.glob("*.safetensors"), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[-1] ^= 255
        largest.write_bytes(content)
    elif harm == "empty":
        for file in other.glob("*.safetensors"):
            file.write_bytes(b"")
    else:
        features_model(other)
    with running(place, watch=True) as client:
        before = version(client)
        shutil.rmtree(place)
        other.rename(place)
        wait_for(client, 'xmtc_model_refused_total{model="tagger"}', 1)
        assert version(client) == before
        assert client.post("/v1/models/tagger/predict", json={"documents": ["sky"]}).status_code == 200
        assert client.get("/ready").status_code == 200
        shutil.rmtree(place)  # no folder at all is the moment before a new one
        tiny_model(place, times=11)
        wait_for(client, 'xmtc_model_swaps_total{model="tagger"}', 1)
        assert version(client) != before


def features_model(place: Path) -> None:
    import numpy as np
    from scipy.sparse import csr_array

    import xmtc
    from xmtc.corpus.corpus import Corpus
    from xmtc.corpus.labels import LabelSet

    matrix = csr_array(np.eye(6, dtype=np.float32))
    corpus = Corpus(csr_array(np.eye(6, dtype=np.float32)), LabelSet.of([*"abcdef"]), features=matrix)
    xmtc.make("dismec").fit(corpus).save(place)


def test_requests_end_on_the_version_they_came_to(tmp_path: Path) -> None:
    """What waits when a model is exchanged is answered by the one before, and says so."""
    from xmtc.serve.app import create_app
    from xmtc.serve.batching import Work
    from xmtc.serve.served_models import ServedModel
    from xmtc.serve.settings import ServeSettings

    place = tiny_model(tmp_path / "tagger")
    state = create_app(ServeSettings((str(place),))).state.server
    old = state.models["tagger"]
    new = ServedModel.load("tagger", str(tiny_model(tmp_path / "new", "knn", times=9)))

    async def ask() -> None:
        state.begin()
        tasks = [asyncio.create_task(state.queue.run(Work(served, ["blue sky"], 3))) for served in (old, new, old)]
        await asyncio.sleep(0)
        state.take_over(new)
        answers = await asyncio.gather(*tasks)
        for served, answer in zip((old, new, old), answers, strict=True):
            assert (answer.scores == served.model.predict(["blue sky"], 3).scores).all()
        state.end()

    asyncio.run(ask())
