"""A conversion never replaces what it reads, nor, unless told to, any other file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xmtc.cli import main
from xmtc.corpus import folder
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read, write
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import check_output
from xmtc.errors import BadInput, XmtcError

XMTC = str(Path(sys.executable).with_name("xmtc"))
LINES = "".join(f'{{"id": "{i}", "text": "document {i}", "labels": ["a"], "author": "me"}}\n' for i in range(20))
# What is read, what is written, and further words; "corpus" is a folder with train, test and labels, as made below.
OVER_WHAT_IS_READ = {
    "a file onto itself": ["docs.jsonl", "docs.jsonl"],
    "by another name": ["docs.jsonl", "./corpus/../docs.jsonl"],
    "through a link": ["docs.jsonl", "link.jsonl"],
    "from a link": ["link.jsonl", "docs.jsonl"],
    "through a hard link": ["docs.jsonl", "hard.jsonl"],
    "a folder onto itself": ["corpus", "corpus"],
    "a folder onto itself, split": ["corpus", "corpus/", "--test", "0.5"],
    "a folder through a link": ["corpus", "folder-link"],
    "the other part of a folder": ["corpus", "corpus/test.jsonl.gz"],
    "a file into its folder": ["corpus/train.jsonl.gz", "corpus"],
    "another file, but its labels": ["corpus/more.jsonl", "corpus"],
    "the labels beside it": ["corpus/more.jsonl", "corpus/labels.tsv"],
    "the labels that are named": ["docs.jsonl", "corpus/labels.tsv", "--label-set", "corpus/labels.tsv"],
    "the other file of a pair": ["few_labels.txt", "few_texts.txt"],
    "a pair's labels": ["few_texts.txt", "few_labels.txt", "--to", "jsonl"],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("docs.jsonl").write_text(LINES)
    Path("few_texts.txt").write_text("one\ntwo\n")
    Path("few_labels.txt").write_text("a\nb\n")
    Path("link.jsonl").symlink_to("docs.jsonl")
    os.link("docs.jsonl", "hard.jsonl")
    assert main(["convert", "docs.jsonl", "corpus", "--test", "0.2"]) == 0
    Path("corpus/more.jsonl").write_text(LINES)
    Path("folder-link").symlink_to("corpus")
    return tmp_path


def contents() -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(Path().rglob("*")) if file.is_file()}


@pytest.mark.parametrize("words", OVER_WHAT_IS_READ.values(), ids=OVER_WHAT_IS_READ.keys())
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
def test_what_is_read_is_never_replaced(words: list[str], force: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    assert main(["convert", *words, *force]) == 2
    assert "write to another" in capsys.readouterr().err
    assert contents() == before


def test_a_file_that_exists_is_replaced_only_by_force(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.csv").write_text("mine")
    assert main(["convert", "docs.jsonl", "out.csv"]) == 2
    assert capsys.readouterr().err == (
        "error: out.csv: exists already; write to another place, or replace it with --force\n"
    )
    assert Path("out.csv").read_text() == "mine"
    assert main(["convert", "docs.jsonl", "out.csv", "--force"]) == 0
    assert len(read("out.csv")) == 20


def test_a_folder_that_holds_a_corpus_is_replaced_only_by_force() -> None:
    before = contents()
    assert main(["convert", "docs.jsonl", "corpus", "--test", "0.5"]) == 2
    assert contents() == before
    assert main(["convert", "docs.jsonl", "corpus", "--test", "0.5", "--force"]) == 0
    assert len(read("corpus", part="test")) == 10


def test_a_dangling_link_counts_as_a_file_that_exists() -> None:
    Path("dangling.csv").symlink_to("nowhere")
    assert main(["convert", "docs.jsonl", "dangling.csv"]) == 2
    assert Path("dangling.csv").is_symlink()


def test_a_pair_of_matrices_is_kept_too() -> None:
    assert main(["convert", "docs.jsonl", "X.npz", "--tfidf"]) == 0
    before = contents()
    assert main(["convert", "X.npz", "Y.npz", "--force"]) == 2
    assert main(["convert", "docs.jsonl", "X.npz", "--tfidf"]) == 2
    assert contents() == before


@pytest.mark.parametrize("command", ["convert - docs.jsonl --force < docs.jsonl", "convert docs.jsonl - >> docs.jsonl"])
def test_redirected_streams_are_seen(command: str) -> None:
    run = subprocess.run(f"{XMTC} {command}", shell=True, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "write to another" in run.stderr
    assert Path("docs.jsonl").read_text() == LINES


def test_test_goes_with_a_folder_only(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-"], ["out", "--to", "csv"]):
        assert main(["convert", "docs.jsonl", *words, "--test", "0.5"]) == 2
        assert "--test writes a folder" in capsys.readouterr().err


def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(BadInput, match="is a device or a pipe"):
        check_output("/dev/null")


def test_in_python_a_file_is_replaced_by_a_complete_one() -> None:
    corpus = read("docs.jsonl", keep=["author"])
    write(corpus, "docs.jsonl")
    assert read("docs.jsonl", keep=["author"]).fingerprint() == corpus.fingerprint()


def test_labels_that_another_part_needs_are_kept() -> None:
    before = contents()
    with pytest.raises(XmtcError, match=r"corpus/labels\.tsv holds labels that the test part there may need"):
        folder.write({"train": Corpus.of(["other"], [["b"]])}, "corpus")
    assert contents() == before
    folder.write({"train": Corpus.of(["other"], [["b"]], LabelSet.of(["a", "b"]))}, "corpus")
    assert list(read("corpus", part="test").labels.keys) == ["a", "b"]
