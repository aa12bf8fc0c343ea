"""Corpus statistics: sizes, distributions of labels and words, and leakage between training and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.label_report import LabelCount, frequent_labels, label_variants, separator_within_labels
from xmtc.corpus.languages import NAMES, count_languages
from xmtc.corpus.oddities import repeated_ids, stray_blanks
from xmtc.corpus.similar_texts import SimilarTexts, find_similar
from xmtc.corpus.strings import Strings, digests

# White space beyond ASCII, as in str.split(): two or three bytes long in UTF-8, with few different first bytes.
WIDE_SPACES = (
    "\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_FIRST_BYTES = sorted({space.encode()[0] for space in WIDE_SPACES})
_WIDE_CODES = {
    size: [int.from_bytes(space.encode(), "big") for space in WIDE_SPACES if len(space.encode()) == size]
    for size in (2, 3)
}
# Texts are processed in pieces whose arrays fit into the processor's cache.
PIECE_BYTES = 1 << 18

CURVE_POINTS = 200
HISTOGRAM_BINS = 16
MOST_LANGUAGES = 6
RARE_LANGUAGE = 0.005  # share of the texts


@dataclass(frozen=True)
class Spread:
    """How a number varies over documents or labels."""

    mean: float
    median: float
    min: int
    max: int

    @classmethod
    def of(cls, values: NDArray[np.int64]) -> Spread:
        """The spread of whole numbers; all zero if there are none.

        >>> Spread.of(np.array([1, 2, 6]))
        Spread(mean=3.0, median=2.0, min=1, max=6)
        """
        if not len(values):
            return cls(0.0, 0.0, 0, 0)
        return cls(float(values.mean()), float(np.median(values)), int(values.min()), int(values.max()))

    def __str__(self) -> str:
        return f"{self.mean:,.1f} on average, median {self.median:,g}, {self.min:,} to {self.max:,}"


@dataclass(frozen=True)
class CorpusStatistics:
    """Statistics of a training corpus and, with a test corpus, of the overlap between the two.

    `documents_per_label` is over the labels in use. `duplicates` counts documents whose text occurs in an earlier one,
    `leakage` test documents whose text occurs in training; texts without a word are left out of both and counted in
    `empty_texts`. `near_duplicates` and `near_leakage` count further documents, which are not exact copies, and
    `near_duplicate_examples` shows some. Unknown figures (words without texts, leakage without a test corpus) are None.
    """

    name: str
    documents: int
    labels: int
    labels_used: int
    labels_unused: int
    labels_per_document: Spread
    labels_per_document_histogram: dict[str, int]
    documents_without_labels: int
    documents_per_label: Spread
    labels_with_one_document: int
    labels_below_5_documents: int
    share_below_5_documents: float  # of the labels in use
    rank_frequency: list[tuple[int, int]]
    words_per_document: Spread | None
    words_per_document_histogram: dict[str, int] | None
    empty_texts: int | None
    duplicates: int | None
    features: int | None
    features_per_document: Spread | None
    test_documents: int | None
    leakage: int | None
    labels_only_in_test: int | None
    test_documents_without_labels: int | None
    frequent_labels: list[LabelCount]
    label_variants: list[list[str]]
    labels_with_stray_blanks: int
    label_separator: str | None  # if the labels look like several in one string
    repeated_ids: int
    near_duplicates: int | None
    near_duplicate_groups: int | None
    near_duplicate_examples: list[SimilarTexts]
    near_leakage: int | None
    languages: dict[str, int] | None

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and dictionaries."""
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """(name, value) pairs for people; unknown figures are left out."""
        used = max(1, self.labels_used)
        all_rows = [
            ("documents", f"{self.documents:,}"),
            ("labels", f"{self.labels:,}, {self.labels_used:,} of them in use"),
            ("labels per document", str(self.labels_per_document)),
            ("documents per label in use", str(self.documents_per_label)),
            ("labels in use with one document", _part(self.labels_with_one_document, used)),
            ("labels in use with fewer than 5", _part(self.labels_below_5_documents, used)),
            ("words per document", _known(self.words_per_document)),
            ("features", _known(self.features)),
            ("non-zero features per document", _known(self.features_per_document)),
            ("documents without labels", _part(self.documents_without_labels, self.documents)),
            ("empty texts", _part(self.empty_texts, self.documents)),
            ("duplicate texts", _part(self.duplicates, self.documents)),
            ("near-duplicate texts", self._near_duplicates()),
            ("documents with a repeated id", _part(self.repeated_ids or None, self.documents)),
            ("languages", self._languages()),
            ("test documents", _known(self.test_documents)),
            ("test documents without labels", _part(self.test_documents_without_labels or None, self.test_documents)),
            ("test documents also in training", _part(self.leakage, self.test_documents)),
            ("test documents nearly in training", _part(self.near_leakage, self.test_documents)),
            ("labels only in test", _known(self.labels_only_in_test)),
        ]
        return [(what, figure) for what, figure in all_rows if figure]

    def _near_duplicates(self) -> str:
        many = "s" if self.near_duplicate_groups != 1 else ""
        groups = f", in {self.near_duplicate_groups:,} group{many}" if self.near_duplicates else ""
        return _part(self.near_duplicates, self.documents) + groups

    def _languages(self) -> str:
        """The languages by their share, as far as a line can hold them; a handful of texts may be guessed wrong."""
        counts = self.languages or {}
        texts = max(1, sum(counts.values()))
        shown = [language for language, count in counts.items() if count / texts >= RARE_LANGUAGE][:MOST_LANGUAGES]
        parts = [f"{NAMES.get(language, language)} {counts[language] / texts:.1%}" for language in shown]
        others = texts - sum(counts[language] for language in shown) if counts else 0
        return ", ".join(parts + ([f"others {others / texts:.1%}"] if others else []))

    def hints(self) -> list[str]:
        """What looks like a mistake in the data, a sentence each."""
        hints = []
        if separator := self.label_separator:
            hints.append(
                f"labels look like several in one string, separated by {separator!r}: "
                f"say --label-separator {separator!r} (label_separator={separator!r} in Python)"
            )
        if variants := self.label_variants:
            shown = "; ".join(" and ".join(map(repr, group)) for group in variants[:3])
            more = f"; {len(variants) - 3:,} more" if len(variants) > 3 else ""
            hints.append(f"labels that differ only in case or blanks: {shown}{more}; they are learned apart")
        if self.labels_with_stray_blanks:
            hints.append(f"labels with stray blanks: {self.labels_with_stray_blanks:,}")
        if self.duplicates or self.near_duplicates:
            hints.append("documents repeat earlier ones: xmtc convert IN OUT --dedup near keeps the first of each")
        if self.leakage or self.near_leakage:
            hints.append("test documents are known from training: metrics on them are too optimistic")
        return hints


