"""How objects show themselves: text that is safe at a prompt; HTML that is escaped, whole and loads nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.models.base import Model
from xmtc.models.explanation import LONGEST_TEXT, Explanation, Explanations
from xmtc.models.registry import make
from xmtc.predictions import Predictions

EVIL = "<script>alert('x')</script> & \"more\"\x1b[31m"
LABELS = LabelSet.of(["l1", "l2"], names=[EVIL, "Kitchen"])
IDS = Strings.of([EVIL, "d2", "d3", "d4", "d5", "d6", "d7"])
TEXTS = [f"a ship {EVIL}", "bread " * 100, "sea", "ship", "oven", "butter", "sail"]
SMALL = Corpus.of(TEXTS, [["l1", "l2"], ["l2"], ["l1"], ["l1"], ["l2"], ["l2"], ["l1"]], LABELS, name=EVIL)
CORPUS = Corpus(SMALL.targets, LABELS, texts=SMALL.texts, ids=IDS, name=EVIL)


class Tags(HTMLParser):
    """The tags of a piece of HTML, which must all be closed, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self.open else ""


@pytest.fixture(scope="module")
def model() -> Model:
    fitted = make("knn", neighbours=3).fit(CORPUS)
    fitted.metrics_ = {EVIL: {"P@1": 82.5, "nDCG@5": 71.93, "odd": "x"}}
    return fitted


@pytest.fixture(params=["corpus", "model", "predictions", "evaluation", "explanation", "explanations", "methods"])
def shown(request: pytest.FixtureRequest, model: Model) -> Any:
    """An object of each kind, with hostile names where it can have some."""
    makers: dict[str, Callable[[], Any]] = {
        "corpus": lambda: CORPUS,
        "model": lambda: model,
        "predictions": lambda: model.predict(CORPUS, k=2),
        "evaluation": lambda: xmtc.evaluate(model, CORPUS),
        "explanation": lambda: model.explain(f"a ship and bread {EVIL}", EVIL),
        "explanations": lambda: model.explain(f"a ship and bread {EVIL}"),
        "methods": lambda: xmtc.models(),
    }
    return makers[request.param]()


def test_html_is_whole_escaped_and_self_contained(shown: Any) -> None:
    html = shown._repr_html_()
    tags = Tags(html)
    assert not tags.seen & {"script", "link", "img", "iframe", "object"}
    assert not re.search(r"https?:|url\(|@import|(?:src|href)=|prefers-color-scheme", html)
    assert "<script" not in html


def test_a_repr_cannot_steer_a_terminal(shown: Any) -> None:
    assert "\x1b" not in repr(shown)
    assert repr(shown).strip()


def test_a_corpus_shows_its_first_documents() -> None:
    tags = Tags(CORPUS._repr_html_())
    assert "7 documents with texts, 2 labels" in tags.text
    assert "… 2 further documents" in tags.text
    assert "d5" in tags.text and "d6" not in tags.text
    assert "bread bread" in tags.text and "bread " * 50 not in tags.text


def test_a_corpus_of_features_says_how_many_a_document_has() -> None:
    features = csr_array(np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 1.0]], np.float32))
    corpus = Corpus(csr_array(np.eye(2, dtype=np.float32)), LABELS, features=features)
    assert "<td>2</td>" in corpus._repr_html_()
    empty = Corpus.of([])
    assert "0 documents" in Tags(empty._repr_html_()).text


def test_a_model_says_what_it_is_and_what_it_learned_from(model: Model) -> None:
    said = repr(model)
    assert said.startswith("knn(neighbours=3), fitted on ")
    assert ": 7 documents, 2 labels; P@1 82.50, nDCG@5 71.93 (" in said
    assert repr(make("knn")) == "knn(), not fitted"
    assert repr(make("dismec", seed=3)) == "dismec(seed=3), not fitted"
    html = Tags(model._repr_html_()).text
    assert "neighbours=3" in html and "71.93" in html and "votes of the most similar" in html
    assert "odd" not in html
    assert "not fitted" in Tags(make("knn")._repr_html_()).text


def test_a_calibrated_and_tuned_model_says_so() -> None:
    corpus = Corpus.of(["ship", "bread", "sail", "oven"] * 10, [["sea"], ["food"]] * 20)
    fitted = make("knn").fit(corpus[:20])
    with pytest.warns(UserWarning, match="in training"):
        fitted.calibrate(corpus).tune(corpus)
    assert "calibrated, a threshold for each label" in Tags(fitted._repr_html_()).text


def test_predictions_are_a_table_that_says_what_it_leaves_out() -> None:
    labels = LabelSet.of([f"l{at}" for at in range(12)])
    ids = np.tile(np.arange(12, dtype=np.int32), (11, 1))
    ids[1] = -1
    top = Predictions(ids, np.ones((11, 12), np.float32), labels)
    lines = repr(top).splitlines()
    assert lines[0] == "Predictions(11 documents, up to 12 labels each, scores: ranking)"
    assert lines[1].startswith("  0  l0 1.000, l1 1.000") and lines[1].endswith("l9 1.000, … 2 further labels")
    assert lines[2] == "  1  no label"
    assert lines[-1] == "  … 1 further document"
    html = Tags(top._repr_html_()).text
    assert "… 2 further labels" in html and "no label" in html and "… 1 further document" in html
    assert "l10" not in html
    assert repr(top[:0]) == "Predictions(0 documents, up to 12 labels each, scores: ranking)"
    assert "further" not in repr(top[:1].top(3)) + top[:1].top(3)._repr_html_()


def test_an_evaluation_shows_its_table_and_notes(model: Model) -> None:
    found = xmtc.evaluate(model, CORPUS)
    assert repr(found) == str(found)
    html = Tags(found._repr_html_()).text
    for note in found.notes():
        assert note in html
    assert "nDCG@5" in html and f"{found.values['P@1']:.2f}" in html


def test_an_explanation_colours_its_text() -> None:
    words = (("ship", 0.5), ("bread", -0.25), *((f"w{at}", 0.01) for at in range(10)))
    html = Explanation("Sea", 0.5, words, ("seen",), "A Ship & bread")._repr_html_()
    assert '/ 55.0%)" title="0.5">Ship</mark> &amp; ' in html
    assert re.search(r'<mark class="against" style="[^"]+" title="-0.25">bread</mark>', html)
    assert "further words (2)" in html and "0.020" in html
    assert "seen" in Tags(html).text


def test_a_long_text_is_cut() -> None:
    text = "ship " * LONGEST_TEXT
    spans = tuple((at * 5, at * 5 + 4, 0.1) for at in range(LONGEST_TEXT))
    for why in (Explanation("Sea", 1.0, (("ship", 1.0),), (), text), Explanation("Sea", 1.0, (), (), text, spans)):
        html = why._repr_html_()
        assert f"{len(text) - LONGEST_TEXT:,} further characters" in html
        assert html.count("<mark") == LONGEST_TEXT // 5


def test_no_label_to_explain() -> None:
    assert repr(Explanations()) == str(Explanations()) == "no label"
    assert "no label" in Explanations()._repr_html_()
    assert "No word of this text" in Explanation("Sea", 0.0, ())._repr_html_()
