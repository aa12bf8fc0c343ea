"""`xmtc.models()`: a list of records that prints as a table; a package all the same, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import xmtc
from xmtc.models.registry import CATALOGUE, model_class


def test_every_method_is_listed() -> None:
    methods = xmtc.models()
    assert [method.name for method in methods] == list(CATALOGUE)
    knn = methods[1]
    assert knn._asdict() == {
        "name": "knn",
        "summary": model_class("knn").capabilities.summary,
        "input": "text or features",
        "score": "probability",
        "explains": True,
        "partial_fit": True,
        "device": "cpu",
        "extra": None,
        "installed": True,
    }
    neural = next(method for method in methods if method.name == "attentionxml")
    assert (neural.input, neural.device, neural.extra) == ("text", "cpu or gpu", "neural")


def test_it_prints_as_a_table() -> None:
    lines = repr(xmtc.models()).splitlines()
    assert lines[0].split()[:3] == ["name", "input", "scores"]
    assert len(lines) == len(CATALOGUE) + 2
    assert "<b><bdi>knn</bdi></b>" in xmtc.models()._repr_html_()


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.models.methods.missing", lambda *libraries: list(libraries))
    methods = xmtc.models()
    assert {method.name for method in methods if not method.installed} == {m.name for m in methods if m.extra}
    assert "neural (missing)" in repr(methods)


@pytest.mark.needs("pandas")
def test_as_a_frame() -> None:
    frame = xmtc.models().to_frame()
    assert list(frame.columns)[:3] == ["name", "summary", "input"]
    assert frame.set_index("name").loc["knn", "explains"]


@pytest.mark.parametrize(
    "code",
    [
        "import xmtc; xmtc.models()",
        "import xmtc.models.knn, xmtc; xmtc.models()",
        "import xmtc; xmtc.make('knn'); xmtc.models()",
        "import xmtc; xmtc.models(); xmtc.models.prior.Prior; from xmtc.models.knn import NearestNeighbours",
        "from xmtc import models; models()",
        "from xmtc import *; models()",
        "import xmtc.models as package; package(); package.registry.CATALOGUE",
        "import xmtc, importlib; importlib.reload(xmtc.models)()",
    ],
)
def test_whatever_was_imported_before(code: str) -> None:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
