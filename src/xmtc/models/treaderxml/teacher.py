"""Teacher knowledge: what the labels of a document's neighbours, and the parents of these labels, are about.

Wang, Song, Huo, Xu, Yang, Chen, Zhao: "Exploiting Dynamic and Fine-grained Semantic Scope for Extreme Multi-label Text
Classification" (TReaderXML), Algorithm 1. A `Teacher` has a few words about each label, its description, and knows
which labels stand above it. From the neighbours of a document it makes the set of labels whose words are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import checked_csr, make_csr, with_columns
from xmtc.corpus.strings import Strings
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import SPECIAL, WordTokenizer

Words = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Teacher:
    """Descriptions of labels, and of clusters of labels where these serve as parents, as word ids; and the parents.

    >>> labels = LabelSet.of(["a", "b"], names=["Animals", "Birds of prey"], parents=[[], ["a"]])
    >>> tokenizer = WordTokenizer.train(Strings.of(["animals birds of prey"]))
    >>> teacher = Teacher.of(labels, tokenizer, most=2, strongest=lambda rows: np.zeros((rows.shape[0], 2), np.int32))
    >>> [teacher.description(label, tokenizer.words) for label in (0, 1)]
    ['animals', 'birds of']
    >>> birds_only = make_csr(np.ones(1, np.float32), np.array([1]), np.array([0, 1]), (1, 2))
    >>> teacher.carried(birds_only).toarray().tolist()
    [[1.0, 1.0]]
    """

    words: Words  #: (labels + clusters, most words), 0 after the last word
    parents: Csr  #: labels x (labels + clusters)
    fallbacks: tuple[str, ...] = ()  #: what had to stand in for names, descriptions and a hierarchy

    @classmethod
    def of(
        cls,
        labels: LabelSet,
        tokenizer: WordTokenizer,
        most: int,
        strongest: Callable[[Csr], Words],
        clusters: Csr | None = None,
    ) -> Teacher:
        """A teacher whose descriptions have at most `most` words.

        A label is described by its name and description; without either by its key, if that is made of words which the
        documents have; else by the `strongest` words of its documents. Parents are those of the label set, else the
        `clusters`, (clusters, labels), which are described by their strongest words.
        """
        words = first_words(tokenizer.encode(Strings.of(label_texts(labels))), most)
        nameless = np.flatnonzero(words[:, 0] == 0)
        keys = tokenizer.encode(labels.keys[nameless])
        known = np.add.reduceat(keys.ids >= len(SPECIAL), keys.offsets[:-1]) if len(nameless) else np.zeros(0, np.int64)
        by_key = 2 * known >= keys.lengths
        words[nameless[by_key]] = first_words(keys, most)[by_key]
        nameless = nameless[~by_key]
        said = []
        if len(nameless):
            words[nameless] = strongest(labels_as_rows(nameless, len(labels)))
            said.append(
                f"{len(nameless):,} of {len(labels):,} labels have no name that is made of words: "
                "described by the strongest words of their documents"
            )
        parents = labels.parents
        if parents is None or not parents.nnz:
            assert clusters is not None, "whoever has no hierarchy must bring clusters"
            said.append(f"the labels have no hierarchy: clusters of them take its place ({clusters.shape[0]:,})")
            words = np.concatenate([words, strongest(clusters)])
            above: Csr = clusters.T.tocsr()
            parents = make_csr(
                np.ones(above.nnz, np.float32), above.indices + len(labels), above.indptr, (len(labels), len(words))
            )
        return cls(words, parents, tuple(said))

    def __len__(self) -> int:
        return len(self.words)

    def carried(self, targets: Csr, parentless: bool = True) -> Csr:
        """Documents x (labels + clusters): each document's labels and their parents, which its neighbours learn of.

        Algorithm 1 leaves out labels that have no parent, unless they are one; they stay if `parentless`.
        """
        own = with_columns(targets, len(self))
        if not parentless:
            has_parent = np.diff(self.parents.indptr) > 0
            own = make_csr(own.data * has_parent[own.indices], own.indices, own.indptr, own.shape)
        both: Csr = (own + targets @ self.parents).tocsr()
        both.eliminate_zeros()
        both.sort_indices()
        return make_csr(np.ones(both.nnz, np.float32), both.indices, both.indptr, both.shape)

    def description(self, label: int, words: list[str]) -> str:
        """The description of a label or cluster."""
        return " ".join(words[at] for at in self.words[label].tolist() if at)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for storage."""
        return {"words": self.words, "indices": self.parents.indices, "indptr": self.parents.indptr}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], labels: int, vocabulary: int) -> Teacher:
        """The inverse of `to_arrays`; KeyError or ValueError for arrays that do not fit the labels and words."""
        words = arrays["words"]
        if words.dtype != np.int32 or words.ndim != 2 or len(words) < labels or not words.shape[1]:
            raise ValueError(f"descriptions of {words.dtype} {words.shape} for {labels} labels")
        if words.min(initial=0) < 0 or words.max(initial=0) >= vocabulary:
            raise ValueError(f"descriptions with words outside of a vocabulary of {vocabulary}")
        indices = arrays["indices"]
        ones = np.ones(indices.shape, np.float32)
        return cls(words, checked_csr(ones, indices, arrays["indptr"], (labels, len(words))))


