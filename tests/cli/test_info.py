"""What `xmtc info` says about a corpus beyond its sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from contract_corpus import small_corpus

from xmtc.cli import main
from xmtc.models.registry import make

LONG = "the ship left the harbour at dawn and was never seen again by the people of the town"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [
        ("1", LONG, ["Email", "x"]),
        ("1", LONG.upper(), ["email "]),
        ("2", "Das ist ein Haus und kein Boot", ["x"]),
    ]
    lines = [json.dumps({"id": id, "text": text, "labels": labels}) for id, text, labels in rows]
    Path("docs.jsonl").write_text("\n".join(lines))
    return tmp_path


def info(*words: str) -> int:
    return main(["info", *words])


def test_the_most_frequent_labels_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert info("docs.jsonl", "--top", "1") == 0
    assert "most frequent labels\n2  66.7%  x\n\n" in capsys.readouterr().out
    assert info("docs.jsonl", "--top", "0") == 0
    assert "most frequent labels" not in capsys.readouterr().out


def test_names_are_shown_with_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.tsv").write_text("label\tname\nx\tShips\n")
    assert info("docs.jsonl") == 0
    assert "  Ships  [x]\n" in capsys.readouterr().out


def test_labels_and_ids_that_look_like_mistakes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert info("docs.jsonl") == 0
    out = capsys.readouterr().out
    assert "hint: labels that differ only in case or blanks: 'Email' and 'email '; they are learned apart" in out
    assert "hint: labels with stray blanks: 1\n" in out
    assert "documents with a repeated id     1 (33.3%)" in out


def test_labels_packed_into_one_string_get_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f'{{"text": "{i}", "labels": ["a{i % 3};b{i % 2}"]}}' for i in range(30)]
    Path("packed.jsonl").write_text("\n".join(lines))
    assert info("packed.jsonl") == 0
    assert "hint: labels look like several in one string, separated by ';': say --label-separator ';'" in (
        capsys.readouterr().out
    )


def test_near_duplicates_and_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert info("docs.jsonl", "--json", "figures.json", "--html", "page.html") == 0
    out = capsys.readouterr().out
    assert "near-duplicate texts             1 (33.3%), in 1 group" in out
    assert "languages                        English 66.7%, German 33.3%" in out
    assert "near-duplicates, for example\nsimilarity 1.00\n  1: the ship" in out
    figures = json.loads(Path("figures.json").read_text())
    assert figures["languages"] == {"en": 2, "de": 1}
    assert figures["near_duplicates"] == 1
    assert figures["near_duplicate_examples"][0]["ids"] == ["1", "1"]
    assert figures["frequent_labels"][0] == {"label": "x", "name": "x", "documents": 2, "share": 2 / 3}
    page = Path("page.html").read_text()
    for part in ("Most frequent labels", "German", "Similarity 1.00", "Hint:"):
        assert part in page


def test_quick_leaves_out_what_takes_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert info("docs.jsonl", "--quick", "--json", "figures.json") == 0
    assert "languages" not in capsys.readouterr().out
    assert json.loads(Path("figures.json").read_text())["near_duplicates"] is None


@pytest.mark.parametrize("command", [["info"], ["convert", "--to", "jsonl", "out"]])
def test_a_missing_label_column_is_an_error_unless_said(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("docs.csv").write_text("text,tags\na b,x\n")
    Path("plain.txt").write_text("just a text\n")
    name, *rest = command
    for file, problem in (("docs.csv", "no column 'labels'"), ("plain.txt", "unknown format")):
        assert main([name, file, *rest[2:], *rest[:2]]) == 2
        err = capsys.readouterr().err
        assert problem in err
        assert "--unlabelled" in err
    assert main([name, "plain.txt", *rest[2:], *rest[:2], "--unlabelled"]) == 0


def test_a_test_part_may_be_without_labels(capsys: pytest.CaptureFixture[str]) -> None:
    Path("corpus").mkdir()
    Path("corpus/train.csv").write_text("text,labels\na b,x\n")
    Path("corpus/test.csv").write_text("text\nc d\n")
    assert info("corpus") == 0
    assert "test documents without labels 1 (100.0%)" in " ".join(capsys.readouterr().out.split())


def test_a_result_does_not_replace_the_corpus(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("docs.jsonl").read_bytes()
    for option in ("--json", "--html"):
        assert info("docs.jsonl", option, "docs.jsonl") == 2
        assert "is read, and writing would replace it" in capsys.readouterr().err
    assert Path("docs.jsonl").read_bytes() == before


def test_the_page_of_a_model_is_that_of_the_search_of_auto(capsys: pytest.CaptureFixture[str]) -> None:
    corpus = small_corpus(120)
    make("auto", budget="20s", methods=["knn", "rocchio"]).fit(corpus).save("tagger")
    assert info("tagger", "--html", "auto.html") == 0
    assert "What was tried" in Path("auto.html").read_text()
    make("knn").fit(corpus).save("plain")
    assert info("plain", "--html", "plain.html") == 2
    assert "is for a corpus or a model of auto" in capsys.readouterr().err
    assert not Path("plain.html").exists()
