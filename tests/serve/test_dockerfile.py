"""The Dockerfile as far as it can be read: `make test-image` runs its steps."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from xmtc.cli.serve import serve

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def check_image() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_image", ROOT / "tools" / "check_image.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up types
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def steps(check_image: ModuleType) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = check_image.instructions((ROOT / "Dockerfile").read_text("utf-8"))
    return found


def last(steps: list[tuple[str, str]], name: str) -> str:
    return [words for each, words in steps if each == name][-1]


def test_it_runs_as_a_user_without_rights_and_says_how_it_feels(steps: list[tuple[str, str]]) -> None:
    assert int(last(steps, "USER").split(":")[0]) > 0
    health = json.loads(last(steps, "HEALTHCHECK").partition(" CMD ")[2])
    assert "/v2/health/ready" in health[-1]
    compile(health[-1], "HEALTHCHECK", "exec")


def test_its_command_is_xmtc_serve_on_the_port_that_it_exposes(steps: list[tuple[str, str]]) -> None:
    assert json.loads(last(steps, "ENTRYPOINT")) == ["xmtc"]
    assert json.loads(last(steps, "CMD"))[0] == "serve"
    port = inspect.signature(serve).parameters["port"].default
    assert last(steps, "EXPOSE") == str(port)
    assert f":{port}/" in last(steps, "HEALTHCHECK")


def test_what_is_compiled_when_it_is_built_is_used_when_it_runs(
    check_image: ModuleType, steps: list[tuple[str, str]]
) -> None:
    warm = next(words for name, words in steps if name == "RUN" and "xmtc warm" in words)
    final = steps[max(at for at, (name, _) in enumerate(steps) if name == "FROM") :]
    build = steps[: len(steps) - len(final)]
    set_in = {
        stage: dict(re.findall(r"(\w+)=(\S+)", " ".join(words for name, words in part if name == "ENV")))
        for stage, part in (("build", build), ("final", final))
    }
    assert warm.split("--cache ")[1] == set_in["final"]["NUMBA_CACHE_DIR"]
    assert set_in["build"]["NUMBA_CPU_NAME"] == set_in["final"]["NUMBA_CPU_NAME"] == "generic"


def test_the_context_has_what_the_wheel_needs_and_nothing_that_git_ignores() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in allowed)
    assert {"src", "recipes", "pyproject.toml", "README.md", "LICENSE", "constraints.txt"} <= allowed