class Strongest:
    """The words that count most for labels or clusters of labels, from the labels' vectors over words.

    >>> vectors = make_csr(np.array([0.2, 0.9, 0.4], np.float32), np.array([2, 3, 4]), np.array([0, 2, 3]), (2, 5))
    >>> Strongest(vectors, most=2)(labels_as_rows(np.array([1, 0]), 2)).tolist()
    [[4, 0], [3, 2]]
    """

    def __init__(self, vectors: Csr, most: int) -> None:
        self.vectors, self.most = vectors, most

    def __call__(self, rows: Csr) -> Words:
        """(rows, most): the words of the sum of the vectors of each row's labels, strongest first, then 0."""
        sums: Csr = (rows @ self.vectors).tocsr()
        found = np.zeros((sums.shape[0], self.most), np.int32)
        for row in range(sums.shape[0]):
            here = slice(sums.indptr[row], sums.indptr[row + 1])
            words, weights = sums.indices[here], sums.data[here]
            # Ties go to the word in more documents, whose id is lower.
            best = words[np.lexsort((words, -weights))[: self.most]]
            found[row, : len(best)] = best
        return found


def knowledge(neighbours: Csr, carried: Csr, weighted: bool = False) -> Csr:
    """Documents x (labels + clusters): the labels that a document's neighbours bring, each once, with the weight 1.

    If `weighted`, the weight is the sum over the neighbours who bring it, of their weights in `neighbours`, (documents,
    training documents).
    """
    found: Csr = (neighbours @ carried).tocsr()
    found.sort_indices()
    if not weighted:
        found.data[:] = 1
    return found


def label_texts(labels: LabelSet) -> Iterable[str]:
    """Name and description of each label; empty where there is neither.

    >>> list(label_texts(LabelSet.of(["a", "b"], names=["Animals", ""], descriptions=["All of them.", ""])))
    ['Animals All of them.', '']
    """
    for at in range(len(labels)):
        name = labels.names[at] if labels.names is not None else ""
        yield f"{name} {labels.description(at)}".strip()


def first_words(tokens: TokenStore, most: int) -> Words:
    """(documents, most): the first known words of each, then 0.

    >>> first_words(TokenStore.of([[1, 5, 6, 7], [8]]), 2).tolist()
    [[5, 6], [8, 0]]
    """
    known = tokens.ids >= len(SPECIAL)
    rows = np.repeat(np.arange(len(tokens)), tokens.lengths)[known]
    ids = tokens.ids[known]
    starts = np.concatenate([[0], np.cumsum(known)])[tokens.offsets[:-1]]
    places = np.arange(len(ids)) - starts[rows]
    found = np.zeros((len(tokens), most), np.int32)
    inside = places < most
    found[rows[inside], places[inside]] = ids[inside]
    return found


def labels_as_rows(labels: NDArray[np.int64], width: int) -> Csr:
    """A row for each of some labels, with a 1 at the label."""
    return make_csr(np.ones(len(labels), np.float32), labels, np.arange(len(labels) + 1), (len(labels), width))
