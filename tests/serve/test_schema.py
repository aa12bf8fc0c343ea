"""Made-up requests over all paths: no error of the server, and every answer as /openapi.json describes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from serving import listening_server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def described(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    feedback = tmp_path_factory.mktemp("feedback") / "feedback.jsonl"
    with listening_server(model_folder, feedback=feedback) as port:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")


@pytest.mark.parametrize("mode", GenerationMode)
def test_answers_are_as_described(described: Any, mode: GenerationMode) -> None:
    for found in described.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=4 if operation.method == "post" else 1,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(operation.as_strategy(generation_mode=mode))
        def answers(case: Any) -> None:
            for name in ("model", "project_id"):
                if name in (case.path_parameters or {}):
                    case.path_parameters = {**case.path_parameters, name: "tagger"}
            case.call_and_validate(checks=CHECKS)

        with suppress(Unsatisfiable):  # nothing of such an operation can be wrong
            answers()
