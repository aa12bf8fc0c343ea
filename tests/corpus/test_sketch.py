"""The sketch knows which share of documents it has seen: exactly for few, closely for many."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sketch import SIZE, Overlap, Sketch, document_hashes


def numbered(start: int, stop: int) -> Corpus:
    return Corpus.of([f"document {at}" for at in range(start, stop)])


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_few_documents_are_compared_exactly(share: float) -> None:
    seen = Sketch.of(numbered(0, 500))
    start = 500 - round(share * 300)
    found = seen.overlap(numbered(start, start + 300))
    assert found == Overlap(round(share * 300), 300, exact=True)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.9])
def test_many_documents_are_estimated_closely(share: float) -> None:
    seen = Sketch.of(numbered(0, 20_000))
    start = 20_000 - round(share * 5_000)
    found = seen.overlap(numbered(start, start + 5_000))
    assert found.share == pytest.approx(share, abs=0.08)
    assert found.is_loud == (share >= 0.2)
    assert not found.exact


def test_the_sketch_of_two_parts_is_that_of_the_whole() -> None:
    whole, parts = Sketch.of(numbered(0, 4000)), Sketch.of(numbered(0, 1500)) | Sketch.of(numbered(1000, 4000))
    np.testing.assert_array_equal(whole.hashes, parts.hashes)
    assert len(whole.hashes) == SIZE


def test_it_does_not_depend_on_order_or_repetition() -> None:
    documents = numbered(0, 3000)
    assert Sketch.of(documents).to_hex() == Sketch.of(documents[::-1]).to_hex()
    assert Sketch.of(documents[[0, 1, 0]]).to_hex() == Sketch.of(documents[:2]).to_hex()


def test_the_hashes_are_the_same_on_every_machine() -> None:
    assert Sketch.of(Corpus.of(["red apple"])).to_hex() == "d3d72525c8ba1e42"


def test_stored_and_read_again() -> None:
    seen = Sketch.of(numbered(0, 2000))
    assert len(seen.to_hex()) == 16 * SIZE
    np.testing.assert_array_equal(Sketch.from_hex(seen.to_hex()).hashes, seen.hashes)
    assert Sketch.from_hex("").overlap(numbered(0, 3)) == Overlap(0, 3, exact=True)


@pytest.mark.parametrize(
    "text",
    ["0", "x" * 16, "0" * 32, "f" * 16 + "0" * 16, "0" * (16 * SIZE + 16), 7, None, ["0" * 16], "é" * 16],
)
def test_what_is_no_sketch_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        Sketch.from_hex(text)  # type: ignore[arg-type]


def test_documents_without_text_say_nothing() -> None:
    seen = Sketch.of(Corpus.of(["", "", "one"]))
    assert len(seen.hashes) == 1
    assert seen.overlap(Corpus.of(["", "", "", "two"])) == Overlap(0, 1, exact=True)


def test_features_are_compared_where_there_are_no_texts() -> None:
    matrix = csr_array(np.array([[0, 1.5, 0], [2, 0, 1], [0, 0, 0]], np.float32))
    corpus = replace(Corpus.of(["", "", ""]), texts=None, features=matrix)
    assert len(document_hashes(corpus)) == 2
    assert Sketch.of(corpus[:1]).overlap(corpus) == Overlap(1, 2, exact=True)
    wider = replace(corpus, features=csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(3, 99)))
    assert Sketch.of(corpus).overlap(wider).share == 1


def test_a_corpus_of_labels_alone_has_no_hashes() -> None:
    assert len(document_hashes(replace(Corpus.of(["a"]), texts=None))) == 0


@pytest.mark.parametrize(
    ("overlap", "loud"),
    [
        (Overlap(0, 0, exact=False), False),
        (Overlap(1, 3, exact=False), False),
        (Overlap(3, 9, exact=False), True),
        (Overlap(19, 100, exact=True), False),
        (Overlap(1, 1, exact=True), True),
    ],
)
def test_few_duplicates_are_no_alarm(overlap: Overlap, loud: bool) -> None:
    assert overlap.is_loud is loud
