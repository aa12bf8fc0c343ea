"""A user's error is one clear line on standard error and exit code 2, and nothing is written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.data import demo_folder
from xmtc.errors import XmtcError

DEMO = str(demo_folder())
FILES = {
    "broken.jsonl": b'{"text": "a ship", "labels": ["x"]}\n{"text": \n',
    "nolabels.csv": b"text,tags\na,b\n",
    "unlabelled.jsonl": b'{"text": "a", "labels": []}\n',
    "empty.jsonl": b"",
    "binary.jsonl": bytes(range(256)) * 10,
    "delimiter.csv": b"text^labels\na^b\n",
    "feature.txt": b"1 2 3\n0 1:x\n",
    "negative.txt": b"0 -1:2\n",
    "twice.txt": b"0 1:2 1:3\n",
    "nan.txt": b"0 1:nan\n",
    "what.docx": b"just words\n",
    "orphan/labels.tsv": b"label\tparent\na\tnobody\n",
    "orphan/train.jsonl": b'{"text": "a", "labels": ["a"]}\n',
    "recipe.yaml": b"model: knn\nset: [1\n",
    "odd.yaml": b"- knn\n",
    "sweep.yaml": b"model: knn\ngrid:\n  power: [1.0, 2.0]\n",
    "bad-sweep.yaml": b"model: knn\ngrid:\n  neighbours: [5, 0]\n",
    "no-list.yaml": b"model: knn\ngrid:\n  power: 2.0\n",
    "no-grid.yaml": b"model: knn\ngrid: [1, 2]\n",
    "nobody.yaml": b"grid:\n  power: [1.0]\n",
    "features.jsonl": b'{"features": {"3": 1}, "labels": ["x"]}\n',
    "good.jsonl": b'{"text": "a ship", "labels": ["x"]}\n{"text": "a boat", "labels": ["y"]}\n',
    "more.jsonl": b'{"text": "a ship", "labels": ["x"]}\n{"text": "a raft", "labels": ["y"]}\n',
    "labels.txt": b"x\ny\n",
    "unknown.txt": b"x\nw\n",
    "empty.json": b"[]",
    "numbers.json": b"[1, 2]",
    "twice.tsv": b"<http://e/a>\tA\n<http://e/a>\tB\n",
    "names.csv": b"uri,label_en\nx,Ships\n",
}
OUT = ["--out", "out"]
TRAIN = ["--model", "knn", *OUT]
CASES: dict[str, tuple[Sequence[str], str]] = {
    "broken line": (["train", "broken.jsonl", *TRAIN], "broken.jsonl:2: not JSON"),
    "missing label column": (["train", "nolabels.csv", *TRAIN], "nolabels.csv:1: no column 'labels'"),
    "no labels at all": (["train", "unlabelled.jsonl", *TRAIN], "unlabelled.jsonl: no document has a label"),
    "empty file": (["train", "empty.jsonl", *TRAIN], "empty.jsonl: "),
    "binary file": (["train", "binary.jsonl", *TRAIN], "binary.jsonl:1: this is a binary file"),
    "wrong delimiter": (["train", "delimiter.csv", *TRAIN], "delimiter.csv:1: a wrong delimiter?"),
    "parent does not exist": (["train", "orphan", *TRAIN], "orphan/labels.tsv:2: "),
    "non-numeric feature": (["train", "feature.txt", *TRAIN], "feature.txt:2: feature '1' has the value 'x'"),
    "negative feature": (["train", "negative.txt", *TRAIN], "negative.txt:1: "),
    "duplicate feature": (["train", "twice.txt", *TRAIN], "twice.txt:1: "),
    "NaN weight": (["train", "nan.txt", *TRAIN], "nan.txt:1: "),
    "unknown format": (["train", "what.docx", *TRAIN], "what.docx:1: unknown format"),
    "format that is none": (["train", "good.jsonl", *TRAIN, "--format", "docx"], "unknown format 'docx'"),
    "no such file": (["train", "nothing.jsonl", *TRAIN], "nothing.jsonl: no such file"),
    "unknown model": (["train", "good.jsonl", "--model", "knm", "--out", "out"], "did you mean 'knn'?"),
    "unknown setting": (["train", "good.jsonl", *TRAIN, "--set", "neighbors=3"], "did you mean 'neighbours'?"),
    "bad setting": (["train", "good.jsonl", *TRAIN, "--set", "neighbours=many"], "neighbours='many'"),
    "setting without value": (["train", "good.jsonl", *TRAIN, "--set", "neighbours"], "key=value was expected"),
    "setting not YAML": (["train", "good.jsonl", *TRAIN, "--set", "neighbours=[1"], "not YAML"),
    "setting of a value": (["train", "good.jsonl", *TRAIN, "--set", "power=1", "--set", "power.x=1"], "not a group"),
    "broken recipe": (["train", "good.jsonl", "--recipe", "recipe.yaml", "--out", "out"], "recipe.yaml:3: not YAML"),
    "odd recipe": (["train", "good.jsonl", "--recipe", "odd.yaml", "--out", "out"], "odd.yaml: a recipe has"),
    "missing recipe": (["train", "good.jsonl", "--recipe", "no.yaml", "--out", "out"], "no.yaml: no such recipe"),
    "impossible split": (["train", "good.jsonl", *TRAIN, "--valid", "0.99"], "good.jsonl"),
    "out is other things": (["train", "good.jsonl", "--model", "knn", "--out", "orphan"], "other things in it"),
    "no such model": (["predict", "nowhere", "good.jsonl"], "nowhere: no such model folder"),
    "not a model": (["evaluate", "orphan", "good.jsonl"], "not an xmtc model folder"),
    "odd k": (["evaluate", "orphan", "good.jsonl", "--k", "1,x"], "whole numbers above 0"),
    "odd part": (["convert", "good.jsonl", "x.csv", "--part", "dev"], "train or test was expected"),
    "odd split": (
        ["convert", "good.jsonl", "x", "--test", "0.5", "--split", "magic"],
        "random, stratified, blocks or key:FIELD",
    ),
    "unknown key field": (["convert", "good.jsonl", "x", "--test", "0.5", "--split", "key:author"], "'author'"),
    "unknown suffix": (["convert", "good.jsonl", "x.docx"], "the suffix says no format"),
    "model that is none": (["models", "svm"], "no model 'svm'"),
    "NaN threshold": (["evaluate", "model", "good.jsonl", "--threshold", "nan"], "not a number"),
    "odd threshold": (["predict", "model", "good.jsonl", "--threshold", "high"], "--threshold high: not a number"),
    "not tuned": (["predict", "model", "good.jsonl", "--threshold", "tuned"], "no thresholds; train it with"),
    "not tuned either": (["evaluate", "model", "good.jsonl", "--threshold", "tuned"], "no thresholds; train it with"),
    "calibrated by nothing": (["train", "good.jsonl", *TRAIN, "--calibrate", "platt"], "--calibrate needs documents"),
    "tuned by nothing": (["train", "good.jsonl", *TRAIN, "--tune"], "--tune needs documents"),
    "unknown calibration": (["train", "good.jsonl", *TRAIN, "--valid", "1", "--calibrate", "magic"], "'magic'"),
    "k that is no digit": (["evaluate", "model", "good.jsonl", "--k", "²"], "whole numbers above 0"),
    "k beyond all numbers": (["evaluate", "model", "good.jsonl", "--k", "9" * 30], "at most 2,147,483,647"),
    "k of 0": (["predict", "model", "good.jsonl", "--k", "0"], "'--k'"),
    "report in no folder": (["evaluate", "model", "good.jsonl", "--html", "no/x.html"], "its folder does not exist"),
    "csv in no folder": (
        ["evaluate", "model", "good.jsonl", "--json", "m.json", "--per-label", "no/x.csv"],
        "its folder does not exist",
    ),
    "out is a folder": (["predict", "model", "good.jsonl", "--out", "orphan"], "orphan: is a folder"),
    "json is a folder": (["info", "good.jsonl", "--json", "orphan"], "orphan: is a folder"),
    "out is nothing": (["predict", "model", "good.jsonl", "--out", ""], "'': is a folder"),
    "corpus is nothing": (["train", "", *TRAIN], "'': no file is named"),
    "model is nothing": (["predict", "", "good.jsonl"], "'': no model folder is named"),
    "model to nothing": (["train", "good.jsonl", "--model", "knn", "--out", ""], "no name for a folder"),
    "model to here": (["train", "good.jsonl", "--model", "knn", "--out", "."], "name a folder in it"),
    "model to a file": (["train", "good.jsonl", "--model", "knn", "--out", "good.jsonl/x"], "no folder that you may"),
    "negative seed": (["train", "good.jsonl", *TRAIN, "--seed", "-1"], "'--seed'"),
    "negative seed set": (["train", "good.jsonl", *TRAIN, "--set", "seed=-1"], "seed=-1"),
    "negative seed of a split": (["convert", "good.jsonl", "x", "--test", "0.5", "--seed", "-1"], "'--seed'"),
    "n-grams without end": (["train", "good.jsonl", *TRAIN, "--set", "tfidf.ngrams=[1,10000]"], "tfidf.ngrams.1=10000"),
    "recipe is a folder": (["train", "good.jsonl", "--recipe", "orphan", "--out", "out"], "orphan: cannot be read"),
    "features for texts": (["predict", "model", "features.jsonl"], "was trained on texts"),
    **{
        f"valid {size}": (["train", "good.jsonl", *TRAIN, "--valid", size], f"--valid {size}: a share between 0 and 1")
        for size in ("0", "1.0", "1.5", "-1", "nan", "inf", "1e400")
    },
    **{
        f"test {size}": (["convert", "good.jsonl", "x", "--test", size], f"--test {size}: a share between 0 and 1")
        for size in ("0", "2.7", "inf")
    },
    "all of it for validation": (["train", "good.jsonl", *TRAIN, "--valid", "2"], "from 1 to 1"),
    "budget for another model": (
        ["train", "good.jsonl", *TRAIN, "--budget", "5m"],
        "knn has no hyper-parameter 'budget'",
    ),
    "no duration": (["train", "good.jsonl", "--model", "auto", "--out", "out", "--budget", "soon"], "is no duration"),
    "a sweep for one model": (["train", "good.jsonl", "--recipe", "sweep.yaml", *OUT], "xmtc compare takes it"),
    "nothing to compare": (["compare", "good.jsonl", "--out", "out"], "nothing to compare"),
    "compare an unknown model": (["compare", "good.jsonl", "--models", "knm", "--out", "out"], "did you mean 'knn'?"),
    "compare twice": (["compare", "good.jsonl", "--models", "knn,knn", "--out", "out"], "in the table twice"),
    "set of no model": (
        ["compare", "good.jsonl", "--models", "knn", *OUT, "--set", "power=2"],
        "MODEL.key=value was expected",
    ),
    "set of a model that is not there": (
        ["compare", "good.jsonl", "--models", "knn", *OUT, "--set", "bonsai.trees=2"],
        "one of the models knn",
    ),
    "compare an impossible setting": (
        ["compare", "good.jsonl", "--models", "knn", *OUT, "--set", "knn.neighbours=0"],
        "neighbours=0",
    ),
    "an impossible point": (["compare", "good.jsonl", "--recipe", "bad-sweep.yaml", *OUT], "neighbours=0"),
    "a grid without a list": (["compare", "good.jsonl", "--recipe", "no-list.yaml", *OUT], "no list of values"),
    "a grid that is none": (["compare", "good.jsonl", "--recipe", "no-grid.yaml", *OUT], "`grid:` has a list"),
    "a sweep of no model": (["compare", "good.jsonl", "--recipe", "nobody.yaml", *OUT], "needs `model: NAME`"),
    "compare a pipe": (["compare", "-", "--models", "knn", "--out", "out"], "give a file or a folder instead of -"),
    "compare nothing to test": (
        ["compare", "good.jsonl", "--models", "knn", "--out", "out", "--test", "2.5"],
        "--test 2.5: a share",
    ),
    **{
        f"{command} over {file} of a model": ([*words, f"model/{file}"], f"model/{file}: is part of a model")
        for command, words, file in (
            ("predict", ["predict", "model", "good.jsonl", "--out"], "manifest.json"),
            ("predict a table", ["predict", "model", "good.jsonl", "--table", "--out"], "manifest.json"),
            ("evaluate", ["evaluate", "model", "good.jsonl", "--json"], "manifest.json"),
            ("evaluate", ["evaluate", "model", "good.jsonl", "--json"], "labels.safetensors"),
            ("report", ["evaluate", "model", "good.jsonl", "--html"], "README.md"),
            ("explain", ["explain", "model", "--text", "ship", "--json"], "manifest.json"),
            ("explanation", ["explain", "model", "--text", "ship", "--html"], "README.md"),
            ("info", ["info", "model", "--json"], "manifest.json"),
            ("info", ["info", "good.jsonl", "--html"], "manifest.json"),
            ("convert", ["convert", "good.jsonl", "--force"], "manifest.json"),
        )
    },
    "convert over a model": (["convert", "good.jsonl", "model"], "model: is a model folder"),
    "split into a model": (["convert", "good.jsonl", "model", "--test", "0.5"], "model: is a model folder"),
    "convert to nothing": (["convert", "good.jsonl", ""], "'': no folder is named"),
    "split into nothing": (["convert", "good.jsonl", "", "--test", "0.5"], "'': no folder is named"),
    "a file with a slash": (["predict", "model", "good.jsonl", "--out", "x.csv/"], "x.csv/: is a folder"),
    "predictions as a document": (["predict", "model", "good.jsonl", "--out", "x.docx"], "known suffixes: .jsonl"),
    "predictions as old Excel": (["predict", "model", "good.jsonl", "--out", "x.xls"], "known suffixes: .jsonl"),
    "predictions without a suffix": (["predict", "model", "good.jsonl", "--out", ".csv"], "the suffix says no format"),
    "predictions over documents": (["predict", "model", "good.jsonl", "--out", "good.jsonl"], "would replace it"),
    "a model by its capitals": (["train", "good.jsonl", "--model", "KNN", *OUT], "did you mean 'knn'?"),
    "a setting of a group": (
        ["train", "good.jsonl", *TRAIN, "--set", "tfidf.min_dff=2"],
        "did you mean 'tfidf.min_df'",
    ),
    "warm nothing": (["warm", "--models", ""], "no method is named"),
    "warm an unknown method": (["warm", "--models", "knn,knm"], "did you mean 'knn'?"),
    "resume with another seed": (
        ["train", "good.jsonl", "--model", "knn", "--out", "model", "--resume", "--seed", "5"],
        "settings.seed (0 there, 5 now)",
    ),
    "resume on other documents": (
        ["train", "more.jsonl", "--model", "knn", "--out", "model", "--resume"],
        "model holds another training's model, different: documents",
    ),
    "resume another method": (
        ["train", "good.jsonl", "--model", "prior", "--out", "model", "--resume"],
        'model ("knn" there, "prior" now)',
    ),
    "resume in a folder of other things": (
        ["train", "good.jsonl", "--model", "knn", "--out", "orphan", "--resume"],
        "other things in it",
    ),
    **{
        f"model {address}": (["predict", address, "good.jsonl"], "write hf://user/name")
        for address in ("hf://", "hf://tagger", "hf://me/", "hf://../x/y", "hf://me/tagger@")
    },
    **{
        f"threads {count}": (["info", "good.jsonl", "--threads", count], "--threads")
        for count in ("0", "-1", "1.5", "many", "9999999999")
    },
    "only in a folder": (["predict", "model", "good.jsonl", "--only", "orphan"], "orphan: is a folder"),
    "only nothing": (["predict", "model", "good.jsonl", "--only", ""], "'': no file is named"),
    "only binary": (["predict", "model", "good.jsonl", "--only", "binary.jsonl"], "binary.jsonl:1: this is a binary"),
    "except everything": (["predict", "model", "good.jsonl", "--except", "labels.txt"], "no label is left to predict"),
    "an unknown label": (
        ["predict", "model", "good.jsonl", "--only", "unknown.txt"],
        "unknown.txt:2: there is no label 'w'; give",
    ),
    "standard input twice": (["predict", "model", "-", "--only", "-"], "standard input (-) can be read once only"),
    "precision in percent": (["predict", "model", "good.jsonl", "--precision", "80%"], "'--precision'"),
    "precision of a model without": (["predict", "model", "good.jsonl", "--precision", "0.8"], "--valid 0.1"),
    "empty JSON list": (["train", "empty.json", *TRAIN], "empty.json: there is no document in it"),
    "JSON list of numbers": (["train", "numbers.json", *TRAIN], "numbers.json: document 1: a JSON object was expected"),
    "label set with a label twice": (
        ["train", "good.jsonl", *TRAIN, "--label-set", "twice.tsv"],
        "twice.tsv:2: the label 'http://e/a' occurs twice",
    ),
    "language of nobody": (
        ["train", "good.jsonl", *TRAIN, "--label-set", "names.csv", "--language", "de"],
        "no labels in the language 'de' (languages found: en)",
    ),
    "unknown command": (["trian"], "trian"),
    "missing option": (["train", "good.jsonl"], "--out"),
    "unknown option": (["models", "--fast"], "--fast"),
}


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained on `good.jsonl`."""
    place = tmp_path_factory.mktemp("trained")
    (place / "good.jsonl").write_bytes(FILES["good.jsonl"])
    assert main(["train", str(place / "good.jsonl"), "--model", "knn", "--out", str(place / "model")]) == 0
    return place / "model"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    shutil.copytree(trained, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line_and_exit_2(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, sentence = CASES[case]
    before = contents(folder)
    code = main(list(words))
    out, err = capsys.readouterr()
    assert code == 2, err
    assert out == ""
    assert sentence in err
    assert "Traceback" not in err
    told = [line for line in err.splitlines() if not line.startswith(("good.jsonl: 2 doc", "more.jsonl: 2 doc"))]
    assert len(told) == 1
    assert told[0].startswith("error: ")
    assert contents(folder) == before, "something was written"


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_bad_lines_can_be_skipped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "broken.jsonl", *TRAIN, "--skip-bad"]) == 0
    assert "1 bad lines skipped" in capsys.readouterr().err.replace("1 bad line skipped", "1 bad lines skipped")


