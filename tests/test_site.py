"""The documentation as a site: every link leads somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOADED = re.compile(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"?(https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr  # strict: a link that leads nowhere is an error
    return folder


def test_every_page_of_docs_is_in_it(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert pages <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_links_to_recipes_lead_to_copies_of_them(site: Path) -> None:
    assert 'href="../recipes/knn/tibkat.yaml"' in (site / "reference" / "recipes.html").read_text("utf-8")
    assert (site / "recipes" / "knn" / "tibkat.yaml").read_bytes() == (ROOT / "recipes/knn/tibkat.yaml").read_bytes()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages and not [page for page in pages if LOADED.search(page.read_text("utf-8"))]


def test_the_guide_comes_before_the_rest(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    assert index.index("guide/first-model.html") < index.index("methods/linear.html") < index.index("about/security")
