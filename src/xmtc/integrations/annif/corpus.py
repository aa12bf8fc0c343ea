"""Annif's vocabulary as a label set and its documents as a corpus: a label's key is its URI."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from xmtc.corpus.builder import CorpusBuilder, ReadOptions
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet

Analyze = Callable[[str], str]

ANALYZER = "analyzer"  # the column of cached training documents that says what their words were made by


def label_set(subjects: Any, language: str) -> LabelSet:
    """The subjects of a vocabulary that are in use, also those that no document has: some methods know names.

    A label is named as in the given language; a notation (the number of a class) is an alternative name.
    """
    active = {subject.uri: subject for _, subject in subjects.active}
    names = [subject.labels.get(language) or "" for subject in active.values()]
    notations = [[subject.notation] if subject.notation else [] for subject in active.values()]
    return LabelSet.of(active, names, alternatives=notations if any(notations) else None)


def documents_of(
    documents: Iterable[Any], subjects: Any, labels: LabelSet, analyze: Analyze, analyzer: str, name: str
) -> tuple[Corpus | None, int]:
    """(documents with subjects and words, how many have none of either); no corpus if there are no others.

    Documents are taken one by one and kept in compact form, so Annif may stream them.
    """
    uris = {at: subject.uri for at, subject in subjects.active}
    builder = CorpusBuilder(name, ReadOptions(keep=(ANALYZER,)), labels)
    left_out = 0
    for document in documents:
        keys = [uris[at] for at in document.subject_set if at in uris]
        text = analyze(document.text)
        if keys and text.strip():
            builder.add(keys, text=text, fields=[analyzer])
        else:
            left_out += 1
    return builder.build() if len(builder) else None, left_out


def as_it_is(text: str) -> str:
    """The text of a project without an analyzer: the method finds the words."""
    return text


def analysis(tokenize_words: Callable[[str], Iterable[str]]) -> Analyze:
    """The words that an analyzer of Annif makes of a text, joined by blanks.

    >>> analysis(str.split)(" red  apple")
    'red apple'
    """
    return lambda text: " ".join(tokenize_words(text))
