"""What `xmtc compare` takes beside methods: model folders, predictions, recipes of one name, several corpora."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import SafetensorError

from xmtc.cli import compare_worker as worker
from xmtc.cli import main
from xmtc.cli.compare import corpus_folders
from xmtc.cli.compare_plans import entry, planned
from xmtc.cli.compare_runs import Work
from xmtc.cli.compare_worker import is_disk_full
from xmtc.cli.read_options import Reading
from xmtc.corpus import folder as folders
from xmtc.corpus.io import read, write
from xmtc.data import demo_folder
from xmtc.errors import BadInput, BadModelFolder, ConfigError
from xmtc.models.registry import make


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two corpora, a model of the first and what it predicts for the first one's test part."""
    place = tmp_path_factory.mktemp("here")
    train, test = read(demo_folder()), read(demo_folder(), part="test")
    folders.write({"train": train[:200], "test": test[:60]}, place / "corpus")
    folders.write({"train": train[200:400], "test": test[60:120]}, place / "other")
    write(train[:200], place / "docs.jsonl")
    make("prior").fit(read(place / "corpus")).save(place / "tagger")
    assert main(["predict", str(place / "tagger"), str(place / "corpus"), "--out", str(place / "answers.csv")]) == 0
    return place


@pytest.fixture(autouse=True)
def inside(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


def results(folder: str) -> dict[str, dict[str, Any]]:
    return {row["system"]: row for row in json.loads(Path(folder, "results.json").read_text())["rows"]}


def test_folders_and_files_beside_methods(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "corpus", "--models", "prior, ./tagger,answers.csv", "--seeds", "2", "--out", "mixed"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert "./tagger: taken for a model folder, prior trained on 200 documents" in err
    assert "answers.csv: taken for a file of predictions" in err
    assert "the training time of a model trained before" in out.replace("\n", " ")
    rows = results("mixed")
    for metric in ("P@1", "nDCG@5", "PSP@5", "tail P@5"):
        assert rows["./tagger"][metric] == rows["answers.csv"][metric] == pytest.approx(rows["prior"][metric])
    manifest = json.loads((here / "tagger" / "manifest.json").read_text())
    costs = {name: set(row["costs"]) for name, row in rows.items()}
    assert costs == {
        "prior": {"training", "documents/s", "memory", "size"},
        "./tagger": {"training", "documents/s", "size"},
        "answers.csv": set(),
    }
    assert rows["./tagger"]["costs"]["training"] == manifest["training"]["seconds"]
    assert [rows[name]["runs"] for name in costs] == [2, 1, 1], "there is nothing to train anew with another seed"
    runs = json.loads(Path("mixed", "results.json").read_text())["runs"]
    assert [run["origin"] for run in runs] == ["trained", "folder", "predictions", "trained"]

    assert main(command) == 0
    assert "./tagger: done before" in capsys.readouterr().err


def test_another_model_in_the_folder_is_another_run() -> None:
    make("prior").fit(read("corpus")).save("changing")
    before = Work(Path("w"), "corpus", "0.1", Reading(), plans := planned("./changing", [], []))
    place = before.place(plans[0], 0)
    make("prior").fit(read("corpus")[:50]).save("changing")
    plans = planned("./changing", [], [])
    assert Work(Path("w"), "corpus", "0.1", Reading(), plans).place(plans[0], 0) != place


def test_a_model_that_knows_the_test_documents_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    make("prior").fit(read("corpus", part="test")).save("cheat")
    assert main(["compare", "corpus", "--models", "./cheat", "--out", "cheated"]) == 0
    out, err = capsys.readouterr()
    remark = "100 % of the test documents were in its training: its figures are too good"
    assert f"warning: ./cheat: {remark}" in err
    assert remark in out
    assert results("cheated")["./cheat"]["remark"] == remark
    assert remark in Path("cheated", "comparison.html").read_text("utf-8")


def test_a_model_with_other_labels_fails_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pets.jsonl").write_text('{"text": "a cat", "labels": ["cat"]}\n{"text": "a dog", "labels": ["dog"]}\n')
    make("prior").fit(read("pets.jsonl")).save("pets")
    assert main(["compare", "corpus", "--models", "pets", "--out", "petted"]) == 0
    assert "none of its labels, such as 'cat', is one of" in capsys.readouterr().out.replace("\n", " ")


def test_a_model_that_reads_other_fields_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("named.jsonl").write_text('{"title": "mail", "labels": ["x"]}\n' * 3)
    assert main(["train", "named.jsonl", "--text-field", "title", "--model", "prior", "--out", "titles"]) == 0
    assert main(["compare", "corpus", "--models", "./titles", "--out", "titled"]) == 0
    assert "./titles: its training documents were read with --text-field title" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("knm", "did you mean 'knn'?"),
        ("./nowhere", "./nowhere: no such model folder"),
        ("corpus", "corpus: no manifest.json in it"),
        ("nothing.csv", "nothing.csv: no such file of predictions"),
        ("corpus/labels.txt", "corpus/labels.txt: no such model folder"),
        ("notes.txt", "notes.txt: a file, but its suffix is not that of predictions"),
        ("docs.jsonl", "docs.jsonl:1: "),
        ("hf://user", "hf://user: not an address of a model on the Hub"),
    ],
)
def test_what_is_neither_is_said_before_anything_is_trained(
    name: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("notes.txt").write_text("nothing\n")
    assert main(["compare", "corpus", "--models", f"prior,{name}", "--out", "never"]) == 2
    assert expected in capsys.readouterr().err
    assert not Path("never").exists()


def test_a_method_goes_before_a_folder_of_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree("tagger", "knn", dirs_exist_ok=True)
    assert entry("knn").origin == "trained"
    assert "write ./knn" in capsys.readouterr().err
    assert (entry("./knn").origin, entry("tagger").origin) == ("folder", "folder")


def test_a_model_on_the_hub_is_taken_for_its_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.hub.download", lambda _: here / "tagger")
    plan = entry("hf://user/name@v1")
    assert (plan.system, plan.model, plan.origin) == ("hf://user/name@v1", "prior", "folder")
    model, folder = worker._loaded(plan.path, None, read("corpus", part="test"))
    assert (model.train_documents_, folder) == (200, here / "tagger")


def test_settings_are_for_methods() -> None:
    with pytest.raises(ConfigError, match="with one of the models rocchio"):
        planned("./tagger,rocchio", [], ["prior.seed=1"])


def test_recipes_of_one_name(tmp_path: Path) -> None:
    for place in ("recipes/knn", "recipes/knn/paper", "one", "two"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "eurlex.yaml").write_text(f"model: knn\nset: {{neighbours: {len(place)}}}\n")
    paper = [str(tmp_path / "recipes" / "knn" / name) for name in ("eurlex.yaml", "paper/eurlex.yaml")]
    assert [plan.system for plan in planned("", paper, [])] == ["knn (eurlex)", "knn (paper/eurlex)"]
    mine = [str(tmp_path / place / "eurlex.yaml") for place in ("one", "two")]
    assert [plan.system for plan in planned("", mine[:1], [])] == ["knn (eurlex)"]
    assert [plan.system for plan in planned("", mine, [])] == [f"knn ({path.removesuffix('.yaml')})" for path in mine]
    with pytest.raises(ConfigError, match="twice"):
        planned("", [mine[0], mine[0]], [])


def test_a_run_is_found_again_under_another_name(tmp_path: Path) -> None:
    recipe = tmp_path / "small.yaml"
    recipe.write_text("model: prior\n")
    plans = [*planned("prior", [], []), *planned("", [str(recipe)], [])]
    work = Work(tmp_path, "corpus", "0.1", Reading(), plans)
    place = work.place(plans[0], 0)
    place.mkdir(parents=True)
    assert plans[0].system != plans[1].system
    assert work.place(plans[1], 0) == place


def test_a_seed_that_is_set_is_run_once() -> None:
    plans = planned("prior,knn", [], ["knn.seed=7"])
    assert [list(plan.seeds(3)) for plan in plans] == [[0, 1, 2], [0]]


def test_several_corpora(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "corpus", "other", "--models", "prior,./tagger", "--out", "both"]) == 0
    out = capsys.readouterr().out
    assert "Average ranks over 2 corpora" in out
    found = json.loads(Path("both", "results.json").read_text())
    assert set(found["corpora"]) == {"corpus", "other"}
    for name, board in found["corpora"].items():
        assert {row["system"] for row in board["rows"]} == {"prior", "./tagger"}
        assert board["rows"] == json.loads(Path("both", name, "results.json").read_text())["rows"]
        assert Path("both", name, "comparison.html").exists()
        assert list(Path("both", name, "runs").iterdir())
    ranks = found["average ranks"]["ranks"]
    for metric in ("P@1", "PSP@5", "all"):
        assert ranks["prior"][metric] + ranks["./tagger"][metric] == 3
    assert ranks["prior"]["tail P@5"] == 1.5, "both find none on either corpus, and share their rank"
    assert found["corpora"]["other"]["documents"] == "200 documents to train on, 60 to test on"
    html = Path("both", "comparison.html").read_text("utf-8")
    assert 'href="other/comparison.html"' in html
    assert html.count('<table class="board">') == 3