@pytest.mark.parametrize("place", [0, 1, 5])
def test_debug_shows_the_trace(folder: Path, place: int) -> None:
    words = ["train", "broken.jsonl", *TRAIN]
    words.insert(place, "--debug")
    with pytest.raises(XmtcError, match="not JSON"):
        main(words)


def test_unwritable_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "good.jsonl", "missing/folder/x.csv"]) == 2
    assert "missing/folder" in capsys.readouterr().err


def test_extra_file_in_a_model_is_a_one_line_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "good.jsonl", *TRAIN]) == 0
    (folder / "out" / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert main(["predict", "out", "good.jsonl"]) == 0
    assert capsys.readouterr().err.strip().endswith("never read: notes.txt")


def test_ctrl_c_is_quiet_and_leaves_nothing(tmp_path: Path) -> None:
    """A real interrupt while the command waits for its standard input."""
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("xmtc")), "train", "-", "--model", "knn", "--out", str(tmp_path / "m")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where a shell started us with "&"
    )
    assert process.stdin is not None
    process.stdin.write(b'{"text": "a", "labels": ["x"]}\n' * 5000)
    process.stdin.flush()
    deadline = time.monotonic() + 20
    while "pipe" not in Path(f"/proc/{process.pid}/wchan").read_text() and time.monotonic() < deadline:
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.decode().strip().splitlines()[-1] == "stopped"
    assert list(tmp_path.iterdir()) == []
