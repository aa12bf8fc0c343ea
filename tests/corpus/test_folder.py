"""A corpus as a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from xmtc.corpus import folder
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.io import read, write
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, XmtcError

TRAIN = '{"text": "a", "labels": ["x"]}\n'
TEST = '{"text": "b", "labels": ["y"]}\n'


def text(corpus: Corpus) -> str:
    assert corpus.texts is not None
    return corpus.texts[0]


def test_parts_and_names(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(TRAIN)
    (tmp_path / "test.csv").write_text("text,labels\nb,y\n")
    (tmp_path / "labels.tsv").write_text("label\tname\nx\tEx\ny\tWy\n")
    (tmp_path / "train.log").write_text("no corpus")
    train, test = read(tmp_path), read(tmp_path, part="test")
    assert folder.has_part(tmp_path, "test")
    assert not folder.has_part(tmp_path, "valid")
    assert (text(train), text(test)) == ("a", "b")
    assert train.labels == test.labels
    assert test.labels.name(test.labels_of(0)[0]) == "Wy"


@pytest.mark.parametrize(
    ("name", "other"), [("train_texts.txt", "train_labels.txt"), ("train_raw_texts.txt", "train_labels.txt")]
)
def test_pairs(name: str, other: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a\n")
    (tmp_path / other).write_text("x\n")
    assert text(read(tmp_path)) == "a"


def test_missing_part_lists_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(TRAIN)
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(
        BadInput, match=r"no test file \(there is: notes.md, train.jsonl\); name a file itself, or put test"
    ):
        read(tmp_path, part="test")


def test_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no train file \(there is: nothing\)"):
        read(tmp_path)


def test_two_candidates_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text(TRAIN)
    (tmp_path / "train.csv").write_text("text,labels\n")
    with pytest.raises(BadInput, match=r"two files could be its train part: train.csv and train.jsonl; name the file"):
        read(tmp_path)


def test_writing_keeps_names_and_unused_labels(tmp_path: Path) -> None:
    labels = LabelSet.of(["x", "y", "unused"], names=["Ex", "Wy", "Un"], parents=[[], ["x"], []])
    train = Corpus.of(["a"], [["x"]], labels)
    test = Corpus.of(["b"], [["y", "new"]], labels)
    folder.write({"train": train, "test": test}, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "labels.tsv",
        "test.jsonl.gz",
        "train.jsonl.gz",
    ]
    back = read(tmp_path / "out", part="test")
    assert back.labels == labels.extend(["new"])
    assert text(back) == "b"


def test_a_path_without_suffix_is_a_folder(tmp_path: Path) -> None:
    write(Corpus.of(["a"], [["x"]]), tmp_path / "out")
    write(Corpus.of(["b"], [["x"]]), tmp_path / "out")  # it may be written again
    assert text(read(tmp_path / "out")) == "b"


def test_writing_never_makes_a_second_candidate(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,labels\n")
    with pytest.raises(XmtcError, match=r"has a train part already, train.csv; write to another folder"):
        write(Corpus.of(["a"], [["x"]]), tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="the folder cannot be made"):
        write(Corpus.of(["a"], [["x"]]), tmp_path / "file")
