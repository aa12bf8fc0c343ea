"""Neighbour search: exact for all training documents of a corpus, and approximate among a million made-up vectors.

    python -m benchmarks.scale.neighbours [--data DIR] [--corpus tibkat] [--words-file FILE] [--neighbours 5]
                                    [--vectors 1000000] [--dimensions 100] [--queries 1000000] [--cap 4] [--skip corpus]

First, for each kind of document vectors, every training document of a corpus looks for its nearest others, compared
with all (`index=flat`); the time includes making the vectors, but not learning or reading the words' vectors. Then
made-up unit vectors are put into an index whose kind their number decides, and every vector looks for its ten nearest.
They are normally distributed, the variance of dimension i being i ** -1.3: as many of them as `tibkat` has documents
are as hard to search as its means of word vectors, an index having to look into 5 % of its cells for either. The recall
is the share of the ten nearest others that are found, for 1,000 of them, against a comparison with all. This part runs
in a process of its own, which may not take more than `--cap` GiB. Exit code 1 if the recall is below 0.95.
"""

from __future__ import annotations

import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.scale.linear import peak_mb
from benchmarks.timing import arguments, corpus
from xmtc.models.knn import KnnConfig
from xmtc.models.neighbour_vectors import fit_vectors
from xmtc.search.dense_index import DenseIndex
from xmtc.search.neighbours import DocumentSearch, SearchSettings, VectorKind
from xmtc.text.embedding_table import LEARN, WordSettings, words_of
from xmtc.text.mean_embeddings import unit

FALL, BLOCK = 1.3, 100_000
JUDGED, RECALL_AT, WANTED = 1000, 10, 0.95


def corpus_neighbours(data: Path, name: str, file: str, neighbours: int) -> None:
    train, _ = corpus(data, name)
    assert train.texts is not None
    words = WordSettings(vectors=file)
    tokenizer, tokens, table = words_of(words, train.texts, seed=0)
    kinds: list[VectorKind] = ["mean", "tfidf_mean", "tfidf"]
    for kind in kinds:
        start = time.perf_counter()
        settings = SearchSettings(vectors=kind, index="flat")
        config = KnnConfig(search=settings.model_dump(), words=words)
        vectors, matrix = fit_vectors(config, train, (tokenizer, tokens, table))
        search = DocumentSearch.of(settings, vectors, matrix, train.texts)
        made = time.perf_counter()
        found = search.nearest_of_training(matrix, neighbours)
        end = time.perf_counter()
        print(
            f"{name}, {kind}: vectors and index of {len(train):,} documents {made - start:.1f} s, {neighbours} "
            f"neighbours of each {end - made:.1f} s; the nearest is {found.similarities[:, 0].mean():.3f} near",
            flush=True,
        )


def made_up(count: int, dimensions: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    spread = np.arange(1, dimensions + 1, dtype=np.float32) ** np.float32(-FALL / 2)
    vectors = np.empty((count, dimensions), np.float32)
    for start in range(0, count, BLOCK):
        rows = min(BLOCK, count - start)
        vectors[start : start + rows] = unit(rng.standard_normal((rows, dimensions), np.float32) * spread)
    return vectors


def million(count: int, dimensions: int, queries: int, cap: float) -> float:
    """Prints times, memory and recall; returns the recall."""
    resource.setrlimit(resource.RLIMIT_DATA, (int(cap * 2**30), resource.RLIM_INFINITY))
    vectors = made_up(count, dimensions)
    start = time.perf_counter()
    index = DenseIndex.of(vectors)
    made = time.perf_counter()
    ids, _ = index.nearest(vectors[:queries], RECALL_AT + 1)
    end = time.perf_counter()
    print(
        f"{count:,} x {dimensions} vectors, index {index.kind}"
        + ("" if index.centres is None else f" ({len(index.centres):,} cells, {index.probes} looked into)")
        + f": made in {made - start:.1f} s, {len(ids):,} queries in {end - made:.1f} s, together {end - start:.1f} s, "
        f"peak memory {peak_mb() / 1024:.2f} GiB",
        flush=True,
    )
    rows = np.random.default_rng(1).permutation(len(ids))[:JUDGED]
    exact, _ = DenseIndex(vectors).nearest(vectors[rows], RECALL_AT + 1)
    hits = [
        len(({*found} - {own}) & ({*right} - {own})) / RECALL_AT
        for found, right, own in zip(ids[rows].tolist(), exact.tolist(), rows.tolist(), strict=True)
    ]
    recall = float(np.mean(hits))
    print(f"recall@{RECALL_AT} {recall:.4f} on {len(rows):,} queries", flush=True)
    return recall


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--words-file", default=LEARN, help="word vectors; else they are learned on the documents")
    parser.add_argument("--neighbours", type=int, default=5)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--cap", type=float, default=4.0, help="GiB that the search among made-up vectors may take")
    parser.add_argument("--skip", choices=["corpus", "vectors"])
    options = parser.parse_args()
    if options.skip != "corpus":
        corpus_neighbours(options.data, options.corpus, options.words_file, options.neighbours)
    if options.skip != "vectors":
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            sizes = (options.vectors, options.dimensions, options.queries, options.cap)
            recall = pool.submit(million, *sizes).result()
        sys.exit(1 if recall < WANTED else 0)


if __name__ == "__main__":
    main()
