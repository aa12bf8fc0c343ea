"""The near-duplicates of a corpus for a report: how many, some side by side, and those between test and training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.near_duplicates import near_copies, near_duplicates, shingles, similarity
from xmtc.corpus.strings import Strings, digests

EXAMPLES = 5
BEGIN = 160  # characters of a text that are shown


@dataclass(frozen=True)
class SimilarTexts:
    """Two documents with nearly the same text, and how many further ones are like the first."""

    ids: tuple[str, str]
    texts: tuple[str, str]  # where they begin to differ
    similarity: float
    further: int


@dataclass(frozen=True)
class NearDuplicates:
    """Documents that nearly repeat an earlier one; exact copies are left out of all figures.

    `leakage` is the number of test documents that nearly repeat one of training, None without a test corpus.
    """

    documents: int
    groups: int
    examples: list[SimilarTexts]
    leakage: int | None


def find_similar(train: Corpus, test: Corpus | None = None) -> NearDuplicates:
    """The near-duplicates within a corpus and between test and training documents.

    >>> found = find_similar(Corpus.of(["red fruit", "blue sky", "Red fruit!", "red fruit"]), Corpus.of(["BLUE sky"]))
    >>> found.documents, found.groups, found.leakage, found.examples[0].ids
    (1, 1, 1, ('0', '2'))
    """
    assert train.texts is not None
    first = near_duplicates(train.texts)
    near = np.flatnonzero((first != np.arange(len(train))) & ~_copies(train.texts))
    groups, at, sizes = np.unique(first[near], return_index=True, return_counts=True)
    largest = np.argsort(-sizes, kind="stable")[:EXAMPLES]
    leakage = None
    if test is not None and test.texts is not None:
        exact = np.isin(digests(test.texts), digests(train.texts))
        leakage = int(((near_copies(test.texts, train.texts) >= 0) & ~exact).sum())
    examples = [_side_by_side(train, int(groups[i]), int(near[at[i]]), int(sizes[i]) - 1) for i in largest.tolist()]
    return NearDuplicates(len(near), len(groups), examples, leakage)


def _copies(texts: Strings) -> NDArray[np.bool_]:
    """Which texts are the same as an earlier one."""
    _, first = np.unique(digests(texts), return_index=True)
    copies = np.ones(len(texts), bool)
    copies[first] = False
    return copies


def _side_by_side(corpus: Corpus, one: int, other: int, further: int) -> SimilarTexts:
    assert corpus.texts is not None
    a, b = corpus.texts[one], corpus.texts[other]
    same = next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    # Two texts that begin alike are shown from a little before the first difference.
    start = max(0, same - BEGIN // 2) if same > BEGIN else 0
    alike = similarity(shingles(a), shingles(b))
    return SimilarTexts((corpus.id(one), corpus.id(other)), (_excerpt(a, start), _excerpt(b, start)), alike, further)


def _excerpt(text: str, start: int) -> str:
    cut = " ".join(text[start : start + BEGIN].split())
    return ("… " if start else "") + cut + (" …" if len(text) > start + BEGIN else "")
