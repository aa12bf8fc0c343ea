"""The leaderboard and its page: means, spreads, marks, failures, and a page that stands by itself."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.evaluation.comparison import METRICS, TAIL, Row, Run, shown_cost
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.leaderboard import Leaderboard
from xmtc.evaluation.reports.comparison_page import pair_data, write_comparison_page
from xmtc.evaluation.reports.comparison_plots import NAMED, by_frequency, quality_and_cost, sweep
from xmtc.predictions import Predictions

EVIL = "<script>alert('x')</script> & \"more\" $math_{1$"
LABELS = 20
COSTS = {"training": 12.0, "documents/s": 900.0, "memory": 3e8, "size": 5e6}


@pytest.fixture(scope="module")
def truth() -> Corpus:
    rng = np.random.default_rng(0)
    names = [EVIL, *(f"label {at}" for at in range(1, LABELS))]
    counts = np.maximum(1, 200 // (1 + np.arange(LABELS))).astype(np.int64)
    labels = LabelSet.of(map(str, range(LABELS)), names=names).with_counts(counts)
    tags = [[str(at) for at in rng.permutation(LABELS)[:3]] for _ in range(150)]
    return Corpus.of([f"{EVIL} text {at}" for at in range(150)], tags, labels, name=EVIL)


def run(truth: Corpus, system: str, skill: float, seed: int = 0, **options: object) -> Run:
    rng = np.random.default_rng([seed, *system.encode()])
    scores = rng.normal(size=truth.targets.shape) + skill * truth.targets.toarray()
    ids = np.broadcast_to(np.arange(LABELS), scores.shape)
    top = Predictions.sorted(ids, scores, truth.labels, k=10)
    made = Run(system, "knn", {"seed": seed}, seed, costs=COSTS, top=top, train_documents=500)
    return replace(made, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def board(truth: Corpus) -> Leaderboard:
    runs = [run(truth, "good", 3.0, seed) for seed in range(3)]
    runs += [run(truth, EVIL, 1.0, seed) for seed in range(3)]
    runs += [run(truth, "poor", 0.0), run(truth, "like good", 2.9)]
    runs.append(run(truth, "broken", 0.0, status="failed", reason="out of memory", top=None))
    return Leaderboard.of(runs, truth)


def row_of(board: Leaderboard, system: str) -> Row:
    return next(row for row in board.rows if row.system == system)


def test_rows_are_means_and_spreads_over_seeds(board: Leaderboard, truth: Corpus) -> None:
    assert [row.system for row in board.rows][-2:] == ["poor", "broken"]
    row = row_of(board, "good")
    each = [evaluate(run.top, truth, train_documents=500) for run in row.runs if run.top is not None]
    for metric in METRICS[:-1]:
        found = [evaluation.values[metric] for evaluation in each]
        assert row.values[metric] == pytest.approx(np.mean(found))
        assert row.spreads[metric] == pytest.approx(np.std(found, ddof=1))
    assert row.values[TAIL] == pytest.approx(np.mean([one.bands["tail"]["P@5"] for one in each]))
    assert row_of(board, "poor").spreads == {}


def test_marks_say_what_is_more_than_chance(board: Leaderboard) -> None:
    best = board.best("nDCG@5")
    assert best is not None
    assert best.system in ("good", "like good")
    for metric in METRICS:
        assert row_of(board, "poor").marked(metric)
        top = board.best(metric)
        assert top is not None
        assert not top.marked(metric)
    assert not row_of(board, "good").marked("nDCG@5")
    assert not row_of(board, "like good").marked("nDCG@5")


def test_a_failed_run_is_shown_with_its_reason(board: Leaderboard) -> None:
    from rich.console import Console

    row = row_of(board, "broken")
    assert row.note == "failed: out of memory"
    assert row.values == {}
    out = io.StringIO()
    Console(width=160, file=out).print(board.rich_table())
    text = out.getvalue()
    assert "failed: out of memory" in text
    assert "alert('x')" in text, "names are text, not markup"
    assert re.search(r"poor +\d+\.\d\d\*", text)
    assert "±" in text
    assert "12 s" in text
    assert "5.0 MB" in text


def test_some_seeds_failed(truth: Corpus) -> None:
    runs = [run(truth, "a", 1.0), run(truth, "a", 1.0, 1, status="stopped", reason="the budget was spent", top=None)]
    (row,) = Leaderboard.of(runs, truth).rows
    assert row.finished == 1
    assert row.values
    assert row.note == "stopped: the budget was spent"


def test_nothing_finished(truth: Corpus, tmp_path: Path) -> None:
    board = Leaderboard.of([run(truth, "a", 0.0, status="waiting", reason="", top=None)], truth)
    assert board.finished == []
    assert board.rows[0].note == "waiting"
    write_comparison_page(board, tmp_path / "page.html", title="none")
    assert "<h2" in (tmp_path / "page.html").read_text("utf-8")


def test_json_is_plain(board: Leaderboard) -> None:
    rows = json.loads(json.dumps([row.to_json() for row in board.rows]))
    assert rows[0]["P@1"] > rows[-2]["P@1"]
    assert rows[-1]["note"] == "failed: out of memory"
    assert rows[0]["costs"]["training"] == 12


def test_costs_in_words() -> None:
    assert shown_cost("training", 3.14159) == "3.1 s"
    assert shown_cost("memory", 1.5e9) == "1,500 MB"
    assert shown_cost("size", None) == "–"


def test_page_is_whole_self_contained_and_escaped(board: Leaderboard, tmp_path: Path) -> None:
    plot = sweep("knn", "neighbours", [(5, {}, board.rows[0]), (50, {}, board.rows[1])])
    write_comparison_page(board, tmp_path / "page.html", title=EVIL, about="a machine", sweeps=[plot])
    html = (tmp_path / "page.html").read_text("utf-8")
    for heading in ("Leaderboard", "Pictures", "Sweeps", "Two models side by side", "Where they differ"):
        assert f">{heading}</h2>" in html
    assert EVIL not in html
    assert "<script>alert" not in html
    assert set(re.findall(r"https?://[^\s\"'<>)]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert re.findall(r"(?:src|href)=\"[^#]", html) == []
    assert html.count("<script") == 2
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert data["systems"][0] == board.rows[0].system
    assert EVIL in data["systems"]
    assert html.count("data-value=") == 4 * (len(METRICS) + 4)
    assert "failed: out of memory" in html


def test_pairs_have_labels_and_examples(board: Leaderboard, truth: Corpus) -> None:
    data = pair_data(board.finished)
    assert len(data["f1"]) == 4
    assert all(len(column) == len(data["labels"]) for column in data["f1"])
    name, test, train = data["labels"][0]
    at = next(at for at in range(LABELS) if truth.labels.name(at) == name)
    assert (test, train) == (truth.label_counts[at], truth.labels.counts[at])  # type: ignore[index]
    evaluation = board.finished[0].evaluation
    assert evaluation is not None
    assert data["f1"][0][0] == pytest.approx({row.name: row.f1 for row in evaluation.per_label()}[name], abs=0.06)
    systems = [row.system for row in board.finished]
    good, poor = systems.index("good"), systems.index("poor")
    assert data["pairs"][f"{good},{poor}"]
    for place in data["pairs"][f"{good},{poor}"]:
        example = data["examples"][place]
        right = [sum(hit for _, hit in example["answers"][system]) for system in (good, poor)]
        assert right[0] > right[1]
        assert len(example["labels"]) == 3
    assert pair_data(board.finished[:1])["pairs"] == {}


def test_sweep_of_two_settings_has_a_line_for_each_value_of_the_other(board: Leaderboard) -> None:
    rows = board.rows
    points = [(n, {"idf": idf}, rows[at]) for at, (n, idf) in enumerate([(5, "a"), (50, "a"), (5, "b"), (50, "b")])]
    plot = sweep("knn", "neighbours", points[:4])
    assert "idf=a: " in plot.alt
    assert "idf=b: " in plot.alt
    words = sweep("knn", "tfidf.idf", [("plain", {}, rows[0]), ("smooth", {}, rows[1])])
    assert "P@1: " in words.alt
    assert "smooth" in str(words.svg)


def test_sweep_of_lists(board: Leaderboard) -> None:
    shares = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]
    plot = sweep("aplc_xlnet", "partition", [(value, {}, row) for value, row in zip(shares, board.rows, strict=False)])
    assert "[0.7, 0.2, 0.1]" in str(plot.svg)


def test_a_drawing_in_a_file_of_its_own_has_colours(board: Leaderboard) -> None:
    file = sweep("knn", "power", [(at, {}, row) for at, row in enumerate(board.rows[:2])]).file
    used = set(re.findall(r"var\((--\w+)\)", file))
    assert used
    assert used <= set(re.findall(r"(--\w+):#", file))


def test_of_many_models_the_best_have_names(board: Leaderboard) -> None:
    many = [replace(board.finished[at % 2], system=f"a model with a rather long name {at}") for at in range(NAMED + 3)]
    for plot in (quality_and_cost(many), by_frequency(many)):
        assert plot is not None
        assert f"Of {NAMED + 3} models" in plot.caption
        drawn = str(plot.svg).partition("</title>")[2]
        assert f"name {NAMED - 1}<" in drawn
        assert f"name {NAMED}<" not in drawn


def test_no_line_by_frequency_without_training_counts(truth: Corpus) -> None:
    bare = replace(truth, labels=LabelSet(truth.labels.keys))
    top = Predictions(np.zeros((150, 1), np.int32), np.ones((150, 1), np.float32), bare.labels)
    board = Leaderboard.of([Run("a", "knn", {}, 0, top=top)], bare)
    assert by_frequency(board.finished) is None
    assert TAIL not in board.rows[0].values
