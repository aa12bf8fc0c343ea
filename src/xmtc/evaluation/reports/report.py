"""The HTML report of an evaluation: one file without any outside resource."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from xmtc.evaluation.ranking import METRICS, PROPENSITY_SCORED
from xmtc.evaluation.reports.html import write_page
from xmtc.evaluation.result import Evaluation, LabelRow
from xmtc.evaluation.significance import bootstrap_intervals
from xmtc.predictions import ScoreKind

SNIPPET = 320  # characters of a sample's text
LISTED = 15  # rows in the lists of worst and of confused labels
MOST_MISSED = 500  # labels among which confusions are sought, which bounds the work for millions of labels


class Marked(NamedTuple):
    """A label of a sample document; `verdict` is "right", "wrong" or "missed"; a missed label has no score."""

    name: str
    verdict: str
    score: str


class Sample(NamedTuple):
    """One document with what was predicted and what was missed."""

    id: str
    text: str
    labels: list[Marked]


class Confusion(NamedTuple):
    """Documents with the true label `missed` that got the label `instead`, which is wrong for them."""

    missed: str
    instead: str
    documents: int
    carriers: int


def write_report(
    evaluation: Evaluation,
    path: str | Path,
    *,
    title: str = "Evaluation",
    samples: int = 12,
    resamples: int = 1000,
    seed: int = 0,
) -> None:
    """Write the report of an evaluation as one HTML file that needs nothing else.

    `samples` documents are drawn at random; `resamples` is for the confidence intervals.
    """
    from xmtc.evaluation.reports.plots import depth_curve, frequency_bars, reliability, score_histogram, threshold_curve

    k = max(evaluation.k)
    predictions, ranking = evaluation.predictions, evaluation.ranking
    names = [name for name in METRICS if ranking.weights is not None or name not in PROPENSITY_SCORED]
    shown = [f"{name}@{k}" for name in names for k in evaluation.k]
    plots = [depth_curve(evaluation), frequency_bars(evaluation)]
    if predictions.kind is not ScoreKind.RANKING:
        plots.append(reliability(evaluation))
    plots += [score_histogram(predictions, ranking.hits), threshold_curve(evaluation)]
    write_page(
        "report.html.j2",
        path,
        title=title,
        evaluation=evaluation,
        k=k,
        names=names,
        intervals=bootstrap_intervals(ranking, shown, resamples=resamples, seed=seed),
        resamples=resamples,
        set_metrics=_set_metrics(evaluation),
        plots=[plot for plot in plots if plot is not None],
        worst=worst_labels(evaluation, LISTED),
        confusions=confusions(evaluation, LISTED),
        samples=draw_samples(evaluation, samples, seed),
    )


def worst_labels(evaluation: Evaluation, rows: int) -> list[LabelRow]:
    """The labels that are missed in the most test documents, most missed first."""
    missed = [row for row in evaluation.per_label() if row.test > row.hits]
    return sorted(missed, key=lambda row: row.hits - row.test)[:rows]


def confusions(evaluation: Evaluation, rows: int) -> list[Confusion]:
    """The most frequent pairs (label missed, irrelevant label listed) over documents, among the most missed labels."""
    k = max(evaluation.k)
    ranking, labels = evaluation.ranking, evaluation.truth.labels
    true, _, hits = ranking.label_counts(k)
    often = np.argsort(hits - true, kind="stable")[:MOST_MISSED]
    missed = (ranking.truth - ranking.listed(k, relevant=True))[:, often]
    together = (missed.T @ ranking.listed(k, relevant=False)).tocoo()
    counts, (missing, instead) = together.data, together.coords
    most = np.lexsort((instead, missing, -counts))[:rows].tolist()
    found = []
    for at in most:
        label = often[missing[at]]
        if counts[at]:
            found.append(Confusion(labels.name(label), labels.name(instead[at]), int(counts[at]), int(true[label])))
    return found


def draw_samples(evaluation: Evaluation, count: int, seed: int) -> list[Sample]:
    """Random documents, in the corpus' order, with their labels marked right, wrong or missed."""
    k = max(evaluation.k)
    corpus, top, hits = evaluation.truth, evaluation.predictions.top(k), evaluation.ranking.hits
    rows = np.random.default_rng(seed).choice(len(corpus), min(count, len(corpus)), replace=False)
    samples = []
    for row in sorted(rows.tolist()):
        listed = [at for at in top.ids[row].tolist() if at >= 0]
        marked = [
            Marked(corpus.labels.name(at), "right" if hits[row, place] else "wrong", f"{top.scores[row, place]:.3g}")
            for place, at in enumerate(listed)
        ]
        missed = [Marked(corpus.labels.name(at), "missed", "") for at in corpus.labels_of(row) if at not in listed]
        text = snippet(corpus.texts[row]) if corpus.texts is not None else ""
        samples.append(Sample(corpus.id(row), text, marked + missed))
    return samples


def _set_metrics(evaluation: Evaluation) -> list[tuple[str, str]]:
    """(what, "precision / recall / F1") of the metrics beside the ranking metrics, as far as they were computed."""
    k = max(evaluation.k)
    kinds = (
        (f"micro-averaged, first {k}", "micro-{}@" + str(k)),
        (f"macro-averaged, first {k}", "macro-{}@" + str(k)),
        (f"hierarchical, first {k}", "h{}@" + str(k)),
        ("micro-averaged, at the threshold", "micro-{}"),
        ("macro-averaged, at the threshold", "macro-{}"),
        ("by document, at the threshold", "example-{}"),
    )
    return [
        (words, " / ".join(f"{evaluation.values[key.format(part)]:.2f}" for part in ("P", "R", "F1")))
        for words, key in kinds
        if key.format("F1") in evaluation.values
    ]


def snippet(text: str) -> str:
    """The beginning of a text, cut between words."""
    return text if len(text) <= SNIPPET else text[:SNIPPET].rsplit(" ", 1)[0] + " …"
