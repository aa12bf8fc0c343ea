"""`knn`: quality on a corpus, and the speed of its neighbour search beside scipy's sparse product.

    python -m benchmarks.speed.knn [--data DIR] [--corpus tibkat] [--validate]

The peer multiplies the test matrix with the transposed training matrix (scipy, in blocks of 512 rows, so that the
product fits into memory) and takes the k largest of each row with numpy's argpartition. Both find 50 neighbours.
`--validate` prints the grid on validation documents by which the defaults were chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.timing import arguments, corpus, side_by_side
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import Csr
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.knn import NearestNeighbours
from xmtc.search.sparse_index import SparseIndex
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

BLOCK = 512
SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def scipy_neighbours(queries: Csr, columns: Csr, k: int) -> list[object]:
    found: list[object] = []
    for start in range(0, queries.shape[0], BLOCK):
        product = (queries[start : start + BLOCK] @ columns).toarray()
        best = np.argpartition(-product, k, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(product, best, 1), axis=1)
        found.append(np.take_along_axis(best, order, 1))
    return found


def scipy_sparse_neighbours(queries: Csr, columns: Csr, k: int) -> list[object]:
    """The same without a dense block: each row's non-zeros are partitioned."""
    product = (queries @ columns).tocsr()
    found: list[object] = []
    for row in range(product.shape[0]):
        a, b = product.indptr[row], product.indptr[row + 1]
        values, ids = product.data[a:b], product.indices[a:b]
        best = np.argpartition(-values, min(k, len(values) - 1))[:k] if len(values) else np.zeros(0, int)
        found.append(ids[best[np.argsort(-values[best])]])
    return found


def show(name: str, model: NearestNeighbours, documents: Corpus) -> None:
    values = evaluate(model, documents).values
    print(f"{name}: " + "  ".join(f"{metric} {values[metric]:.2f}" for metric in SHOWN))


def validate(train: Corpus) -> None:
    rest, valid = train.split(0.1, seed=0)
    for idf in ("smooth", "plain"):
        for min_chars in (1, 2, 3):
            for power in (1.0, 2.0, 3.0, 4.0):
                for neighbours in (25, 50, 100):
                    settings = TfIdfSettings(idf=idf, min_chars=min_chars)
                    model = NearestNeighbours(neighbours=neighbours, power=power, tfidf=settings)
                    show(
                        f"idf={idf} min_chars={min_chars} power={power:g} neighbours={neighbours}",
                        model.fit(rest),
                        valid,
                    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--validate", action="store_true")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    if options.validate:
        validate(train)
        return
    model = NearestNeighbours().fit(train)
    show(f"knn on {options.corpus} ({len(test):,} test documents)", model, test)
    show("  with votes by similarity cubed", NearestNeighbours(power=3.0).fit(train), test)
    vectors, index = model.search_.vectors, model.search_.index
    assert isinstance(vectors, DocumentVectors) and isinstance(index, SparseIndex)
    queries, columns = vectors.transform(test), index.columns
    what = f"50 neighbours of {len(test):,} documents among {len(train):,}"
    peers: dict[str, Callable[[Csr, Csr, int], object]] = {
        "scipy product, sparse rows partitioned": scipy_sparse_neighbours,
        "scipy product, dense blocks partitioned": scipy_neighbours,
    }
    for peer, search in peers.items():
        side_by_side(what, lambda: index.nearest(queries, 50), peer, partial(search, queries, columns, 50))


if __name__ == "__main__":
    main()
