"""`xmtc train` for people: --resume of another training, stopping, two at once, the default model, wrong words."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.checkpoints import Checkpoints
from xmtc.cli import main
from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.folder_lock import folder_lock
from xmtc.models.knn import NearestNeighbours
from xmtc.models.registry import DEFAULT, default_budget, load, model_class

Run = Callable[..., tuple[int, str, str]]
DOCUMENTS = "".join(
    json.dumps({"text": text, "labels": [label]}) + "\n"
    for text, label in (
        [("a red apple", "fruit"), ("a sweet pear", "fruit"), ("a ship at sea", "ships"), ("a sailing boat", "ships")]
        * 3
    )
)
KNN = ("train", "docs.jsonl", "--model", "knn", "--out", "m")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with documents: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text(DOCUMENTS)
    (tmp_path / "other.jsonl").write_text(DOCUMENTS.replace("apple", "cherry"))

    def call(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def stat_of(folder: Path) -> int:
    return (folder / "manifest.json").stat().st_mtime_ns


@pytest.mark.parametrize(
    ("before", "now", "different"),
    [
        ([], ["--seed", "9"], "settings.seed (0 there, 9 now)"),
        ([], ["--set", "neighbours=7", "--set", "tfidf.min_df=2"], "settings.neighbours (50 there, 7 now)"),
        ([], ["--set", "tfidf.min_df=2"], "settings.tfidf.min_df (1 there, 2 now)"),
        ([], ["--model", "prior"], 'model ("knn" there, "prior" now)'),
        ([], ["--valid", "0.25"], "documents, validation"),
        (["--valid", "0.25"], [], "documents, validation"),
        ([], ["--valid", "other.jsonl"], "validation"),
        (["--valid", "docs.jsonl"], ["--valid", "other.jsonl"], "validation.fingerprint"),
        (["--valid", "other.jsonl"], ["--valid", "other.jsonl", "--tune"], "thresholds"),
        (["--valid", "other.jsonl", "--tune"], ["--valid", "other.jsonl"], "thresholds"),
        (
            ["--valid", "other.jsonl", "--calibrate", "platt"],
            ["--valid", "other.jsonl", "--calibrate", "isotonic"],
            'calibration.method ("platt" there, "isotonic" now)',
        ),
    ],
)
def test_resume_of_a_finished_model_of_another_training_is_an_error(
    run: Run, tmp_path: Path, before: list[str], now: list[str], different: str
) -> None:
    assert run(*KNN, *before)[0] == 0
    stands = stat_of(tmp_path / "m")
    code, out, err = run(*KNN, *now, "--resume")
    assert (code, out) == (2, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"error: --resume: m holds another training's model, different: {different}")
    assert "leave --resume out to train anew" in last
    assert stat_of(tmp_path / "m") == stands
    assert "finished already" in run(*KNN, *before, "--resume")[2]
    assert run(*KNN, *now)[0] == 0, "without --resume it is replaced"
    assert stat_of(tmp_path / "m") != stands


def test_resume_on_other_documents_is_an_error(run: Run, tmp_path: Path) -> None:
    assert run(*KNN)[0] == 0
    shutil.copy("other.jsonl", "docs.jsonl")
    code, _, err = run(*KNN, "--resume")
    assert code == 2
    assert "different: documents; say the same" in err


def test_resume_does_not_accuse_models_that_never_said_what_validated_them(run: Run, tmp_path: Path) -> None:
    assert run(*KNN, "--valid", "other.jsonl")[0] == 0
    old = load("m")
    old.training_ = {key: value for key, value in old.training_.items() if key != "validation"}
    old.save("m", {"metrics": {"validation": {"P@1": 90.0}}})
    code, _, err = run(*KNN, "--valid", "other.jsonl", "--resume")
    assert (code, "finished already" in err) == (0, True), err


def test_resume_with_nothing_there_trains(run: Run, tmp_path: Path) -> None:
    assert run(*KNN, "--resume")[:2] == (0, "m\n")


def test_a_finished_model_stays_until_the_next_is_finished(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(*KNN)[0] == 0
    stands = stat_of(tmp_path / "m")

    def fail(self: Any, *_: object) -> None:
        assert self.on_better is None, "steps on the way must not replace it either"
        raise XmtcError("no luck")

    monkeypatch.setattr(NearestNeighbours, "_fit", fail)
    code, _, err = run(*KNN)
    assert code == 2
    assert "m: there is a model, which is replaced when the new one is finished" in err
    assert stat_of(tmp_path / "m") == stands


def test_a_damaged_model_can_be_replaced(run: Run, tmp_path: Path) -> None:
    assert run(*KNN)[0] == 0
    (tmp_path / "m" / "manifest.json").write_text("{")
    assert run(*KNN, "--resume")[0] == 2
    code, _, err = run(*KNN)
    assert (code, "there is a model, which is replaced" in err) == (0, True)


class Stopped(NearestNeighbours):
    """A method that is stopped by a signal while it is trained, after its first checkpoint."""

    signal = signal.SIGINT
    checkpoint = True

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        if self.checkpoint and checkpoints.get("piece") is None:
            checkpoints.put("piece", {"x": np.ones(1)})
            os.kill(os.getpid(), self.signal)
        if not self.checkpoint:
            os.kill(os.getpid(), self.signal)
        super()._fit(corpus, valid, checkpoints)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Stopped]]:
    class Fresh(Stopped):
        pass

    monkeypatch.setattr("xmtc.models.registry.model_class", lambda name: Fresh)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us with "&"
    yield Fresh
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_training_says_how_to_go_on(
    run: Run, tmp_path: Path, stopped: type[Stopped], which: signal.Signals, code: int
) -> None:
    stopped.signal = which
    words = ("train", "docs.jsonl", "--model", "knn", "--out", "my model")
    ended, out, err = run(*words)
    assert (ended, out) == (code, "")
    go_on = "xmtc train docs.jsonl --model knn --out 'my model' --resume"
    assert err.splitlines()[-1] == f"stopped; go on with: {go_on}"
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"docs.jsonl", "other.jsonl", ".my model.checkpoints"}, "nothing half-written, no lock"
    ended, _, err = run(*words, "--seed", "3", "--resume")
    assert ended == 2
    assert "pieces of another run (different: settings.seed (0 there, 3 now))" in err
    assert "leave --resume out" in err
    assert run(*words, "--resume")[:2] == (0, "my model\n")
    assert not (tmp_path / ".my model.checkpoints").exists()


def test_checkpoints_are_not_removed_silently(run: Run, tmp_path: Path, stopped: type[Stopped]) -> None:
    assert run(*KNN)[0] == 130
    code, _, err = run(*KNN)
    assert (code, "checkpoints of an earlier training are removed" in err) == (130, True)


def test_what_left_no_checkpoint_is_just_stopped(run: Run, tmp_path: Path, stopped: type[Stopped]) -> None:
    stopped.checkpoint = False
    code, out, err = run(*KNN)
    assert (code, out, err.splitlines()[-1]) == (130, "", "stopped")
    assert {file.name for file in tmp_path.iterdir()} == {"docs.jsonl", "other.jsonl"}


def test_checkpoints_decide_when_the_model_is_older(run: Run, tmp_path: Path, stopped: type[Stopped]) -> None:
    """A model is there, the training of its successor was killed: --resume goes on with the successor."""
    assert run(*KNN)[0] == 130
    assert run(*KNN, "--resume")[0] == 0
    assert run(*KNN, "--seed", "5")[0] == 130
    assert run(*KNN, "--seed", "5", "--resume")[0] == 0
    assert load("m").config.seed == 5


def test_sigterm_handler_is_gone_after_a_command(run: Run) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run(*KNN)
    assert signal.getsignal(signal.SIGTERM) == before


HOLD = """
import sys, time
from pathlib import Path
from xmtc.folder_lock import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_training_is_refused_and_told_who_is_there(run: Run, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "m")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        code, out, err = run(*KNN)
        assert (code, out) == (2, "")
        assert "another training writes to this folder" in err
        assert f"process {other.pid} on {os.uname().nodename}, since 2" in err
        assert run("train", "docs.jsonl", "--model", "knn", "--out", "n")[0] == 0, "another folder is free"
        other.kill()
        other.wait()
    assert (tmp_path / ".m.lock").exists(), "left by the killed process"
    assert run(*KNN)[0] == 0
    assert not (tmp_path / ".m.lock").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": 1}', "\x00"])
