"""`xmtc update`: further documents, new labels; what is wrong is one line, and the model stays as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.models.registry import load

Run = Callable[..., tuple[int, str, str]]

TRAIN = b"subject,tags\na ship,sea\na sail,sea\nthe oven,kitchen\nbread dough,kitchen\nrain cloud,sky\n"
FILES = {
    "train.csv": TRAIN,
    "more.csv": b"subject,tags\nkiwi mango,fruit\nmango lime,fruit\n",
    "named/train.jsonl": b'{"text": "granite", "labels": ["r"]}\n',
    "named/labels.tsv": b"label\tname\tparent\nr\tRocks\tn\nn\tNature\t\n",
    "fields.csv": b"text,labels\nkiwi,fruit\n",
    "empty.csv": b"",
    "header.csv": b"subject,tags\n",
    "unlabelled.csv": b"subject,tags\nkiwi,\n",
    "broken.jsonl": b'{"subject": "a", "tags": ["x"]}\n{"subject": \n',
    "binary.csv": bytes(range(256)) * 10,
    "latin.csv": b"subject,tags\nM\xfcsli,food\n",
    "features.txt": b"1 2 3\n0 1:0.5\n",
    "what.docx": b"just words\n",
    "ragged.csv": b"subject,tags\na,b,c,d\n",
    "notags.jsonl": b'{"subject": "a"}\n',
    "number.jsonl": b'{"subject": 7, "tags": ["x"]}\n',
    "labels.jsonl": b'{"subject": "a", "tags": {"x": 1}}\n',
    "nosubject.jsonl": b'{"title": "a", "tags": ["x"]}\n',
    "list.json": b"[1, 2]",
    "things/notes.txt": b"mine\n",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("update")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    fields = ["--text-field", "subject", "--labels-field", "tags"]
    for name in ("knn", "dismec", "prior", "rocchio"):
        assert main(["train", str(folder / "train.csv"), "--model", name, "--out", str(folder / name), *fields]) == 0
    damaged = shutil.copytree(folder / "prior", folder / "damaged")
    (damaged / "labels.safetensors").write_bytes(b"x" * (damaged / "labels.safetensors").stat().st_size)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a copy of the folder of models and files: (exit code, standard output, standard error)."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    capsys.readouterr()

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.mark.parametrize("model", ["knn", "dismec"])
def test_a_model_learns_a_new_label_in_its_place(run: Run, model: str) -> None:
    code, out, err = run("update", model, "more.csv")
    assert (code, out) == (0, f"{model}\n")
    assert "read as the model's training documents were: --text-field subject --labels-field tags" in err
    assert f"{model} updated in" in err
    assert "with 2 documents, 1 new label; saved to" in err
    top = load(model).predict(["mango", "sail", "rain"], k=1).names()
    assert [row[0][0] for row in top] == ["fruit", "sea", "sky"]
    info = run("info", model)[1]
    assert "1 time, last on 20" in info
    assert "with 2 documents and 1 new label (more.csv)" in info
    assert "sketch" not in info
    assert not list(Path().glob(".*")), "nothing is left beside the models"


def test_the_folder_stays_as_it_was_with_out(run: Run) -> None:
    before = contents("knn")
    assert run("update", "knn", "more.csv", "--out", "new/place")[:2] == (0, "new/place\n")
    assert contents("knn") == before
    assert load("new/place").train_documents_ == 7
    code, _, err = run("update", "knn", "more.csv", "--out", "prior")
    assert code == 0
    assert "prior: there is a model, which is replaced" in err


def test_an_updated_model_can_be_updated_again_and_counts(run: Run) -> None:
    run("update", "prior", "more.csv")
    _, _, err = run("update", "prior", "more.csv")
    assert "more.csv: 100 % of these documents were in training already, and now count twice" in err
    assert "2 times, last on" in run("info", "prior")[1]
    facts = json.loads(Path("prior/manifest.json").read_text())["training"]
    assert (facts["documents"], facts["labels"]) == (9, 4)


def test_names_of_new_labels_come_along(run: Run) -> None:
    assert run("update", "knn", "named", "--text-field", "text", "--labels-field", "labels")[0] == 0
    assert load("knn").predict(["granite"], k=1).names()[0][0][0] == "Rocks"


def test_evaluating_on_the_documents_of_an_update_is_said(run: Run) -> None:
    run("update", "knn", "more.csv")
    code, _, err = run("evaluate", "knn", "more.csv")
    assert code == 0
    assert "warning: more.csv: 100 % of these documents were in training: the figures are too good" in err
    Path("fresh.csv").write_bytes(b"subject,tags\nlime kiwi,fruit\nthe sail,sea\n")
    assert "were in training" not in run("evaluate", "knn", "fresh.csv")[2]


def test_calibration_from_before_is_said(run: Run) -> None:
    Path("valid.csv").write_bytes(b"subject,tags\nthe ship,sea\nan oven,kitchen\nrain rain,sky\nthe sail,sea\n")
    fields = ["--text-field", "subject", "--labels-field", "tags", "--valid", "valid.csv", "--calibrate", "platt"]
    assert run("train", "train.csv", "--model", "knn", "--out", "tagger", "--tune", *fields)[0] == 0
    assert "before the last update" not in run("info", "tagger")[1]
    code, _, err = run("update", "tagger", "more.csv")
    assert code == 0
    assert "from before the update, and best made anew after many documents: calibration, thresholds" in err
    said = run("info", "tagger")[1]
    assert "calibrated, but before the last update" in said
    assert "tuned, but before the last update" in said
    assert "before_update" not in said
    assert "P@1" not in said, "figures of the model before are gone"


BAD: dict[str, tuple[Sequence[str], str]] = {
    "no arguments": ([], "Missing argument"),
    "no corpus": (["knn"], "Missing argument"),
    "no such model": (["nosuch", "more.csv"], "nosuch: no such model folder"),
    "a file as model": (["more.csv", "more.csv"], "more.csv: is a file, not a model folder"),
    "an empty name": (["", "more.csv"], "no model folder is named"),
    "a folder of other things": (["things", "more.csv"], "no manifest.json"),
    "a damaged model": (["damaged", "more.csv"], "labels.safetensors: altered"),
    "a method that cannot": (["rocchio", "more.csv"], "rocchio cannot learn from further documents; train it again"),
    "which can": (["rocchio", "more.csv"], "or take one of prior, knn, dismec"),
    "no such corpus": (["knn", "none.csv"], "none.csv: no such file"),
    "empty file": (["knn", "empty.csv"], "empty.csv: "),
    "only a header": (["knn", "header.csv"], "header.csv"),
    "no labels": (["knn", "unlabelled.csv"], "unlabelled.csv: no document has a label"),
    "other fields": (["knn", "fields.csv"], "fields.csv:1: no column 'subject'"),
    "a wrong field": (["knn", "more.csv", "--text-field", "titel"], "more.csv:1: no column 'titel'"),
    "broken line": (["knn", "broken.jsonl"], "broken.jsonl:2: not JSON"),
    "binary": (["knn", "binary.csv"], "binary.csv:1: this is a binary file"),
    "not UTF-8": (["knn", "latin.csv"], "latin.csv:2: "),
    "features for texts": (["dismec", "features.txt"], "was trained on texts, which"),
    "features for knn": (["knn", "features.txt"], "was trained on texts, which"),
    "unknown format": (["knn", "what.docx"], "what.docx:1: unknown format"),
    "ragged row": (["knn", "ragged.csv"], "ragged.csv:2: "),
    "a record without labels": (["knn", "notags.jsonl"], "notags.jsonl:1: "),
    "a number as text": (["knn", "number.jsonl"], "number.jsonl:1: "),
    "an object as labels": (["knn", "labels.jsonl"], "labels.jsonl:1: "),
    "a record without text": (["knn", "nosubject.jsonl"], "nosubject.jsonl:1: "),
    "numbers as records": (["knn", "list.json"], "list.json"),
    "a folder without train": (["knn", "things"], "things"),
    "an empty out": (["knn", "more.csv", "--out", ""], "no name for a folder"),
    "out is a file": (["knn", "more.csv", "--out", "train.csv"], "train.csv: there is a file of this name"),
    "out holds other things": (["knn", "more.csv", "--out", "things"], "things: a folder with other things in it"),
    "out is here": (["knn", "more.csv", "--out", "."], "the current folder"),
    "unknown option": (["knn", "more.csv", "--model", "knn"], "No such option"),
    "format that is none": (["knn", "more.csv", "--format", "docx"], "unknown format 'docx'"),
    "missing label set": (["knn", "more.csv", "--label-set", "no.tsv"], "no.tsv"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_one_line_and_the_model_stays(run: Run, case: str) -> None:
    words, sentence = BAD[case]
    before = contents(".")
    code, out, err = run("update", *words)
    assert code == 2
    assert not out
    assert sentence in err
    assert "Traceback" not in err
    assert sum(line.startswith("error: ") for line in err.splitlines()) == 1
    assert contents(".") == before


def contents(folder: str) -> dict[str, str]:
    files = (file for file in sorted(Path(folder).rglob("*")) if file.is_file())
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in files}
