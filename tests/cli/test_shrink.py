"""`xmtc shrink`: a smaller folder that loads like any other; what is wrong is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.models.registry import load

Run = Callable[..., tuple[int, str, str]]
WORDS = {"sea": "ship sail wave captain", "kitchen": "oven bread dough flour", "sky": "cloud rain wind storm"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shrink")
    for name, turns in (("train", range(12)), ("valid", range(12, 20))):
        lines = ["subject,tags"]
        for at in turns:
            for tag, words in WORDS.items():
                own = words.split()
                lines.append(f"{own[at % 4]} {own[(at + 1) % 4]} filler{at} noise{at * 7 % 5},{tag}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (folder / "unlabelled.csv").write_text("subject,tags\nship,\n")
    (folder / "things").mkdir()
    (folder / "things" / "notes.txt").write_text("mine")
    fields = ["--text-field", "subject", "--labels-field", "tags"]
    for name in ("dismec", "knn", "prior"):
        assert main(["train", str(folder / "train.csv"), "--model", name, "--out", str(folder / name), *fields]) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in a copy of the folder of models and files: (exit code, standard output, standard error)."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["shrink", *words])
        return code, *capsys.readouterr()

    return call


def test_a_loss(run: Run) -> None:
    code, out, err = run("dismec", "--out", "small", "--valid", "valid.csv", "--loss", "0.2")
    assert code == 0, err
    assert "weights" in out and "→" in out and "quality on 24 documents" in out
    assert "read as the model's training documents were: --text-field subject" in err
    assert "MB instead of" in err.splitlines()[-1] and out.endswith("\nsmall\n")
    assert load("small").predict(["ship sail"], 1).names()[0][0][0] == "sea"
    assert load("small").training_["shrunk"]["documents"] == 24


def test_a_folder_s_dev_documents(run: Run) -> None:
    for folder, parts in (("both", ("dev", "test")), ("one", ("test",))):
        Path(folder).mkdir()
        for part in parts:
            lines = Path("valid.csv").read_text().splitlines(keepends=True)
            (Path(folder) / f"{part}.csv").write_text("".join(lines if part == "dev" else lines[:7]))
    assert "quality on 24 documents" in run("dismec", "--out", "small", "--valid", "both")[1]
    assert "quality on 6 documents" in run("dismec", "--out", "smaller", "--valid", "one")[1]


def test_a_size_without_documents(run: Run) -> None:
    code, out, err = run("dismec", "--out", "small", "--mb", "5")
    assert code == 0, err
    assert "quality was not measured" in out
    assert "float32, 100.0% of the weights" in err


def test_figures_and_page(run: Run) -> None:
    code, out, err = run("dismec", "--out", "small", "--valid", "valid.csv", "--json", "-", "--html", "size.html")
    assert code == 0, err
    figures = json.loads(out)
    assert figures["documents"] == 24 and figures["trials"][0]["weights"] == "float32"
    page = Path("size.html").read_text()
    assert "<svg" in page and "Quality against size" in page and "<strong>" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_page_without_documents_has_no_plot(run: Run) -> None:
    assert run("dismec", "--out", "small", "--mb", "5", "--html", "size.html")[0] == 0
    assert "<svg" not in Path("size.html").read_text()


def test_info_says_what_was_done(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("dismec", "--out", "small", "--valid", "valid.csv", "--loss", "5")
    assert main(["info", "small"]) == 0
    assert "training shrunk" in capsys.readouterr().out


WRONG = {
    "no limits": (["dismec", "--out", "small"], "a loss can only be measured on documents"),
    "a loss without documents": (["dismec", "--out", "small", "--loss", "1"], "a loss can only be measured"),
    "a negative size": (["dismec", "--out", "small", "--mb", "-3"], "mb = -3.0: expected a number of megabytes"),
    "a size out of reach": (["dismec", "--out", "small", "--mb", "0.0001"], "cannot be reached: the smallest folder"),
    "the model itself": (["dismec", "--out", "dismec", "--mb", "5"], "--out dismec: this is the model itself"),
    "by another name": (["dismec", "--out", "things/../dismec", "--mb", "5"], "this is the model itself"),
    "another model": (["dismec", "--out", "knn", "--mb", "5"], "knn: there is a model already"),
    "other things": (["dismec", "--out", "things", "--mb", "5"], "a folder with other things in it"),
    "knn": (["knn", "--out", "small", "--mb", "5"], "knn has no weights that could be pruned or rounded; these"),
    "prior": (["prior", "--out", "small", "--mb", "5"], "prior has no weights that could be pruned or rounded"),
    "no model": (["train.csv", "--out", "small", "--mb", "5"], "is a file, not a model folder"),
    "no documents": (["dismec", "--out", "small", "--valid", "nowhere.csv"], "nowhere.csv"),
    "no labels": (["dismec", "--out", "small", "--valid", "unlabelled.csv"], "no document has a label"),
    "page over the documents": (
        ["dismec", "--out", "small", "--valid", "valid.csv", "--html", "valid.csv"],
        "valid.csv",
    ),
    "no number": (["dismec", "--out", "small", "--mb", "fifty"], "Invalid value for '--mb'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_one_line(run: Run, what: str) -> None:
    words, message = WRONG[what]
    before = sorted(path.name for path in Path().iterdir())
    code, out, err = run(*words)
    assert code == 2
    assert message in err.splitlines()[-1]
    assert out == ""
    assert sorted(path.name for path in Path().iterdir() if not path.name.endswith(".lock")) == before
