"""Average ranks over corpora: by hand, with ties, and without models that lack a corpus."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.average_ranks import AverageRanks
from xmtc.evaluation.comparison import Row
from xmtc.evaluation.leaderboard import Leaderboard
from xmtc.evaluation.reports.comparison_page import write_comparisons_page

# P@1 of Table 2 (a) of the Rank-AE paper, for the methods that have all corpora.
PAPER = {
    "Delicious": {"SLEEC": 67.59, "FastXML": 69.61, "PD-Sparse": 51.82, "Rank-AE": 69.26},
    "Mediamill": {"SLEEC": 87.82, "FastXML": 84.22, "PD-Sparse": 81.86, "Rank-AE": 86.53},
    "RCV": {"SLEEC": 90.25, "FastXML": 91.23, "PD-Sparse": 90.08, "Rank-AE": 90.9},
    "IMDb": {"SLEEC": 51.37, "FastXML": 66.45, "PD-Sparse": 66.84, "Rank-AE": 75.91, "FastText": 69.55},
}


def board(values: Mapping[str, float | None], metric: str = "P@1") -> Leaderboard:
    rows = [Row(name, (), {} if value is None else {metric: value}, {}, {}, None) for name, value in values.items()]
    return Leaderboard(tuple(rows), Corpus.of(["a"], [["b"]]), ())


def test_ranks_of_the_paper() -> None:
    ranks = AverageRanks.of({corpus: board(values) for corpus, values in PAPER.items()})
    assert {name: row["P@1"] for name, row in ranks.ranks.items()} == {
        "Rank-AE": (2 + 2 + 2 + 1) / 4,
        "FastXML": (1 + 3 + 1 + 3) / 4,
        "SLEEC": (3 + 1 + 3 + 4) / 4,
        "PD-Sparse": (4 + 4 + 4 + 2) / 4,
    }
    assert list(ranks.ranks) == ["Rank-AE", "FastXML", "SLEEC", "PD-Sparse"]
    assert ranks.unfinished == {"FastText": ("Delicious", "Mediamill", "RCV")}
    assert "not ranked: FastText, which has no result on Delicious, Mediamill, RCV" in ranks.notes()


def test_values_that_look_equal_share_their_rank() -> None:
    values: dict[str, float | None] = {"a": 50.001, "b": 49.999, "c": 40.0, "d": 60.0}
    ranks = AverageRanks.of({"x": board(values), "y": board(values)}).ranks
    assert {name: row["P@1"] for name, row in ranks.items()} == {"d": 1, "a": 2.5, "b": 2.5, "c": 4}


def test_the_last_column_is_the_mean_over_metrics() -> None:
    rows = [Row("a", (), {"P@1": 2.0, "P@5": 1.0}, {}, {}, None), Row("b", (), {"P@1": 1.0, "P@5": 1.0}, {}, {}, None)]
    both = Leaderboard(tuple(rows), Corpus.of(["a"], [["b"]]), ())
    ranks = AverageRanks.of({"x": both, "y": both})
    assert ranks.ranks["a"] == {"P@1": 1.0, "P@5": 1.5, "all": 1.25}
    assert ranks.to_json()["ranks"]["b"] == {"P@1": 2.0, "P@5": 1.5, "all": 1.75}


@pytest.mark.filterwarnings("error")
def test_nothing_is_ranked_if_no_model_has_all(tmp_path: Path) -> None:
    boards = {"x": board({"a": 1.0, "b": None}), "y": board({"a": None, "b": 2.0})}
    ranks = AverageRanks.of(boards)
    assert ranks.ranks == {}
    assert ranks.unfinished == {"a": ("y",), "b": ("x",)}
    assert ranks.rich_table().row_count == 0
    page = tmp_path / "page.html"
    write_comparisons_page(boards, ranks, page, documents=["few", "many"], links=["x/page.html", "y/page.html"])
    html = page.read_text("utf-8")
    assert "few · 1 documents" in html
    assert html.count("not ranked: ") == 2
    assert html.count("<table") == 2