def test_predictions_are_for_one_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "corpus", "other", "--models", "prior,answers.csv", "--out", "never"]) == 2
    assert "answers.csv: predictions are for the documents of one corpus" in capsys.readouterr().err


def test_a_mistake_in_the_last_corpus_is_found_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "corpus", "nothing.jsonl", "--models", "prior", "--out", "never"]) == 2
    assert "nothing.jsonl: no such file" in capsys.readouterr().err
    assert not Path("never").exists()


def test_folders_of_corpora(tmp_path: Path) -> None:
    assert corpus_folders(["a/x"], tmp_path) == [tmp_path]
    assert corpus_folders(["a/x", "b/y.csv"], tmp_path) == [tmp_path / "x", tmp_path / "y.csv"]
    assert corpus_folders(["a/x", "b/x"], tmp_path) == [tmp_path / "a-x", tmp_path / "b-x"]
    with pytest.raises(ConfigError, match="told apart"):
        corpus_folders(["a/x", "a/x"], tmp_path)


def test_ctrl_c_ends_all_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, "start", interrupted)
    assert main(["compare", "corpus", "other", "--models", "prior", "--out", "cut"]) == 130
    assert Path("cut", "corpus", "results.json").exists()
    assert not Path("cut", "other", "results.json").exists()
    assert not Path("cut", "results.json").exists()