def test_a_lock_file_without_a_lock_is_no_obstacle(run: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / ".m.lock").write_text(content)
    assert run(*KNN)[0] == 0


def test_a_lock_leaves_nothing_behind(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "new" / "deep" / "m"):
        assert (tmp_path / "new" / "deep" / ".m.lock").exists()
    assert list(tmp_path.iterdir()) == []
    with folder_lock(tmp_path / "new" / "deep" / "m"):
        (tmp_path / "new" / "deep" / "m").mkdir()
    assert [path.name for path in (tmp_path / "new" / "deep").iterdir()] == ["m"]


def test_without_a_model_the_default_is_taken_and_said(run: Run, tmp_path: Path) -> None:
    code, out, err = run("train", "docs.jsonl", "--out", "m")
    assert (code, out) == (0, "m\n")
    said = [line for line in err.splitlines() if line.startswith("no --model given: auto takes up to 5m")]
    assert len(said) == 1
    assert "--budget" in said[0]
    assert "--model" in said[0]
    model = load("m")
    assert (model.name, model.predict(["an apple"], k=1).names()[0][0][0]) == ("auto", "fruit")
    assert "auto: knn: \n" not in err, "no line about nothing"
    assert "finished already" in run("train", "docs.jsonl", "--out", "m", "--resume")[2]


LIMITS = "--predict-ms", "900", "--model-mb", "9"


