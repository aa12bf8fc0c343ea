"""A model remembers how its training documents were read, and reads those to come in the same way."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.cli.read_options import Reading
from xmtc.errors import BadModelFolder
from xmtc.models.registry import load
from xmtc.storage import opening

Run = Callable[..., tuple[int, str, str]]
TABLE = "nr,title,body,tags\n7,red fruit,sweet,apple/food\n8,blue sky,wide,weather\n"
FIELDS = ("--text-field", "title,body", "--labels-field", "tags", "--id-field", "nr", "--label-separator", "/")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        code = main(list(map(str, words)))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def tagger(tmp_path: Path, run: Run) -> Path:
    (tmp_path / "docs.csv").write_text(TABLE)
    code, _, error = run("train", tmp_path / "docs.csv", "--model", "prior", "--out", tmp_path / "tagger", *FIELDS)
    assert code == 0, error
    return tmp_path / "tagger"


def test_the_manifest_has_what_the_user_said_and_nothing_else(tagger: Path, run: Run) -> None:
    assert opening(tagger).manifest["reading"] == {
        "text_field": "title,body",
        "labels_field": "tags",
        "id_field": "nr",
        "label_separator": "/",
    }
    (tagger.parent / "plain.csv").write_text("text,labels\na,b\n")
    run("train", tagger.parent / "plain.csv", "--model", "prior", "--out", tagger.parent / "plain")
    assert "reading" not in opening(tagger.parent / "plain").manifest


def test_predict_and_evaluate_read_the_same_fields_and_say_so(tagger: Path, run: Run) -> None:
    said = "read as the model's training documents were: --text-field title,body --labels-field tags"
    code, out, error = run("predict", tagger, tagger.parent / "docs.csv", "--k", 1)
    assert code == 0 and said in error
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["7", "8"]
    code, out, error = run("evaluate", tagger, tagger.parent / "docs.csv", "--json", "-")
    assert code == 0 and said in error
    assert json.loads(out)["P@1"] == 50


def test_what_the_user_says_comes_first(tagger: Path, run: Run) -> None:
    (tagger.parent / "new.jsonl").write_text('{"text": "red", "id": 1}\n')
    code, _, error = run("predict", tagger, tagger.parent / "new.jsonl")
    assert code == 2 and "no field 'title'" in error
    code, out, error = run("predict", tagger, tagger.parent / "new.jsonl", "--text-field", "text", "--id-field", "id")
    assert code == 0 and json.loads(out)["id"] == "1"
    assert "--text-field" not in error


def test_lines_without_fields_are_read_without_a_word(tagger: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"red fruit\n")))
    code, out, error = run("predict", tagger, "-")
    assert code == 0 and json.loads(out)["id"] == "0" and error == ""


def test_usual_names_are_read_without_a_word(tmp_path: Path, run: Run) -> None:
    (tmp_path / "docs.csv").write_text("text,labels\na,b\n")
    run("train", tmp_path / "docs.csv", "--model", "prior", "--out", tmp_path / "m", "--text-field", "text")
    assert run("predict", tmp_path / "m", tmp_path / "docs.csv")[2] == ""


def test_a_model_that_is_loaded_and_saved_again_still_knows(tagger: Path) -> None:
    load(tagger).save(tagger.parent / "copy")
    assert Reading().for_model(tagger.parent / "copy").text_field == "title,body"
    assert Reading(text_field="text").for_model(load(tagger.parent / "copy")).text_field == "text"


def test_the_first_number_of_features_is_remembered(tmp_path: Path, run: Run) -> None:
    (tmp_path / "docs.xmc").write_text("1 1:1 2:1\n2 3:1\n")
    run("train", tmp_path / "docs.xmc", "--model", "prior", "--out", tmp_path / "m", "--index-base", 1)
    code, out, error = run("predict", tmp_path / "m", tmp_path / "docs.xmc", "--k", 1)
    assert code == 0 and "--index-base 1" in error
    assert json.loads(out.splitlines()[0])["labels"][0]["label"] == "0"


@pytest.mark.parametrize("reading", [{"text_field": 7}, {"index_base": 5}, {"format": "jsonl"}])
def test_a_manifest_that_says_nonsense_is_an_error(reading: dict[str, object], tagger: Path) -> None:
    model = load(tagger)
    model.reading_ = reading
    with pytest.raises(BadModelFolder, match="train it again"):
        Reading().for_model(model)