def test_a_split_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "start", lambda *_: "not done")
    said = "180 documents to train on, 20 to test on; no test part, so these were drawn with seed 0 (--test 0.1)"
    assert main(["compare", "docs.jsonl", "--models", "prior", "--out", "split"]) == 0
    assert f"docs.jsonl: {said}" in capsys.readouterr().err
    assert json.loads(Path("split", "results.json").read_text())["about"]["documents"] == said
    assert said in Path("split", "comparison.html").read_text("utf-8")
    assert main(["compare", "corpus", "--models", "prior", "--out", "unsplit"]) == 0
    assert "seed 0 (" not in capsys.readouterr().err


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "error: crowded: the disk is full; make room and start the same command again"
    command = ["compare", "corpus", "--models", "prior", "--out", "crowded"]
    with monkeypatch.context() as patch:
        patch.setattr("xmtc.cli.compare_runs.write_json", full)
        assert main(command) == 2
    assert sentence in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr("xmtc.cli.compare.write_json", full)
        assert main(command) == 2
    assert sentence in capsys.readouterr().err
    assert main(command) == 0, "what is done stays done"
    assert "prior, seed 0: done before" in capsys.readouterr().err


def test_another_failure_to_write_names_the_folder(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr("xmtc.cli.compare_runs.write_json", too_large)
    assert main(["compare", "corpus", "--models", "prior", "--out", "limited"]) == 2
    assert "error: limited: File too large" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["write_json", "run"])
def test_a_run_without_room_has_an_exit_code_of_its_own(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["compare_worker", str(tmp_path)])
    if where == "write_json":
        monkeypatch.setattr(worker, "run", lambda _: {"status": "finished"})
    monkeypatch.setattr(worker, where, full)
    assert worker.main() == worker.DISK_FULL
    assert "Traceback" not in capsys.readouterr().err


def test_a_comparison_ends_with_a_run_without_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker's exit code reaches the user as the same sentence."""
    script = tmp_path / "full"
    script.write_text(f"#!/bin/sh\nexit {worker.DISK_FULL}\n")
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    assert main(["compare", "corpus", "--models", "prior", "--out", "tight"]) == 2
    assert "error: tight: the disk is full" in capsys.readouterr().err


def test_what_says_that_a_disk_is_full() -> None:
    of_rust = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    wrapped = BadModelFolder("cannot write the model")
    wrapped.__cause__ = of_rust
    assert all(map(is_disk_full, (OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "quota"), of_rust, wrapped)))
    assert not any(map(is_disk_full, (OSError(errno.EACCES, "no"), BadInput("x", None, "bad"), None)))
