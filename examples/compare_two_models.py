"""Is one model better than another, or was it luck? `prior` against `knn` on the demo corpus.

python examples/compare_two_models.py
"""

from __future__ import annotations

import xmtc
from xmtc.data import demo_folder
from xmtc.evaluation.ranking import RankingMetrics, align
from xmtc.evaluation.significance import bootstrap_intervals, compare

METRICS = ("P@1", "P@5", "nDCG@5")


def main() -> None:
    """Train both, then print each one's metrics with 95 % intervals and the paired comparison."""
    train, test = xmtc.read(demo_folder(), part="train"), xmtc.read(demo_folder(), part="test")
    answers = {}
    for name in ("prior", "knn"):
        top = xmtc.make(name).fit(train).predict(test, k=5)
        answers[name] = top
        ranking = RankingMetrics.of(top, align(top, test))
        values = ranking.metrics([1, 5])
        for metric, interval in bootstrap_intervals(ranking, METRICS).items():
            print(f"{name:<6} {metric:<7} {100 * values[metric]:6.2f}  [{interval.low:.1f}, {interval.high:.1f}]")

    print("\nknn minus prior, on the same documents")
    for metric in METRICS:
        print(compare(answers["knn"], answers["prior"], test, metric))
    print("\nPSP weighs rare labels up, so it needs to know how many documents there were in training")
    print(compare(answers["knn"], answers["prior"], test, "PSP@5", train_documents=len(train)))


if __name__ == "__main__":
    main()