def describe(
    train: Corpus, test: Corpus | None = None, *, frequent: int = 10, thorough: bool = True
) -> CorpusStatistics:
    """The statistics of a corpus with its most `frequent` labels, and what test documents share with it.

    Near-duplicates and languages, which take most of the time (5 s for 100,000 texts of 75 words), are only looked for
    if `thorough`.

    >>> train = Corpus.of(["red fruit", "red fruit", "sky"], [["apple", "food"], ["apple"], []])
    >>> figures = describe(train, Corpus.of(["sky"], [["weather"]]))
    >>> figures.duplicates, figures.leakage, figures.labels_only_in_test, figures.words_per_document.max
    (1, 1, 1, 2)
    """
    counts = train.label_counts
    used = counts[counts > 0]
    per_document = np.diff(train.targets.indptr).astype(np.int64)
    features = train.features
    words = train_digests = leakage = only_in_test = similar = None
    if train.texts is not None:
        words = word_counts(train.texts)
        train_digests = digests(train.texts[words > 0])
    if test is not None:
        test_counts = test.with_labels(train.labels).label_counts
        test_counts[: len(counts)][counts > 0] = 0
        only_in_test = int(np.count_nonzero(test_counts))
        if train_digests is not None and test.texts is not None:
            test_digests = digests(test.texts[word_counts(test.texts) > 0])
            leakage = int(np.isin(test_digests, train_digests).sum())
    if thorough and train.texts is not None:
        similar = find_similar(train, test)
    return CorpusStatistics(
        name=train.name,
        documents=len(train),
        labels=len(train.labels),
        labels_used=len(used),
        labels_unused=len(train.labels) - len(used),
        labels_per_document=Spread.of(per_document),
        labels_per_document_histogram=histogram(per_document, HISTOGRAM_BINS),
        documents_without_labels=int((per_document == 0).sum()),
        documents_per_label=Spread.of(used),
        labels_with_one_document=int((used == 1).sum()),
        labels_below_5_documents=int((used < 5).sum()),
        share_below_5_documents=float((used < 5).mean()) if len(used) else 0.0,
        rank_frequency=_rank_frequency(used),
        words_per_document=Spread.of(words) if words is not None else None,
        words_per_document_histogram=histogram(words, HISTOGRAM_BINS) if words is not None else None,
        empty_texts=int((words == 0).sum()) if words is not None else None,
        duplicates=len(train_digests) - len(np.unique(train_digests)) if train_digests is not None else None,
        features=int(features.shape[1]) if features is not None else None,
        features_per_document=Spread.of(np.diff(features.indptr).astype(np.int64)) if features is not None else None,
        test_documents=len(test) if test is not None else None,
        leakage=leakage,
        labels_only_in_test=only_in_test,
        test_documents_without_labels=int((np.diff(test.targets.indptr) == 0).sum()) if test is not None else None,
        frequent_labels=frequent_labels(train, frequent),
        label_variants=label_variants(train),
        labels_with_stray_blanks=len(stray_blanks(train.labels.keys[np.flatnonzero(counts)])),
        label_separator=separator_within_labels(train),
        repeated_ids=repeated_ids(train.ids)[0],
        near_duplicates=similar.documents if similar is not None else None,
        near_duplicate_groups=similar.groups if similar is not None else None,
        near_duplicate_examples=similar.examples if similar is not None else [],
        near_leakage=similar.leakage if similar is not None else None,
        languages=count_languages(train.texts) if similar is not None and train.texts is not None else None,
    )


