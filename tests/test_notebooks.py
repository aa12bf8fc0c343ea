"""The notebooks in examples/ run from the first cell to the last, offline, and hold no outputs of one machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
EXPECTED = {
    "first_model.ipynb": [
        "fitted on packages: 2,916 documents",
        "nDCG@5",
        "Email",
        "training document bmf",
        "thresholds.safetensors",
    ],
    "compare_methods.ipynb": ["parabel", "macro-F1", "p = 0.", "threshold", "<Figure size"],
}


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


@pytest.mark.needs("nbclient", "pandas")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat
    from nbclient import NotebookClient

    for folder in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder.lower()))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    said = "\n".join(str(output.get("text") or output["data"]["text/plain"]) for output in outputs)
    for words in EXPECTED[path.name]:
        assert words in said
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any('class="xmtc"' in page for page in pages)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_holds_code_only(path: Path) -> None:
    code = [cell for cell in cells(path) if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    text = path.read_text("utf-8")
    assert not re.search(r"https?://|(?<![\w.$}])/(?:work|home|root|tmp|Users)\b", text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_its_links_lead_somewhere(path: Path) -> None:
    text = "".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        assert (path.parent / target).exists(), target


def test_there_are_some() -> None:
    assert {path.name for path in NOTEBOOKS} == set(EXPECTED)
