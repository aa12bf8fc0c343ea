"""Every command as a user types it: results on standard output, everything else on standard error, exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from xmtc import __version__
from xmtc.cli import main
from xmtc.cli.app import app
from xmtc.corpus.io import read
from xmtc.data import demo_folder
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import load

Run = Callable[..., tuple[int, str, str]]
XMTC = str(Path(sys.executable).with_name("xmtc"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knn model on the demo corpus, trained through the command line."""
    path = tmp_path_factory.mktemp("models") / "tagger"
    assert main(["train", str(demo_folder()), "--model", "knn", "--out", str(path)]) == 0
    return path


def test_version_and_help(run: Run) -> None:
    assert run("--version")[:2] == (0, f"xmtc {__version__}\n")
    code, out, _ = run("--help")
    assert code == 0
    for command in ("train", "predict", "evaluate", "info", "convert", "models", "demo"):
        assert command in out


@pytest.mark.parametrize(
    "command", [command.callback.__name__ for command in app.registered_commands if command.callback]
)
def test_every_command_has_an_example_in_its_help(run: Run, command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Example: xmtc {command}" in out or "Example: echo" in out


def test_train_prints_only_the_folder_on_stdout(run: Run, tmp_path: Path) -> None:
    code, out, err = run("train", demo_folder(), "--model", "prior", "--out", "m", "--valid", "0.1", "--seed", "3")
    assert code == 0
    assert out == "m\n"
    assert "validation documents" in err
    assert "P@5" in err
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["config"] == {"seed": 3}
    assert manifest["metrics"]["validation"]["P@1"] > 20
    assert manifest["training"]["documents"] == 3240


def test_train_with_validation_file(run: Run) -> None:
    code, _, err = run("train", demo_folder(), "--model", "prior", "--out", "m", "--valid", demo_folder())
    assert code == 0
    assert "on 400 validation documents" in err


def test_calibrated_and_tuned(run: Run, tmp_path: Path) -> None:
    command = ("train", demo_folder(), "--model", "knn", "--out", "m", "--valid", "0.1")
    assert run(*command, "--calibrate", "isotonic", "--tune")[0] == 0
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["training"]["calibration"]["method"] == "isotonic"
    assert manifest["training"]["thresholds"]["documents"] == 360
    # Of the model as it is saved: before, it is 11.
    assert manifest["metrics"]["validation"]["ECE@5"] < 4
    assert manifest["metrics"]["validation"]["micro-F1"] > manifest["metrics"]["validation"]["micro-F1@5"]
    _, out, _ = run("info", "m")
    assert re.search(r"^scores +calibrated$", out, re.MULTILINE)
    assert re.search(r"^thresholds +tuned$", out, re.MULTILINE)
    assert re.search(r"^training calibration +method isotonic, documents 360, ", out, re.MULTILINE)

    assert "finished already" in run(*command, "--calibrate", "isotonic", "--tune", "--resume")[2]
    assert run(*command)[0] == 0
    _, out, _ = run("info", "m")
    assert re.search(r"^scores +not calibrated$", out, re.MULTILINE)
    assert re.search(r"^thresholds +not tuned$", out, re.MULTILINE)


def test_tuned_thresholds_are_used(run: Run, tmp_path: Path) -> None:
    assert run("train", demo_folder(), "--model", "knn", "--out", "m", "--valid", "0.1", "--tune")[0] == 0
    assert run("evaluate", "m", demo_folder(), "--threshold", "tuned", "--json", "m.json")[0] == 0
    model, test = load(tmp_path / "m"), read(demo_folder(), part="test")
    assert model.thresholds_ is not None
    expected = evaluate(model, test, threshold=model.thresholds_)
    assert json.loads((tmp_path / "m.json").read_text())["micro-F1"] == pytest.approx(expected.values["micro-F1"])
    _, out, _ = run("predict", "m", demo_folder(), "--threshold", "tuned")
    found = [[label["label"] for label in json.loads(line)["labels"]] for line in out.splitlines()]
    top = model.predict(test, k=100).threshold(model.thresholds_)
    assert found == [[top.labels.key(at) for at in row if at >= 0] for row in top.ids.tolist()]
    assert max(map(len, found)) > 5, "not cut at the usual length"
    _, out, _ = run("predict", "m", demo_folder(), "--threshold", "tuned", "--k", "2")
    assert [row[:2] for row in found] == [
        [label["label"] for label in json.loads(line)["labels"]] for line in out.splitlines()
    ]


def test_set_and_recipe(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("model: knn\nset:\n  neighbours: 7\n  tfidf:\n    min_df: 2\n")
    code, _, err = run(
        "train", demo_folder(), "--recipe", "r.yaml", "--out", "m", "--set", "power=1.5", "--set", "tfidf.max_terms=500"
    )
    assert code == 0, err
    config = json.loads((tmp_path / "m" / "manifest.json").read_text())["config"]
    assert config["neighbours"] == 7
    assert config["power"] == 1.5
    assert config["tfidf"]["min_df"] == 2
    assert config["tfidf"]["max_terms"] == 500


def test_resume_keeps_a_finished_model(run: Run, tmp_path: Path) -> None:
    train = ("train", demo_folder(), "--model", "prior", "--out", "m")
    assert run(*train)[0] == 0
    before = (tmp_path / "m" / "manifest.json").stat().st_mtime_ns
    code, out, err = run(*train, "--resume")
    assert (code, out) == (0, "m\n")
    assert "finished already" in err
    assert (tmp_path / "m" / "manifest.json").stat().st_mtime_ns == before


def test_evaluate(run: Run, tagger: Path, tmp_path: Path) -> None:
    code, out, err = run(
        "evaluate", tagger, demo_folder(), "--k", "1,5", "--json", "m.json", "--html", "r.html", "--per-label", "l.csv"
    )
    assert code == 0, err
    assert "P@5" in out
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert 75 < metrics["P@1"] < 95
    assert {"P@5", "nDCG@5", "PSP@5"} <= set(metrics)
    assert "P@3" not in metrics
    assert (tmp_path / "r.html").read_text("utf-8").startswith("<!doctype html>")
    assert len((tmp_path / "l.csv").read_text("utf-8").splitlines()) > 300
    assert "written: r.html" in err


def test_evaluate_json_to_stdout_is_only_json(run: Run, tagger: Path) -> None:
    code, out, _ = run("evaluate", tagger, demo_folder(), "--json", "-")
    assert code == 0
    assert json.loads(out)["documents"] == 400


def test_predict_json_lines(run: Run, tagger: Path, tmp_path: Path) -> None:
    code, out, err = run("predict", tagger, demo_folder(), "--k", "2")
    assert code == 0
    assert err == ""
    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == 400
    assert set(answers[0]) == {"id", "labels"}
    assert set(answers[0]["labels"][0]) == {"label", "name", "score"}
    assert all(len(answer["labels"]) <= 2 for answer in answers)
    assert run("predict", tagger, demo_folder(), "--k", "2", "--out", "p.jsonl")[1] == ""
    assert (tmp_path / "p.jsonl").read_text() == out


def test_predict_threshold_and_table(run: Run, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("a fast mail server\nxyzzy\n")
    code, out, _ = run("predict", tagger, "new.txt", "--threshold", "0.99", "--table")
    assert code == 0
    assert out.count("no label") == 2
    code, out, _ = run("predict", tagger, "new.txt", "--table", "--k", "3")
    assert code == 0
    assert "a fast mail server" in out
    assert "Program" in out


def test_pipes(tagger: Path, tmp_path: Path) -> None:
    """Through a real shell: text in, JSON out, and a reader that closes the pipe early."""
    text = subprocess.run(
        f"echo 'a fast mail server' | {XMTC} predict {tagger} - --k 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(text.stdout)["labels"][0]["name"]
    early = subprocess.run(
        f"set -o pipefail; {XMTC} predict {tagger} {demo_folder()} | head -n 1",
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )
    assert len(early.stdout.splitlines()) == 1
    assert early.stderr == ""
    train = subprocess.run(
        f"zcat {demo_folder()}/train.jsonl.gz | head -n 50 | {XMTC} train - --model prior --out {tmp_path}/m",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert train.stdout == f"{tmp_path}/m\n"


def test_info_on_a_corpus(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("info", demo_folder(), "--html", "c.html", "--json", "c.json")
    assert code == 0
    assert "3,600" in out
    assert "test documents also in training" in out
    assert "█" in out
    assert json.loads((tmp_path / "c.json").read_text())["documents"] == 3600
    assert "<svg" in (tmp_path / "c.html").read_text("utf-8")
    code, out, _ = run("info", demo_folder(), "--json", "-")
    assert json.loads(out)["labels_used"] == 598


def test_info_on_a_model(run: Run, tagger: Path) -> None:
    code, out, _ = run("info", tagger)
    assert code == 0
    assert "knn" in out
    assert "neighbours" in out
    code, out, _ = run("info", tagger, "--json", "-")
    assert json.loads(out)["kind"] == "knn"
    assert run("info", tagger, "--html", "x.html")[0] == 2


@pytest.mark.parametrize("name", ["docs.csv", "docs.tsv.gz", "docs.parquet", "docs.ndjson"])
def test_convert_there_and_back(run: Run, tmp_path: Path, name: str) -> None:
    assert run("convert", demo_folder(), name)[0] == 0
    assert run("convert", name, "back.jsonl", "--label-set", demo_folder() / "labels.tsv")[0] == 0
    first, second = read(demo_folder()), read(tmp_path / "back.jsonl", label_set=demo_folder() / "labels.tsv")
    assert first.fingerprint() == second.fingerprint()


def test_convert_to_features(run: Run, tmp_path: Path) -> None:
    assert run("convert", demo_folder(), "docs.txt", "--to", "xmc", "--tfidf")[0] == 0
    corpus = read(tmp_path / "docs.txt")
    assert corpus.features is not None
    assert len(corpus) == 3600
    assert run("train", "docs.txt", "--model", "knn", "--out", "m")[0] == 0
    code, _, err = run("convert", demo_folder(), "texts.txt", "--to", "xmc")
    assert code == 2
    assert "cannot hold texts" in err


@pytest.mark.parametrize("split", ["random", "stratified", "key:id"])
def test_convert_splits(run: Run, tmp_path: Path, split: str) -> None:
    assert run("convert", demo_folder(), "parts", "--test", "0.25", "--split", split)[0] == 0
    assert len(read(tmp_path / "parts", part="train")) == 2700
    assert len(read(tmp_path / "parts", part="test")) == 900


def test_models(run: Run) -> None:
    code, out, _ = run("models")
    assert code == 0
    assert "prior" in out
    assert "knn" in out
    code, out, _ = run("models", "knn")
    assert "tfidf.ngrams" in out
    assert "neighbours" in out


def test_demo(run: Run, tmp_path: Path) -> None:
    code, out, err = run("demo", "--budget", "1s")
    assert code == 0
    assert "auto" in out
    assert "openssh-server" in out
    assert "Networking › Server" in out
    assert "✓" in out
    assert "report.html" in err
    assert (tmp_path / "xmtc-demo" / "report.html").exists()
    assert run("predict", "xmtc-demo/tagger", demo_folder(), "--k", "1")[0] == 0