def histogram(values: NDArray[np.int64], bins: int) -> dict[str, int]:
    """Whole numbers counted in at most `bins` ranges of equal width, the last one open upwards for the long tail.

    >>> histogram(np.array([1, 1, 2, 3, 90]), bins=3)
    {'1': 2, '2': 1, '3+': 2}
    """
    if not len(values):
        return {}
    low, high = int(values.min()), int(values.max())
    # The bins divide the lower 98 %, so that one document with 900 labels does not push all others into the first bin.
    body = int(np.quantile(values, 0.98, method="lower"))
    width = max(1, -(-(body - low + 1) // bins))
    starts = range(low, high + 1, width)[:bins]
    counts = np.bincount(np.minimum((values - low) // width, len(starts) - 1), minlength=len(starts)).tolist()
    names = [f"{start}" if width == 1 else f"{start}-{start + width - 1}" for start in starts]
    if high >= starts[-1] + width:
        names[-1] = f"{starts[-1]}+"
    return dict(zip(names, counts, strict=True))


def bars(counts: Sequence[int], labels: Sequence[str], width: int = 40) -> str:
    """Counts as a bar chart for the terminal, one line a label, drawn in eighths of a character.

    >>> print(bars([4, 1, 0], ["1", "2-3", "4+"], width=8))
      1 ████████ 4
    2-3 ██ 1
     4+ 0
    """
    tallest = max(counts, default=0) or 1
    margin = max(map(len, labels), default=0)
    lines = []
    for label, count in zip(labels, counts, strict=True):
        # At least a sliver for a count above 0, so that only 0 looks empty.
        eighths = max(round(8 * width * count / tallest), count > 0)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        lines.append(" ".join(filter(None, (f"{label:>{margin}}", bar, f"{count:,}"))))
    return "\n".join(lines)


def _rank_frequency(used: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(rank, documents of the label at that rank), the most frequent label first, at log-spaced ranks."""
    if not len(used):
        return []
    falling = np.sort(used)[::-1]
    ranks = np.unique(np.geomspace(1, len(used), CURVE_POINTS).round().astype(np.int64))
    return list(zip(ranks.tolist(), falling[ranks - 1].tolist(), strict=True))


def _part(count: int | None, whole: int | None) -> str:
    if count is None or not whole:
        return ""
    return f"{count:,}" + (f" ({count / whole:.1%})" if count else "")


def _known(figure: Spread | int | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,}" if isinstance(figure, int) else str(figure)


def word_counts(texts: Strings) -> NDArray[np.int64]:
    """The number of white-space separated words of each text, as in `len(text.split())`.

    >>> word_counts(Strings.of(["red  fruit", "", " Ünlü\\u00a0söz "])).tolist()
    [2, 0, 2]
    """
    counts = np.zeros(len(texts), np.int64)
    sizes = np.cumsum(texts.lengths)
    first = 0
    while first < len(texts):
        before = int(sizes[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(sizes, before + PIECE_BYTES, side="right")))
        counts[first:last] = _counts(*texts[first:last].compact())
        first = last
    return counts


def _counts(buffer: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    space = _spaces(buffer)
    # A word starts at a byte that is no space and follows a space or the text's beginning.
    starts = ~space
    starts[1:] &= space[:-1]
    begins = offsets[:-1][offsets[:-1] < offsets[1:]]
    starts[begins] = ~space[begins]
    words_before = np.searchsorted(np.flatnonzero(starts), offsets)
    return np.diff(words_before).astype(np.int64)


def _spaces(buffer: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which bytes belong to white space."""
    # Tab to carriage return and the four separators, as ranges: a byte below the range wraps around to a large one.
    space: NDArray[np.bool_] = (buffer == 32) | (buffer - np.uint8(9) <= 13 - 9) | (buffer - np.uint8(28) <= 31 - 28)
    may_be_wide = np.zeros(len(buffer), bool)
    for byte in _FIRST_BYTES:
        may_be_wide |= buffer == byte
    at = np.flatnonzero(may_be_wide)
    for size, codes in _WIDE_CODES.items():
        at = at[at + size <= len(buffer)]
        code = sum(buffer[at + i].astype(np.int64) << 8 * (size - 1 - i) for i in range(size))
        found = at[np.isin(code, codes)]
        for i in range(size):
            space[found + i] = True
    return space
