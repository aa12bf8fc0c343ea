"""fastText lines: what is a label and what is text."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpora import rows

from xmtc.corpus.io import read


@pytest.mark.parametrize(
    ("line", "labels", "text"),
    [
        ("__label__a __label__b c d", {"a", "b"}, "c d"),
        ("  __label__a\t__label__b   c  d ", {"a", "b"}, "c  d"),
        ("c d __label__a", {"a"}, "c d"),
        ("c __label__a d", {"a"}, "c d"),
        ("__label__a x__label__y ___label__z", {"a"}, "x__label__y ___label__z"),
        ("__label__a\u00a0b c", {"a\u00a0b"}, "c"),
        ("__label__a", {"a"}, ""),
    ],
)
def test_labels_are_words_with_the_prefix_anywhere(line: str, labels: set[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "docs.ft").write_text(line + "\n")
    corpus = read(tmp_path / "docs.ft")
    assert corpus.texts is not None
    assert (rows(corpus), list(corpus.texts)) == ([labels], [text])
