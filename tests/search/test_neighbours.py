"""Who is whose neighbour: the rule that no text finds itself or its copies, for sparse and dense vectors alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import make_csr
from xmtc.errors import BadModelFolder
from xmtc.search import neighbours
from xmtc.search.neighbours import DocumentSearch, Neighbours, SearchSettings, TextVectors
from xmtc.storage import opening, writing
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import MeanVectors, token_idf
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.word_tokenizer import WordTokenizer

WORDS = ["ship", "sea", "bread", "oven", "sky"]
#: Texts of few words: many copies of each other, and many that are near.
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join), min_size=1, max_size=12)
DENSE = pytest.mark.needs("tokenizers", "faiss")
KINDS = [pytest.param("mean", marks=DENSE), pytest.param("tfidf_mean", marks=DENSE), "tfidf"]


def made(documents: list[str], **options: Any) -> tuple[DocumentSearch, Any]:
    """A search over documents, and their vectors."""
    corpus = Corpus.of(documents)
    settings = SearchSettings.model_validate(options)
    assert corpus.texts is not None
    vectors: DocumentVectors | MeanVectors
    if settings.vectors == "tfidf":
        vectors = DocumentVectors(TfIdfSettings())
        matrix: Any = vectors.fit_transform(Corpus.of([*documents, "ship"]))[: len(documents)]
    else:
        tokenizer = WordTokenizer.train(Corpus.of([*documents, "ship"]).texts)  # type: ignore[arg-type]
        table = np.random.default_rng(0).uniform(0.1, 1, (len(tokenizer), 4)).astype(np.float32)
        tokens = tokenizer.encode(corpus.texts)
        idf = token_idf(tokens, len(tokenizer)) if settings.vectors == "tfidf_mean" else None
        vectors = MeanVectors(tokenizer, table, idf)
        matrix = vectors.transform(corpus)
    return DocumentSearch.of(settings, vectors, matrix, corpus.texts), matrix


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(texts, st.integers(1, 5))
def test_no_document_is_its_own_neighbour_nor_is_a_copy(kind: str, documents: list[str], k: int) -> None:
    search, matrix = made(documents, vectors=kind)
    own = search.nearest_of_training(matrix, k)
    asked = search.nearest(Corpus.of(documents), k)
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    products = dense.astype(float) @ dense.astype(float).T
    for row, text in enumerate(documents):
        allowed = [at for at, other in enumerate(documents) if other != text and products[row, at] > 1e-6]
        for found in (own, asked):  # the same rule for training and for other documents
            ids = [at for at in found.ids[row].tolist() if at >= 0]
            assert set(ids) <= set(allowed)
            assert len(ids) == min(k, len(allowed)), "copies do not take the places of others"
            near = sorted((products[row, at] for at in allowed), reverse=True)[: len(ids)]
            np.testing.assert_allclose(found.similarities[row, : len(ids)], near, atol=1e-5)
            assert found.ids[row].tolist() == ids + [-1] * (k - len(ids))


@pytest.mark.parametrize("kind", KINDS)
def test_with_same_texts_only_the_document_itself_is_left_out(kind: str) -> None:
    search, matrix = made(["ship sea", "ship sea", "bread"], vectors=kind, same_texts=True)
    assert search.nearest_of_training(matrix, 1).ids.tolist()[:2] == [[1], [0]]
    assert search.nearest(Corpus.of(["ship sea"]), 2).ids.tolist() == [[0, 1]]


@pytest.mark.parametrize("kind", KINDS)
def test_near_copies_can_be_left_out(kind: str) -> None:
    documents = ["ship sea sky", "ship sea sky sky", "ship oven bread bread"]
    without = made(documents, vectors=kind)[0].nearest(Corpus.of(["sky ship sea"]), 3)
    limit = float(without.similarities[0, 1:].max()) + 1e-4
    found = made(documents, vectors=kind, max_similarity=limit)[0].nearest(Corpus.of(["sky ship sea"]), 3)
    assert found.ids[0].tolist()[: (found.ids[0] >= 0).sum()] == [at for at in without.ids[0].tolist() if at > 0]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=30)
@given(texts, st.integers(1, 4), st.sampled_from([0.3, 0.7, 0.95]))
def test_a_limit_is_for_training_documents_and_for_others_if_asked(
    kind: str, documents: list[str], k: int, limit: float
) -> None:
    search, matrix = made(documents, vectors=kind, max_similarity=limit)
    new = Corpus.of(["sky ship sea"])
    unlimited = made(documents, vectors=kind)[0].nearest(new, k)
    found = search.nearest(new, k, limited=False)
    np.testing.assert_array_equal(found.ids, unlimited.ids)
    np.testing.assert_array_equal(found.similarities, unlimited.similarities)
    assert (search.nearest(new, k).similarities <= limit).all()
    own = search.nearest_of_training(matrix, k)
    dense = matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    products = dense.astype(float) @ dense.astype(float).T
    for row, text in enumerate(documents):
        near = [products[row, at] for at, other in enumerate(documents) if other != text]
        allowed = sorted((each for each in near if 1e-6 < each <= limit), reverse=True)
        if not any(abs(each - limit) < 1e-5 for each in near):
            np.testing.assert_allclose(own.similarities[row], (allowed + [0.0] * k)[:k], atol=1e-5)


def test_many_copies_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = ["ship sea"] * 40 + ["ship", "sea", "sea bread"]
    search, matrix = made(documents, vectors="tfidf")
    asked: list[int] = []
    real = search.index.nearest

    def nearest(queries: Any, k: int) -> Any:
        asked.append(k)
        return real(queries, k)

    monkeypatch.setattr(search.index, "nearest", nearest)
    found = search.nearest_of_training(matrix, 3)
    assert {*found.ids[0].tolist()} == {40, 41, 42}
    assert asked == [3 + neighbours.SPARE, 4 * (3 + neighbours.SPARE), 16 * (3 + neighbours.SPARE)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_near(kind: str) -> None:
    search, matrix = made(["ship"], vectors=kind)
    assert search.nearest_of_training(matrix, 2).ids.tolist() == [[-1, -1]]
    assert search.nearest(Corpus.of(["", "unheard of"]), 2).ids.tolist() == [[-1, -1]] * 2


def test_shares_of_votes() -> None:
    near = Neighbours(np.array([[0, 2], [1, -1], [-1, -1]], np.int32), np.array([[0.8, 0.4], [0.5, 0], [0, 0]], "f4"))
    targets = make_csr(np.ones(4, np.float32), np.array([0, 1, 1, 2]), np.array([0, 2, 3, 4]), (3, 3))
    np.testing.assert_allclose(
        near.shares(2.0, targets).toarray(), [[0.8, 0.8, 0.2], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], atol=1e-6
    )
    assert near.top(1).ids.tolist() == [[0], [1], [-1]]


@pytest.mark.parametrize("kind", KINDS)
def test_words_share_the_similarity(kind: str) -> None:
    search, _ = made(["ship sea", "bread oven", "sea sky"], vectors=kind)
    found = search.nearest(Corpus.of(["sea ship sky sky"]), 3)
    rows = found.ids[0][found.ids[0] >= 0]
    words, parts = search.shares("sea ship sky sky", rows)
    assert set(words) == {"sea", "ship", "sky"}
    np.testing.assert_allclose(parts.sum(0), found.similarities[0][: len(rows)], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_and_extended(kind: str, tmp_path: Path) -> None:
    documents = ["ship sea", "bread oven", "sea sky", "bread oven"]
    search, _ = made(documents, vectors=kind)
    with writing(tmp_path / "model", "knn", {}, {}) as folder:
        folder.labels(LabelSet.of(["a"]))
        search.save(folder)

    def loaded(count: int) -> DocumentSearch:
        reader, vectors = opening(tmp_path / "model"), search.vectors
        again: TextVectors
        if isinstance(vectors, MeanVectors):
            again = MeanVectors.load(reader, vectors.idf is not None, None)
        else:
            again = DocumentVectors.load(reader, TfIdfSettings())
        return DocumentSearch.load(reader, search.settings, again, count)

    queries = Corpus.of(["sea", "bread oven"])
    for other in (loaded(4), loaded(4).extended(Corpus.of(["sea sea", "bread oven"]))):
        assert other.nearest(queries, 2).ids[1].tolist() == search.nearest(queries, 2).ids[1].tolist()
    assert 4 in loaded(4).extended(Corpus.of(["sea sea"])).nearest(queries, 3).ids[0].tolist()
    with pytest.raises(BadModelFolder):
        loaded(5)
