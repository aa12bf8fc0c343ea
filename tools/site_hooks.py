"""Hooks of mkdocs: what the pages link to outside of docs/ becomes part of the site.

The pages are written to be read in the repository too, so a link such as `../../recipes/knn/tibkat.yaml` is right
there. Here it leads to a copy; a link to a folder of recipes leads to the table of recipes.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
COPIED = ("recipes/**/*.yaml", "examples/*.py", "examples/*.ipynb")
RECIPES = "reference/recipes.md"  # lists every folder of recipes
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add what lies beside docs/: pages under their name, recipes and examples as they are."""
    for name in PAGES:
        files.append(File.generated(config, f"about/{name.lower()}", content=(ROOT / name).read_text("utf-8")))
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), content=path.read_bytes()))
    return files


def on_nav(nav: Navigation, **_: Any) -> Navigation:
    """Pages in the order in which docs/index.md speaks of them."""
    order = [link["path"] for link in LINK.finditer((DOCS / "index.md").read_text("utf-8"))]

    def place(item: Any) -> int:
        if isinstance(item, Section):
            return min(map(place, item.children))
        uri = item.file.src_uri
        return -1 if uri == "index.md" else order.index(uri) if uri in order else len(order)

    for items in (nav.items, *(item.children for item in nav.items if isinstance(item, Section))):
        items.sort(key=place)
    return nav


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links out of docs/ to their copies, and links of the added pages back into docs/."""
    uri = page.file.src_uri
    added = next((name for name in PAGES if uri == f"about/{name.lower()}"), None)
    folder = ROOT if added else (DOCS / uri).parent

    def led(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        place = _in_site(target)
        if place is None:
            return link[0]  # mkdocs says so if it leads nowhere
        return f"]({os.path.relpath(place, Path(uri).parent)}{link['anchor'] or ''})"

    return LINK.sub(led, markdown)


def _in_site(target: Path) -> Path | None:
    """Where a file of the repository is in the site; None if it is not in it."""
    if target.is_relative_to(DOCS):
        return target.relative_to(DOCS)
    if not target.is_relative_to(ROOT) or not target.exists():
        return None
    path = target.relative_to(ROOT)
    if path.as_posix() in PAGES:
        return Path("about") / path.name.lower()
    if target.is_dir() and path.parts[0] == "recipes":
        return Path(RECIPES)
    return path
