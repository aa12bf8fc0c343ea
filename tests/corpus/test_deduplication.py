"""Dropping documents that repeat earlier ones: nothing is lost silently."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from xmtc.cli import main
from xmtc.corpus import folder
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.deduplication import METHODS, Method, deduplicate, leaked
from xmtc.corpus.io import read
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError

documents = st.lists(
    st.tuples(st.sampled_from(["a b", "A b!", "c", "", " "]), st.sets(st.sampled_from("xyz"))), min_size=1
)


@given(documents, st.sampled_from(["exact", "near"]))
def test_every_document_is_kept_or_accounted_for(given: list[tuple[str, set[str]]], method: Method) -> None:
    corpus = Corpus.of([text for text, _ in given], [sorted(tags) for _, tags in given])
    result = deduplicate(corpus, method)
    assert len(result.corpus) + len(result.dropped) == len(corpus)
    assert not set(result.dropped.tolist()) & set(result.kept.tolist())
    texts = [text for text, _ in given if text.strip()]
    if method == "exact":
        left = [text for text in result.corpus.texts or () if text.strip()]
        assert left == list(dict.fromkeys(texts))
        assert result.lost_labels == []
        assert result.other_labels == 0
    used = {tag for _, tags in given for tag in tags}
    counts = result.corpus.label_counts
    assert used == {*result.lost_labels, *(key for at, key in enumerate(corpus.labels.keys) if counts[at])}
    assert len(deduplicate(result.corpus, method).dropped) == 0


def test_labels_of_a_near_duplicate_stay_its_own_and_are_counted() -> None:
    corpus = Corpus.of(["a b", "a b", "A b!"], [["x"], ["y"], ["z", "x"]])
    result = deduplicate(corpus, "near")
    assert result.corpus.labels_of(0) == [0, 1]
    assert (result.gained_labels, result.other_labels, result.lost_labels) == (1, 1, ["z"])


def test_documents_between_test_and_training() -> None:
    train, test = Corpus.of(["a b", "c", ""]), Corpus.of(["A b!", "a b", "", "d"])
    assert [leaked(test, train, method).tolist() for method in METHODS] == [[1], [0, 1]]  # type: ignore[arg-type]


def test_features_without_texts_cannot_be_compared() -> None:
    features = csr_array(np.eye(2, dtype=np.float32))
    corpus = Corpus(label_matrix([0], np.array([0, 1, 1]), 1), LabelSet.of(["a"]), features=features)
    with pytest.raises(XmtcError, match="has no texts"):
        deduplicate(corpus)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    train = Corpus.of(["a b", "c d", "a b", "A b!"], [["x"], ["y"], ["z"], ["w"]])
    folder.write({"train": train, "test": Corpus.of(["c, d", "new"], [["y"], ["y"]])}, "corpus")
    return tmp_path


def test_convert_says_what_it_drops(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "corpus", "near.jsonl", "--dedup", "near", "--label-set", "corpus/labels.tsv"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "copies and near-duplicates dropped: 2 of 4 documents, such as 2, which repeats 0",
        "kept documents that now have the labels of exact copies too: 1",
        "dropped documents with a label that the one kept for them has not: 1; "
        "no document has these labels any more: 1 (w)",
        "documents of corpus's test part that repeat or nearly repeat one of these: 1; they stay there",
        "near.jsonl: 2 documents, 4 labels",
    ]
    kept = read("near.jsonl")
    assert list(kept.ids or ()) == ["0", "1"]
    assert len(read("corpus")) == 4


def test_convert_exact_keeps_what_only_looks_alike(here: Path) -> None:
    assert main(["convert", "corpus", "exact.jsonl", "--dedup", "exact"]) == 0
    assert len(read("exact.jsonl")) == 3


def test_an_unknown_way_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "corpus", "x.jsonl", "--dedup", "fuzzy"]) == 2
    assert "--dedup fuzzy: exact or near was expected" in capsys.readouterr().err
