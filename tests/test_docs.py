"""The documentation does what it says: its snippets run, its outputs are true, its links lead somewhere.

On each page the blocks `python` and `sh` are run in order, in a folder that has the files the pages speak of. A `text`
block right behind one of them is what it prints on standard output (three dots stand for anything, and a decimal may
differ in its last digit). `console` blocks are what cannot be run here: make, pip, git. Blocks with `>>>`, called
`pycon`, are left to pytest's doctest.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from fake_hub import hub_in_place
from warm_processes import ForkServer

import xmtc
from xmtc.data import demo_folder

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
RUNNABLE = ("python", "sh")
LANGUAGES = (*RUNNABLE, "text", "console", "pycon")
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its first line in the page, and what it prints if the page says so."""

    language: str
    line: int
    code: str
    output: str | None = None


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    fence: tuple[str, int] | None = None
    inside: list[str] = []
    may_be_output = False  # nothing but blank lines since the last block
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("```") and fence is None:
            fence, inside = (line.removeprefix("```").strip(), number + 1), []
        elif line.startswith("```") and fence is not None:
            block = Block(*fence, "\n".join(inside) + "\n")
            if block.language == "text" and may_be_output and found[-1].language in RUNNABLE:
                found[-1] = Block(found[-1].language, found[-1].line, found[-1].code, block.code)
            else:
                found.append(block)
            fence, may_be_output = None, True
        elif fence is not None:
            inside.append(line)
        elif line.strip():
            may_be_output = False
    assert fence is None, f"{page.name}: a block is not closed"
    return found


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def make_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages speak of, made of the demo corpus."""
    folder = tmp_path_factory.mktemp("docs")
    corpus = xmtc.read(demo_folder())
    xmtc.write(corpus, folder / "docs.csv")
    xmtc.write(corpus, folder / "docs.jsonl.gz")
    shutil.copy(demo_folder() / "labels.tsv", folder)
    (folder / "new.txt").write_text("A mail server with spam filtering.\nA viewer of PNG images.\n")
    return folder


@pytest.fixture(scope="module")
def commands(fork_server: Callable[..., ForkServer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the shell to look in, with an `xmtc` that need not import everything each time."""
    folder = tmp_path_factory.mktemp("bin")
    fork_server("numba", "lightning.fabric").command(BIN / "xmtc", folder / "xmtc")
    return folder


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Hub and a tracking folder of MLflow on this machine."""
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "true")
    with hub_in_place(tmp_path / "hub", monkeypatch):
        yield
    if "mlflow" in sys.modules:
        sys.modules["mlflow"].set_tracking_uri(None)


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # of huggingface_hub, for large files
@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_blocks_run_and_print_what_the_page_says(
    page: Path,
    files: Path,
    commands: Path,
    make_docs: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page.name == "integrations.md":
        request.getfixturevalue("services")
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(commands), str(BIN), os.environ["PATH"]]))
    # A module of its own, known by its name: pydantic looks up the types of a class there.
    namespace = ModuleType("documented")
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    for block in blocks_of(page):
        if block.language not in RUNNABLE:
            continue
        where = f"{page_name(page)}:{block.line}"
        printed = run_python(block, where, namespace) if block.language == "python" else run_shell(block, where)
        if block.output is not None:
            assert make_docs.alike(block.output, printed), f"{where} prints\n{printed}\nnot\n{block.output}"


def test_the_first_lines_of_the_readme_need_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = next(block for block in blocks_of(ROOT / "README.md") if block.language == "python")
    assert "tagger" in first.code
    run_python(first, "README.md", ModuleType("pasted"))
    assert [path.name for path in tmp_path.iterdir()] == ["tagger"]


def test_table_beside_other_programs_says_what_failed_and_what_is_doubtful(make_docs: ModuleType) -> None:
    facts = {"ours": False, "date": "2026-11-16", "busy": True}
    row = {"title": "omikuji", **facts, "P@1": 50.0, "P@3": 40.0, "P@5": 30.25, "nDCG@5": 45.0, "PSP@5": 20.0}
    costs = {"train s": 75.0, "batch ms": 0.5, "peak MB": 120.0}
    cells = ("toy", "omikuji", "50.00 / 40.00 / 30.25", "45.00", "20.00", "1:15*")
    assert make_docs.program("toy", {**row, **costs}) == cells
    assert make_docs.program("toy", {**row, **costs}, costs=True) == (*cells, "0.50*", "–", "–", "120 MB", "–")
    failed = {"title": "`auto`", "budget": "5m", "problem": "could not be installed", **facts}
    assert make_docs.program("toy", failed) == ("toy", "`auto`, 5m", "could not be installed", "–", "–", "–")
    found = {"about": {"machine": "2 cores", "numpy": "2.4.6"}, "corpora": {"toy": {"a": row, "b": failed}}}
    assert make_docs.measured_when(found).startswith("`make bench`, 2026-11-16: 2 cores; numpy 2.4.6. * ")


def run_python(block: Block, where: str, namespace: ModuleType) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block.code, where, "exec", dont_inherit=True), vars(namespace))
    return out.getvalue()


def run_shell(block: Block, where: str) -> str:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    environment.pop("FORCE_COLOR", None)
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"{where} ends with {run.returncode}\n{run.stdout}\n{run.stderr}"
    return run.stdout


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    for block in blocks_of(page):
        where = f"{page_name(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language!r} would not be run"
        # Else it would be run both by pytest's doctest and here.
        assert (">>>" in block.code) == (block.language == "pycon"), where
        if block.language in RUNNABLE:
            assert not re.search(r"^\s*(make|pip|git|apt|curl|wget)\s", block.code, re.MULTILINE), where
            assert len(block.code) > 1, where


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set()
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = page.read_text("utf-8")
        named |= {(page_name(page), target) for target in re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)}
    assert {"demo", "test", "bench", "docs"} <= {target for _, target in named}
    assert {(page, target) for page, target in named if target not in targets} == set()


def test_generated_parts_are_up_to_date(
    make_docs: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_docs.py", "--check"])
    assert make_docs.main() == 0, capsys.readouterr().err
    assert "docs/reference/models.md: up to date" in capsys.readouterr().out


def test_an_old_page_is_noticed_and_mended(
    make_docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("README.md", "docs", "recipes", "examples"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)
    page = tmp_path / "docs" / "reference" / "models.md"
    good = page.read_text("utf-8")
    page.write_text(good.replace("| `knn` | votes", "| `knn` | VOTES"), "utf-8")
    monkeypatch.setattr(sys, "argv", ["make_docs.py", "--check"])
    assert make_docs.main() == 1
    monkeypatch.setattr(sys, "argv", ["make_docs.py"])
    assert make_docs.main() == 0
    assert page.read_text("utf-8") == good


def test_the_doctests_of_make_docs(make_docs: ModuleType) -> None:
    result = doctest.testmod(make_docs)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page_name(page)}: {target}"
        assert file.is_relative_to(ROOT.resolve()), f"{page_name(page)}: {target} leaves the repository"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{page_name(page)}: {target}"


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "index.md"
    linked = set(re.findall(r"\]\(([^)#\s]+)", index.read_text("utf-8")))
    others = {page.relative_to(DOCS).as_posix() for page in PAGES[1:] if page != index}
    assert others - linked == set()


@pytest.mark.parametrize(
    "path",
    [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *EXAMPLES, *sorted((ROOT / "recipes").glob("*/*.yaml"))],
    ids=page_name,
)
def test_nothing_of_one_machine(path: Path) -> None:
    text = path.read_text("utf-8")
    assert re.findall(r"(?<![\w.$}])/(?:work|home|root|tmp|Users|mnt|opt|srv|var|data)\b[^\s)]*", text) == []
    assert not re.search(r"pypi|anaconda|conda-forge|localhost|127\.0\.0\.1", text, re.IGNORECASE)


def test_the_picture_is_small() -> None:
    picture = (DOCS / "images" / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) < 200_000


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("tag_documents.py", ["docs.csv"], ["A fast mail server", "Email", "P@5"]),
        ("tag_documents.py", [], ["A fast mail server", "Email", "P@5"]),
        ("compare_two_models.py", [], ["knn minus prior", "nDCG@5: +29", "PSP@5: +25", "p = 0.0002"]),
    ],
)
def test_examples_run(
    script: str,
    arguments: list[str],
    expected: list[str],
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    out = capsys.readouterr().out
    for words in expected:
        assert words in out


def test_the_example_model_passes_the_contract(tmp_path: Path) -> None:
    """The whole suite, in a process in which (and in whose children) the catalogue has the example's line."""
    (tmp_path / "sitecustomize.py").write_text(
        "from xmtc.models.registry import CATALOGUE\nCATALOGUE['centroid'] = 'centroid_model:Centroid'\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "examples")])
    # Golden hashes are kept for the models of the catalogue only.
    suite = ["tests/contract", "--ignore=tests/contract/test_golden.py", "-k", "centroid"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *suite, "-p", "no:cacheprovider", "-v"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-1000:]
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed[1]) > 40
