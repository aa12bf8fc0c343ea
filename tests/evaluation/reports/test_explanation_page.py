"""The shaded text: every word at its place, whatever the script; and the page: whole, self-contained, escaped."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from xmtc.evaluation.reports.explanation_page import LISTED, write_explanation_page
from xmtc.models.explanation import Explanation
from xmtc.models.shading import Piece, places, shaded
from xmtc.text.word_rules import WordRules

EVIL = "<script>alert('x')</script> & \"more\" {{ 1 }}"


class Page(HTMLParser):
    """The tags, the text of each mark with its tooltip and class, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.marks: list[tuple[str, str, str]] = []
        self.shaded = ""
        self._mark: dict[str, str | None] = {}
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._mark = dict(attributes)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "mark" and self._mark.get("title"):
            self.marks.append((data, self._mark["title"] or "", self._mark["class"] or ""))
        if "mark" in self.open or (self.open and self.open[-1] == "p"):
            self.shaded += data


def written(path: Path, *explanations: Explanation, title: str = "Why") -> tuple[str, Page]:
    write_explanation_page(explanations, path / "why.html", title=title)
    html = (path / "why.html").read_text("utf-8")
    return html, Page(html)


def weights_of(why: Explanation) -> list[tuple[str, float]]:
    return [(piece.text, piece.weight) for piece in shaded(why) if piece.weight]


def test_pieces_make_up_the_text() -> None:
    why = Explanation("fruit", 1.0, (("apple", 1.0), ("sky", -0.5)), text="  Apple-SKY, apples\n")
    assert shaded(why) == [
        Piece("  ", 0.0, 0.0),
        Piece("Apple", 1.0, 1.0),
        Piece("-", 0.0, 0.0),
        Piece("SKY", -0.5, -0.5),
        Piece(", apples\n", 0.0, 0.0),
    ]
    assert shaded(Explanation("fruit", 1.0, ())) == []


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("😀 Ünlü şey", "ünlü", (2, 6)),
        ("Die Mu\u0308llerin", "müllerin", (4, 13)),  # the accent is a character of its own
        ("Die Müllerin", "mullerin", (4, 12)),  # a model that strips accents
        ("İstanbul", "istanbul", (0, 8)),
        ("𝔘 東京 tower", "京", (3, 4)),
        ("यह हिन्दी है", "हिन्दी", (3, 9)),
        ("to US, not us", "US", (3, 5)),  # a model that keeps upper case
        ("mail a server", "mail server", (0, 4)),  # a model to which a single letter is no word
    ],
)
def test_words_are_found_as_models_fold_them(text: str, term: str, expected: tuple[int, int]) -> None:
    assert places(text, [(term, 1.0)])[0][:2] == expected


def test_only_whole_words_in_the_case_of_the_model() -> None:
    assert places("mailing e-mail MAIL", [("mail", 0.5)]) == [(10, 14, 0.5), (15, 19, 0.5)]
    assert places("US us Us", [("US", 0.5), ("us", 0.25)]) == [(0, 2, 0.5), (3, 5, 0.25)]


def test_overlapping_terms_add_up() -> None:
    words = [("big mail", 0.4), ("mail server", 0.2), ("mail", -0.1)]
    assert places("big mail server", words) == [
        (0, 3, 0.2),
        (4, 8, pytest.approx(0.2)),  # half of each pair, and its own
        (9, 15, 0.1),
    ]
    # A term that overlaps itself counts once.
    assert places("ha ha ha", [("ha ha", 0.4)]) == [(0, 2, 0.2), (3, 5, 0.2), (6, 8, 0.2)]


@given(st.text(max_size=40), st.booleans(), st.booleans())
@example("0\U00013460", False, False)  # a letter since Unicode 15, later than some Pythons
def test_every_word_of_a_model_is_found(text: str, lowercase: bool, strip_accents: bool) -> None:
    words = list(WordRules(lowercase, strip_accents).words(text))
    found = places(text, [(word, 1.0) for word in words])
    assert len(found) >= len(words)
    assert "".join(piece.text for piece in shaded(Explanation("x", 0, (), text=text))) == text


