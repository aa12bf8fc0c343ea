"""The pages: complete, self-contained, and safe against what stands in texts and names."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.statistics import describe
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.reports.html import write_corpus_page
from xmtc.evaluation.reports.plots import threshold_curve
from xmtc.evaluation.reports.report import Confusion, confusions, draw_samples, worst_labels, write_report
from xmtc.evaluation.result import Evaluation
from xmtc.predictions import Predictions, ScoreKind

EVIL = "<script>alert('x')</script> & \"more\" $math_{1$"
KEYS = ["a", "b", "c", "d"]


def made_up(kind: ScoreKind = ScoreKind.PROBABILITY, documents: int = 40) -> Evaluation:
    rng = np.random.default_rng(0)
    labels = LabelSet.of(KEYS, names=[EVIL, "Berry", "Cherry", "Date"]).with_counts(np.array([30, 20, 5, 0]))
    rows = [[KEYS[at] for at in rng.choice(4, rng.integers(0, 3), replace=False)] for _ in range(documents)]
    rows[0] = ["a"]
    corpus = Corpus.of([f"{EVIL} text {at}" for at in range(documents)], rows, labels, name=EVIL)
    scores = rng.random((documents, 4)) * 0.5 + corpus.targets.toarray() * 0.3
    ids = np.argsort(-scores, axis=1)[:, :3]
    top = Predictions.sorted(ids, np.take_along_axis(scores, ids, 1), labels, kind)
    return evaluate(top, corpus, [1, 2], train_documents=50, threshold=0.5)


class Page(HTMLParser):
    """Collects tags and checks that they are closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attributes if name == "id"]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(html: str) -> None:
    page = Page(html)
    assert page.open == []
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert "img" not in page.tags
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'<>)]+", html)) <= namespaces
    assert re.findall(r"(?:src|href)=\"[^#]", html) == []
    assert "url(#" in html or "url(" not in html
    assert html.count('role="img"') == html.count("<svg")
    assert html.count("aria-label=") == html.count("<svg")
    assert EVIL not in html


def test_report_is_whole_self_contained_and_escaped(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(made_up(), path, title=EVIL, resamples=50)
    html = path.read_text(encoding="utf-8")
    check_page(html)
    for heading in ("Metrics", "Head, middle and tail", "Pictures", "Labels missed most", "Most confused"):
        assert f">{heading}</h2>" in html
    assert html.count("<svg") == 5
    assert "&lt;script&gt;" in html
    for mark in ("✓", "✗", "○"):
        assert f'<span aria-hidden="true">{mark}</span>' in html
    assert "var(--first)" in html
    assert "#030303" not in html


def test_ranking_scores_get_a_sentence_instead_of_a_reliability_diagram(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(made_up(ScoreKind.RANKING), path, resamples=20)
    html = path.read_text(encoding="utf-8")
    assert html.count("<svg") == 4
    assert "no reliability diagram" in html


@pytest.mark.parametrize("kind", list(ScoreKind))
def test_curve_says_what_the_threshold_gives(kind: ScoreKind) -> None:
    whole = made_up(kind)
    plot = threshold_curve(whole)
    assert plot is not None
    figures = "precision {micro-P:.1f}, recall {micro-R:.1f}, F1 {micro-F1:.1f}".format(**whole.values)
    assert plot.caption.endswith(f" At the threshold 0.5: {figures}.")
    assert "first 3 of each document" in plot.caption
    assert ">threshold 0.5<" in plot.svg
    each = evaluate(whole.predictions, whole.truth, [1], threshold=np.array([0.5, 0.4, 0.3, 0.2]))
    plot = threshold_curve(each)
    assert plot is not None
    assert "With a threshold for each label: precision" in plot.caption
    assert ">F1, a threshold for each label<" in plot.svg
    plot = threshold_curve(evaluate(whole.predictions, whole.truth, [1]))
    assert plot is not None
    assert plot.caption.endswith("not here.")


def test_curve_of_equal_scores_and_of_no_labels() -> None:
    whole = made_up(ScoreKind.RANKING)
    equal = replace(whole.predictions, scores=np.full_like(whole.predictions.scores, -2.5))
    plot = threshold_curve(evaluate(equal, whole.truth, [1]))
    assert plot is not None
    assert "from the threshold -2.5 to -2.5" in plot.alt
    nothing = replace(whole.predictions, ids=np.full_like(whole.predictions.ids, -1))
    assert threshold_curve(evaluate(nothing, whole.truth, [1])) is None


def test_same_evaluation_same_page(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        write_report(made_up(), tmp_path / name, resamples=20, seed=3)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


@pytest.mark.parametrize("kind", list(ScoreKind))
def test_report_of_a_model_that_says_nothing(tmp_path: Path, kind: ScoreKind) -> None:
    silent = made_up(kind)
    nothing = Predictions(np.full((40, 2), -1, np.int32), np.zeros((40, 2), np.float32), LabelSet.of(KEYS), kind)
    write_report(evaluate(nothing, silent.truth, [1]), tmp_path / "report.html", resamples=20)
    check_page((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_report_without_texts(tmp_path: Path) -> None:
    whole = made_up()
    evaluation = evaluate(whole.predictions, replace(whole.truth, texts=None), [1])
    write_report(evaluation, tmp_path / "report.html", resamples=20)
    check_page((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_worst_confused_and_samples() -> None:
    labels = LabelSet.of(KEYS)
    corpus = Corpus.of(["x"] * 4, [["a", "b"], ["a"], ["a"], ["c"]], labels)
    ids = np.array([[1, 3], [3, -1], [3, 1], [2, 0]], np.int32)
    scores = np.array([[2, 1], [1, 0], [2, 1], [2, 1]], np.float32)
    evaluation = evaluate(Predictions(ids, scores, labels), corpus, [1, 2])
    assert [(row.key, row.test, row.hits) for row in worst_labels(evaluation, 5)] == [("a", 3, 0)]
    assert confusions(evaluation, 5) == [Confusion("a", "d", 3, 3), Confusion("a", "b", 1, 3)]
    sample = draw_samples(evaluation, 9, seed=0)[0]
    assert [(label.name, label.verdict) for label in sample.labels] == [
        ("b", "right"),
        ("d", "wrong"),
        ("a", "missed"),
    ]


def test_corpus_page(tmp_path: Path) -> None:
    corpus = Corpus.of(
        [f"{EVIL} {at}" for at in range(30)], [[f"l{at % 7}", f"m{at % 3}"] for at in range(30)], name=EVIL
    )
    write_corpus_page(describe(corpus, corpus[:3]), tmp_path / "corpus.html")
    html = (tmp_path / "corpus.html").read_text(encoding="utf-8")
    check_page(html)
    assert "<td>30</td>" in html
    assert "Labels per document" in html


def test_corpus_page_without_labels(tmp_path: Path) -> None:
    write_corpus_page(describe(Corpus.of(["one", "two words"])), tmp_path / "corpus.html")
    check_page((tmp_path / "corpus.html").read_text(encoding="utf-8"))
