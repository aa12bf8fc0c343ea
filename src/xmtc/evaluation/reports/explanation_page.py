"""An HTML page of why a text got its labels: the text shaded by the weight of each word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xmtc.evaluation.reports.html import write_page
from xmtc.models.explanation import Explanation
from xmtc.models.shading import relative, shaded

LISTED = 15  # words with a bar


def write_explanation_page(
    explanations: Sequence[Explanation], path: str | Path, *, title: str = "Why these labels"
) -> None:
    """Write one HTML page without any outside resource: a card for each label, with the text shaded for it."""
    cards = [(why, shaded(why), relative(why.words[:LISTED]), why.words[LISTED:]) for why in explanations]
    any_against = any(weight < 0 for why in explanations for _, weight in why.words)
    write_page("explanation.html.j2", path, title=title, cards=cards, any_against=any_against)
