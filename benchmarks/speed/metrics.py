"""Time all metrics on a million documents, beside a plain Python loop.

    python -m benchmarks.speed.metrics [--documents 1000000] [--labels 100000] [--loop-documents 5000]

The loop computes P, R, F1, nDCG, PSP and PSnDCG at k = 1, 3, 5 and is timed on the first `--loop-documents` documents;
its time for all of them is scaled up from that. Ours is measured for the same metrics ("ranking metrics") and for the
whole of `evaluate`, which adds micro and macro averages, coverage, head/middle/tail and deciles. Kernels are compiled
and loaded on a small corpus before the clock starts; that time is printed too.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.ranking import RankingMetrics
from xmtc.labelspace.propensity import Propensity
from xmtc.predictions import Predictions

KS = (1, 3, 5)


def made_up(documents: int, labels: int, seed: int) -> tuple[Predictions, Corpus]:
    """About five labels a document, by a power law; lists of five, of which about half are right."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, labels + 1) ** 0.8
    reach = np.cumsum(popularity) / popularity.sum()

    def draw(shape: tuple[int, ...]) -> NDArray[np.int64]:
        return np.minimum(np.searchsorted(reach, rng.random(shape)), labels - 1)

    indptr = np.concatenate([[0], np.cumsum(rng.integers(1, 10, documents))])
    targets = label_matrix(draw((int(indptr[-1]),)), indptr, labels)
    label_set = LabelSet.of(map(str, range(labels))).with_counts(np.bincount(targets.indices, minlength=labels))

    ids = draw((documents, 5)).astype(np.int32)
    sizes = np.diff(targets.indptr)
    for position in range(5):
        right = (rng.random(documents) < 0.5) & (sizes > position)
        ids[right, position] = targets.indices[targets.indptr[:-1][right] + position]
    for position in range(1, 5):  # a list never names a label twice
        ids[(ids[:, :position] == ids[:, [position]]).any(axis=1), position] = -1
    scores = np.where(ids < 0, 0, np.linspace(1, 0.2, 5, dtype=np.float32)).astype(np.float32)
    return Predictions(ids, scores, label_set), Corpus(targets, label_set)


def plain_loop(ids: list[list[int]], truth: list[list[int]], weights: list[float]) -> dict[str, float]:
    """The metrics as one would write them down."""
    sums: dict[str, float] = {}
    for listed, labels in zip(ids, truth, strict=True):
        true = set(labels)
        best = sorted((weights[label] for label in labels), reverse=True)
        for k in KS:
            hits = [label in true for label in listed[:k]]
            found = sum(hits)
            ideal = sum(1 / math.log2(rank + 2) for rank in range(min(k, len(labels))))
            dcg = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits) if hit)
            gain = [weights[label] if hit else 0.0 for label, hit in zip(listed, hits, strict=False)]
            psdcg = sum(weight / math.log2(rank + 2) for rank, weight in enumerate(gain))
            best_psdcg = sum(weight / math.log2(rank + 2) for rank, weight in enumerate(best[:k]))
            for name, value in (
                (f"P@{k}", found / k),
                (f"R@{k}", found / len(labels)),
                (f"F1@{k}", 2 * found / (k + len(labels))),
                (f"nDCG@{k}", dcg / ideal),
                (f"PSP@{k}", sum(gain)),
                (f"best PSP@{k}", sum(best[:k])),
                (f"PSnDCG@{k}", psdcg / ideal),
                (f"best PSnDCG@{k}", best_psdcg / ideal),
            ):
                sums[name] = sums.get(name, 0.0) + value
    return {
        name: value / (sums[f"best {name}"] if name.startswith("PS") else len(ids))
        for name, value in sums.items()
        if not name.startswith("best")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--loop-documents", type=int, default=5_000)
    options = parser.parse_args()

    start = time.perf_counter()
    evaluate(*made_up(2000, 100, seed=1), KS, train_documents=2000)
    print(f"loading (or compiling) the kernels  {time.perf_counter() - start:8.2f} s")

    predictions, corpus = made_up(options.documents, options.labels, seed=0)
    assert predictions.labels.counts is not None
    weights = Propensity().inverse(predictions.labels.counts, options.documents)
    print(
        f"{options.documents:,} documents, {options.labels:,} labels, {corpus.targets.nnz / options.documents:.1f} each"
    )

    start = time.perf_counter()
    ours = RankingMetrics.of(predictions, corpus, weights).metrics(KS)
    ranking_seconds = time.perf_counter() - start
    start = time.perf_counter()
    evaluate(predictions, corpus, KS, train_documents=options.documents)
    all_seconds = time.perf_counter() - start

    few = min(options.loop_documents, options.documents)
    ids, truth = predictions.ids[:few].tolist(), [corpus.labels_of(at) for at in range(few)]
    plain_weights = weights.tolist()
    start = time.perf_counter()
    naive = plain_loop(ids, truth, plain_weights)
    loop_seconds = (time.perf_counter() - start) * options.documents / few
    same = RankingMetrics.of(predictions[:few], corpus[:few], weights).metrics(KS)
    assert all(math.isclose(naive[name], same[name], rel_tol=1e-9) for name in same), (naive, same)

    print(f"xmtc, ranking metrics               {ranking_seconds:8.2f} s")
    print(f"xmtc, the whole of evaluate         {all_seconds:8.2f} s")
    print(f"plain Python, ranking metrics       {loop_seconds:8.2f} s (scaled up from {few:,} documents; same values)")
    print(f"ratio                               {loop_seconds / ranking_seconds:8.0f}")
    print("  ".join(f"{name} {100 * ours[name]:.2f}" for name in ("P@5", "nDCG@5", "PSP@5")))


if __name__ == "__main__":
    main()