def test_the_default_takes_a_budget_and_settings(run: Run, tmp_path: Path) -> None:
    code, _, err = run(
        "train", "docs.jsonl", "--out", "m", "--budget", "7s", "--set", "methods=[knn]", "--seed", "2", *LIMITS
    )
    assert code == 0
    assert "auto takes up to 7s" in err
    assert load("m").config.model_dump() == {
        "seed": 2,
        "budget": "7s",
        "methods": ("knn",),
        "predict_ms": 900,
        "model_mb": 9,
    }


@pytest.mark.parametrize("documents", [1, 2, 5])
def test_the_default_does_something_sane_with_next_to_nothing(run: Run, tmp_path: Path, documents: int) -> None:
    (tmp_path / "few.jsonl").write_text("".join(DOCUMENTS.splitlines(keepends=True)[:documents]))
    assert run("train", "few.jsonl", "--out", "m")[0] == 0
    assert load("m").predict(["a red apple"], k=1).names()[0][0][0] == "fruit"


def test_the_default_suits_every_size() -> None:
    assert "budget" in model_class(DEFAULT).Config.model_fields
    budgets = [default_budget(documents) for documents in (1, 50_000, 50_001, 10_000_000)]
    assert budgets == ["5m", "5m", "30m", "2h"]


def test_python_m_xmtc_is_the_command(tmp_path: Path) -> None:
    found = subprocess.run([sys.executable, "-m", "xmtc", "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("xmtc ")
    wrong = subprocess.run([sys.executable, "-m", "xmtc", "trian"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.startswith("error: ")) == (2, True)


#: What a person may type -> what the one line says.
WRONG: dict[str, tuple[Sequence[str], str]] = {
    "set for a model that was not named": (
        ["--set", "neighbours=3"],
        "no --model given, so auto is taken: auto has no",
    ),
    "a device for the default": (["--device", "cuda"], "no --model given, so auto is taken: --device cuda"),
    "a budget that is none": (["--budget", "soon"], "'soon' is no duration"),
    "a budget of nothing": (["--budget", "0s"], "'0s' is no duration"),
    "a negative budget": (["--budget", "-5m"], "no duration"),
    "an empty budget": (["--budget", ""], "'' is no duration"),
    "a budget in days": (["--budget", "1d"], "'1d' is no duration"),
    "a method that is none": (["--set", "methods=[magic]"], "there is no method 'magic'"),
    "no method": (["--set", "methods=[]"], "methods"),
    "methods as a word": (["--set", "methods=knn"], "methods"),
    "an empty model": (["--model", ""], "there is no model ''"),
    "a model in capitals": (["--model", "KNN"], "there is no model 'KNN'"),
    "two models": (["--model", "knn,prior"], "there is no model 'knn,prior'"),
    "a model folder as a model": (["--model", "./m"], "there is no model './m'"),
    "a seed that is no number": (["--model", "knn", "--seed", "x"], "'--seed'"),
    "a seed of parts": (["--model", "knn", "--seed", "1.5"], "'--seed'"),
    "an empty setting": (["--model", "knn", "--set", ""], "key=value was expected"),
    "a setting without a name": (["--model", "knn", "--set", "=3"], "key=value was expected"),
    "a group as a value": (["--model", "knn", "--set", "tfidf=3"], "tfidf"),
    "a group that is none": (["--model", "knn", "--set", "words2.x=3"], "words2"),
    "a setting within a group that is none": (["--model", "knn", "--set", "tfidf.mindf=3"], "tfidf.mindf"),
    "an infinite number": (["--model", "knn", "--set", "power=.inf"], "power"),
    "not a number": (["--model", "knn", "--set", "power=.nan"], "power"),
    "an empty recipe": (["--recipe", ""], "recipe"),
    "a recipe of a model that is none": (["--recipe", "svm/reuters"], "no such recipe"),
    "an empty validation file": (["--model", "knn", "--valid", ""], "''"),
    "a validation file that is not there": (["--model", "knn", "--valid", "no.jsonl"], "no.jsonl: no such file"),
    "a validation file of another kind": (["--model", "knn", "--valid", "docs.xyz"], "docs.xyz"),
    "all documents for validation": (["--model", "knn", "--valid", "12"], "from 1 to 11"),
    "calibrated by nothing": (["--calibrate", "platt"], "--calibrate needs documents"),
    "tuned by nothing": (["--tune"], "--tune needs documents"),
    "an unknown option": (["--modle", "knn"], "--modle"),
    "an option without its value": (["--model"], "--model"),
    "another device": (["--model", "knn", "--device", "tpu"], "--device tpu"),
    "too many words": (["more.jsonl"], "more.jsonl"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_words_are_one_line_and_nothing_is_written(run: Run, tmp_path: Path, case: str) -> None:
    words, sentence = WRONG[case]
    before = sorted(tmp_path.iterdir())
    code, out, err = run("train", "docs.jsonl", "--out", "m", *words)
    assert (code, out) == (2, ""), err
    told = [line for line in err.splitlines() if not line.startswith(("docs.jsonl: 12", "no --model given: "))]
    assert len(told) == 1, err
    assert told[0].startswith("error: ")
    assert sentence in told[0]
    assert sorted(tmp_path.iterdir()) == before