def test_spans_come_before_words() -> None:
    spans = ((0, 4, 0.125), (5, 9, 0.625), (10, 10, 0.0), (9, 15, 0.25))
    why = Explanation("mail", 1.0, (("mail", 0.75),), text="mail mail server", spans=spans)
    assert weights_of(why) == [("mail", 0.125), ("mail", 0.625), (" serve", 0.25)]


def test_overlapping_spans_become_one() -> None:
    spans = ((0, 1, 0.25), (0, 1, 0.25), (2, 5, 0.25), (4, 6, 0.25))  # as of tokens that are bytes of a character
    why = Explanation("x", 1.0, (), text="😀 abcd", spans=spans)
    assert weights_of(why) == [("😀", 0.5), ("abcd", 0.5)]


@pytest.mark.parametrize("span", [(0, 3, 1.0), (-1, 1, 1.0), (2, 1, 1.0)])
def test_spans_beyond_the_text_are_refused(span: tuple[int, int, float]) -> None:
    with pytest.raises(ValueError, match="within the text"):
        Explanation("x", 1.0, (), text="ab", spans=(span,))


def test_page_is_whole_self_contained_and_escaped(tmp_path: Path) -> None:
    words = (("script", 0.5), ("more", -0.25), (EVIL, 0.1))
    html, page = written(tmp_path, Explanation(EVIL, 0.75, words, (EVIL,), EVIL), title=EVIL)
    assert "script" not in page.tags
    assert not {"link", "img", "iframe"} & set(page.tags)
    assert EVIL not in html
    assert not re.search(r"https?://|url\(|(?:src|href)=", html)
    assert "score 0.750" in html
    assert page.marks == [("script", "0.5", "for"), ("script", "0.5", "for"), ("more", "-0.25", "against")]
    assert EVIL in page.shaded


def test_a_card_for_each_label(tmp_path: Path) -> None:
    many = tuple((f"word{at}", 1.0 / (at + 1)) for at in range(LISTED + 2))
    first = Explanation("first", 0.9, many, (), "word0 \n\n word1")
    html, page = written(tmp_path, first, Explanation("second", 0.0, (), ("none of 5 neighbours",), "word0"))
    assert page.tags.count("article") == 2
    assert html.count('scope="row"') == LISTED + 1
    assert "further words (2)" in html
    assert f"<td>{sum(weight for _, weight in many[LISTED:]):.3f}</td>" in html
    assert "No word of this text" in html
    assert "<bdi>none of 5 neighbours</bdi>" in html
    assert "word0 \n\n word1" in page.shaded
    assert "against it" not in html, "the key explains a colour that is nowhere"


def test_page_without_labels(tmp_path: Path) -> None:
    assert "no label" in written(tmp_path)[0]


def test_lone_surrogates_do_not_stop_the_page(tmp_path: Path) -> None:
    assert "a?b" in written(tmp_path, Explanation("a\ud800b", 1.0, ()))[0]


def test_explanation_as_plain_data() -> None:
    why = Explanation("fruit", 0.5, (("apple", 1.0),), ("seen",), "Apple", ((0, 5, 1.0),))
    assert why.to_json() == {
        "label": "fruit",
        "name": "fruit",
        "score": 0.5,
        "text": "Apple",
        "words": [{"word": "apple", "weight": 1.0}],
        "spans": [{"start": 0, "end": 5, "weight": 1.0}],
        "places": [{"start": 0, "end": 5, "weight": 1.0}],
        "evidence": ["seen"],
    }
    by_word = Explanation("fruit", 0.5, (("apple", 1.0), ("red", -0.5)), (), "Apple, red apple")
    places = by_word.to_json()["places"]
    assert [(by_word.text[at["start"] : at["end"]], at["weight"]) for at in places] == [
        ("Apple", 1.0),
        ("red", -0.5),
        ("apple", 1.0),
    ]
