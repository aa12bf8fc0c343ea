"""Formats that identify labels by number, xmc and npz: where the names come from, and how pairs are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpora import assert_same, feature_corpus, rows

from xmtc.corpus.io import read, write
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, XmtcError


@pytest.mark.parametrize("name", ["docs.txt", "X.npz"])
def test_names_travel_in_a_label_file_beside(name: str, tmp_path: Path) -> None:
    corpus = feature_corpus(["red wine", "cheese", "bread"])
    write(corpus, tmp_path / name)
    assert (tmp_path / "labels.tsv").exists()
    assert_same(read(tmp_path / name), corpus)
    write(corpus, tmp_path / name)  # the same labels again are fine
    with pytest.raises(XmtcError, match="holds other labels"):
        write(feature_corpus(["x", "y", "z"]), tmp_path / name)


@pytest.mark.parametrize("name", ["docs.txt", "X.npz"])
def test_numbers_need_no_label_file(name: str, tmp_path: Path) -> None:
    write(feature_corpus(), tmp_path / name)
    assert not (tmp_path / "labels.tsv").exists()


def test_a_label_file_of_another_size_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "docs.txt").write_text("2 9 4\n0,3 1:0.5 8:2\n2 0:1\n")
    (tmp_path / "labels.tsv").write_text("label\na\nb\n")
    assert rows(read(tmp_path / "docs.txt")) == [{"0", "3"}, {"2"}]
    with pytest.raises(BadInput, match="4 labels, but the label set that was given has 2"):
        read(tmp_path / "docs.txt", label_set=tmp_path / "labels.tsv")


def test_a_given_label_set_names_by_position(tmp_path: Path) -> None:
    (tmp_path / "docs.txt").write_text("0,1 1:1\n")
    corpus = read(tmp_path / "docs.txt", label_set=LabelSet.of(["a", "b", "c"]))
    assert rows(corpus) == [{"a", "b"}]
    numbers = read(tmp_path / "docs.txt", label_set=LabelSet.of(["0"]))
    assert list(numbers.labels.keys) == ["0", "1"]


@pytest.mark.parametrize("name", ["X.trn.npz", "train_X.npz", "Y.npz"])
def test_names_of_pairs(name: str, tmp_path: Path) -> None:
    write(feature_corpus(), tmp_path / name)
    assert len(list(tmp_path.glob("*Y*.npz"))) == len(list(tmp_path.glob("*X*.npz"))) == 1
    assert_same(read(tmp_path / name), feature_corpus())


def test_features_alone_can_be_tagged(tmp_path: Path) -> None:
    write(feature_corpus(), tmp_path / "X.npz")
    (tmp_path / "Y.npz").unlink()
    assert read(tmp_path / "X.npz", unlabelled=True).targets.nnz == 0


def test_a_line_longer_than_what_detection_sees(tmp_path: Path) -> None:
    (tmp_path / "docs").write_text("7 " + " ".join(f"{i}:0.25" for i in range(20_000)) + "\n")
    corpus = read(tmp_path / "docs")
    assert corpus.features is not None
    assert corpus.features.nnz == 20_000


def test_index_base_one_and_odd_white_space(tmp_path: Path) -> None:
    path = tmp_path / "docs.xmc"
    path.write_text("1,3 1:0.5  9:2e0 \n\n \n5:1\n 2:1\n")
    corpus = read(path, index_base=1)
    assert rows(corpus) == [{"0", "2"}, set(), set(), set()]
    assert corpus.features is not None
    assert corpus.features.indices.tolist() == [0, 8, 4, 1]
