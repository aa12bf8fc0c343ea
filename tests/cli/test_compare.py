"""`xmtc compare` as a user types it: table, JSON and page; killed, failed and finished runs; sweeps."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.cli.compare_plans import Plan, planned
from xmtc.cli.compare_runs import Work
from xmtc.cli.read_options import Reading
from xmtc.corpus import folder as folders
from xmtc.corpus.io import read, write
from xmtc.data import demo_folder

XMTC = str(Path(sys.executable).with_name("xmtc"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of the demo corpus."""
    place = tmp_path_factory.mktemp("corpus")
    folders.write({"train": read(demo_folder())[:300], "test": read(demo_folder(), part="test")[:80]}, place)
    return place


@pytest.fixture(scope="module")
def compared(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished comparison, with a sweep and a run that fails."""
    out = tmp_path_factory.mktemp("out") / "results"
    recipe = out.with_name("power.yaml")
    recipe.write_text("model: knn\nset:\n  neighbours: 20\ngrid:\n  power: [1.0, 4.0]\n")
    options = ["--models", "prior,parabel", "--set", "parabel.tree=given", "--set", "parabel.trees=2", "--plot"]
    assert main(["compare", str(corpus), "--out", str(out), "--recipe", str(recipe), *options]) == 0
    return out


def test_table_json_and_page(compared: Path) -> None:
    results = json.loads((compared / "results.json").read_text())
    rows = {row["system"]: row for row in results["rows"]}
    assert set(rows) == {"prior", "parabel", "knn (power) power=1.0", "knn (power) power=4.0"}
    assert rows["knn (power) power=1.0"]["P@1"] > rows["prior"]["P@1"] > 20
    assert rows["prior"]["p"]["nDCG@5"] < 0.05
    assert {"training", "documents/s", "memory", "size"} == set(rows["prior"]["costs"])
    assert rows["prior"]["costs"]["memory"] > 3e7
    html = (compared / "comparison.html").read_text("utf-8")
    assert "Sweeps" in html
    assert "there is one given hierarchy" in html
    assert (compared / "sweep-knn-power-power.svg").read_text("utf-8").startswith("<svg")


def test_a_failed_run_says_why_and_the_rest_goes_on(compared: Path) -> None:
    runs = {run["system"]: run for run in json.loads((compared / "results.json").read_text())["runs"]}
    assert runs["parabel"]["status"] == "failed"
    assert "there is one given hierarchy" in runs["parabel"]["reason"]
    assert runs["prior"]["status"] == "finished"


def test_models_can_be_used_afterwards(compared: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = next((compared / "runs").glob("prior-*")) / "model"
    assert main(["evaluate", str(model), str(corpus), "--json", "-"]) == 0
    out = capsys.readouterr().out
    results = json.loads((compared / "results.json").read_text())
    prior = next(row for row in results["rows"] if row["system"] == "prior")
    assert json.loads(out)["PSP@5"] == pytest.approx(prior["PSP@5"])


def test_constants_of_psp_can_be_changed_afterwards(compared: Path, corpus: Path, tmp_path: Path) -> None:
    """Nothing is trained again."""
    model = next((compared / "runs").glob("prior-*")) / "model"
    out, json_file = tmp_path / "out", tmp_path / "metrics.json"
    assert main(["compare", str(corpus), "--models", str(model), "--propensity", "wikipedia", "--out", str(out)]) == 0
    assert main(["evaluate", str(model), str(corpus), "--propensity", "0.5,0.4", "--json", str(json_file)]) == 0
    results = json.loads((out / "results.json").read_text())
    assert results["propensity"] == {"A": 0.5, "B": 0.4}
    assert results["rows"][0]["PSP@5"] == pytest.approx(json.loads(json_file.read_text())["PSP@5"])
    before = json.loads((compared / "results.json").read_text())["rows"]
    assert results["rows"][0]["PSP@5"] != next(row for row in before if row["system"] == "prior")["PSP@5"]


def noticed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are started, none of which is done."""
    started: list[str] = []

    def start(self: Work, plan: Plan, seed: int) -> str:
        started.append(f"{plan.system} {seed}")
        return "not done"

    monkeypatch.setattr(Work, "start", start)
    return started


def test_started_again_it_does_only_what_is_missing(
    compared: Path, corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = noticed(monkeypatch)
    again = ["compare", str(corpus), "--models", "prior", "--out", str(compared)]
    assert main(again) == 0
    out, err = capsys.readouterr()
    assert started == []
    assert "prior, seed 0: done before" in err
    assert "prior" in out
    assert main([*again, "--seeds", "2"]) == 0
    assert started == ["prior 1"]
    assert main([*again, "--models", "parabel", "--set", "parabel.tree=given", "--set", "parabel.trees=2"]) == 0
    assert started[1:] == ["parabel 0"], "what failed is tried again"
    run = next((compared / "runs").glob("prior-0-*"))
    top = run / "top.safetensors"
    whole = top.read_bytes()
    top.write_bytes(whole[:50])
    assert main(again) == 0
    assert started[2:] == ["prior 0"], "and so is what was cut off"
    top.write_bytes(whole)


def test_other_documents_are_another_run(
    compared: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = noticed(monkeypatch)
    write(read(corpus)[:200], tmp_path / "other.jsonl")
    code = main(["compare", str(tmp_path / "other.jsonl"), "--models", "prior", "--out", str(compared)])
    assert code == 0
    assert started == ["prior 0"]


def test_a_killed_comparison_goes_on(corpus: Path, tmp_path: Path) -> None:
    """Killed in the second run, the first is not done again, and the second ends."""
    out = tmp_path / "results"
    command = [XMTC, "compare", str(corpus), "--models", "prior,knn", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 300
    while not list(out.glob("runs/knn-*/run.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first = next(out.glob("runs/prior-*/result.json")).stat().st_mtime_ns
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "prior, seed 0: done before" in again.stderr
    assert "knn, seed 0: finished" in again.stderr
    assert next(out.glob("runs/prior-*/result.json")).stat().st_mtime_ns == first
    assert {row["finished"] for row in json.loads((out / "results.json").read_text())["rows"]} == {1}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a file that never ends")
def test_a_run_ends_with_the_comparison_that_started_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "docs.jsonl")
    source: dict[str, object] = {"corpus": str(tmp_path / "docs.jsonl"), "test": "0.1", "valid": None, "reading": {}}
    spec = source | {"model": "prior", "settings": {}}
    (tmp_path / "run.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "xmtc.cli.compare_worker", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as run:
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(3)
        assert run.stdin is not None
        run.stdin.close()
        assert run.wait(60) == 1
    assert not (tmp_path / "result.json").exists()


def test_the_budget_stops_a_run(corpus: Path, tmp_path: Path) -> None:
    plans = [Plan(name, {}) for name in ("knn", "prior")]
    work = Work(tmp_path, str(corpus), "0.1", Reading(), plans, end=None)
    work.end = time.monotonic() + 0.1
    knn, prior = (work.done(plan, 0, "") for plan in plans)
    assert (knn.status, knn.reason) == ("stopped", "the budget was spent")
    assert (prior.status, prior.reason) == ("waiting", "the budget was spent")


def test_nothing_is_begun_without_time(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(corpus), "--models", "prior", "--out", str(tmp_path / "r"), "--budget", "0.001s"]) == 0
    assert "waiting: the budget was spent" in capsys.readouterr().out
    assert (tmp_path / "r" / "comparison.html").exists()


def test_ctrl_c_leaves_a_report_of_what_is_done(
    corpus: Path, compared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, "start", interrupted)
    out = shutil.copytree(compared, tmp_path / "results")
    assert main(["compare", str(corpus), "--models", "prior,bonsai,dismec", "--out", str(out)]) == 130
    runs = json.loads((out / "results.json").read_text())["runs"]
    assert [run["status"] for run in runs] == ["finished", "stopped", "waiting"]
    assert "stopped before its turn" in capsys.readouterr().out


@pytest.mark.needs("torch")
def test_rows_are_called_as_the_model_calls_itself(tmp_path: Path) -> None:
    recipe = tmp_path / "small.yaml"
    recipe.write_text("model: aplc_xlnet\nset: {encoder: {name: minilm}}\ngrid: {clusters: [2, 3]}\n")
    plans = planned("aplc_xlnet,knn", [str(recipe)], ["aplc_xlnet.training.epochs=2"])
    names = ["APLC-XLNet", "knn", "APLC-MiniLM (small) clusters=2", "APLC-MiniLM (small) clusters=3"]
    assert [plan.system for plan in plans] == names
    assert [plan.sweep for plan in plans] == ["", "", "aplc_xlnet (small)", "aplc_xlnet (small)"]


def test_plans() -> None:
    plans = planned("knn,parabel", [], ["knn.neighbours=9", "parabel.tfidf.ngrams=[1, 2]"])
    assert [plan.settings for plan in plans] == [{"neighbours": 9}, {"tfidf": {"ngrams": [1, 2]}}]
    points = [dict(plan.point) for plan in planned("", ["knn/sweep"], [])]
    assert len(points) > 3
    assert len({tuple(point.items()) for point in points}) == len(points)
