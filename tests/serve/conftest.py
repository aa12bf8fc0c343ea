"""A tiny model in a folder, and a server of it for tests that change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from serving import running, tiny_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("served") / "tagger", tuned=True)


@pytest.fixture(scope="module")
def client(model_folder: Path) -> Iterator[TestClient]:
    with running(model_folder) as found:
        yield found
