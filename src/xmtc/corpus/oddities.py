"""What is odd in documents that can be read nonetheless: it is said on standard error, and counted by `xmtc info`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

from xmtc.corpus.strings import Strings

SEPARATORS = (";", "|", ",")  # of labels in one string; what people use
NEARLY_ALL, MANY = 0.9, 0.3  # shares of the documents
FEW_LABELS = 20  # too few to see from their parts what they are
SHARED = 0.2  # of the labels that begin a string: so many are found later in another one too
SAMPLE = 20_000  # documents are enough to see it


def repeated_ids(ids: Strings | None) -> tuple[int, str]:
    """(number of documents whose id an earlier document has, the first such id).

    >>> repeated_ids(Strings.of(["a", "b", "a", "a"])), repeated_ids(Strings.of(["a", "b"]))
    ((2, 'a'), (0, ''))
    """
    if ids is None:
        return 0, ""
    buffer, offsets = ids.compact()
    raw, at = buffer.tobytes(), offsets.tolist()
    # As bytes, which takes half the time: there may be millions.
    repeated = len(ids) - len({raw[start:end] for start, end in pairwise(at)})
    if not repeated:
        return 0, ""
    seen: set[str] = set()
    for id in ids:
        if id in seen:
            return repeated, id
        seen.add(id)
    raise AssertionError("fewer different ids than ids, but none is repeated")


def stray_blanks(labels: Iterable[str]) -> list[str]:
    """The labels with white space around them, or several blanks in a row within.

    >>> stray_blanks(["apple", " apple", "import  policy", "import policy"])
    [' apple', 'import  policy']
    """
    return [label for label in labels if label != " ".join(label.split())]


def packed_separator(labels: Sequence[str], documents: int) -> str | None:
    """What separates labels in strings that each look like several labels, None if they do not.

    `labels` has the string of each document that has but one label, `documents` is the number of all with labels. With
    a semicolon or bar in nearly all of them there is no doubt. A comma is found in single labels too ("Austen, Jane");
    but then what is before it in one label is seldom after it in another, as it is in lists of labels.

    >>> packed_separator(["apple;food", "food;fish", "fish;sea"], 3)
    ';'
    >>> packed_separator(["Cookery, French", "fish", "sea"], 3)
    """
    sample = list(islice(labels, SAMPLE))
    for separator in SEPARATORS:
        packed = [label for label in sample if separator in label.strip(separator)]
        share = len(packed) * len(labels) / (max(1, len(sample)) * max(1, documents))
        if share < MANY:
            continue
        lists = [[part.strip() for part in label.split(separator) if part.strip()] for label in dict.fromkeys(packed)]
        first = {parts[0] for parts in lists if parts}
        later = {part for parts in lists for part in parts[1:]}
        shared = len(first & later) >= SHARED * len(first)
        long = sum(map(len, lists)) > 2.5 * len(lists)
        sure = separator != "," or len(lists) < FEW_LABELS or long
        if shared or (share >= NEARLY_ALL and sure):
            return separator
    return None
