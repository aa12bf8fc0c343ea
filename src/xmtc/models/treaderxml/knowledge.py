"""What TReaderXML knows about a document from its neighbours: knowledge for the network, votes, and explanations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import unit_rows
from xmtc.corpus.strings import Strings
from xmtc.labelspace.seen_labels import SeenLabels
from xmtc.models.treaderxml.teacher import Teacher, knowledge, label_texts
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.search.neighbours import DocumentSearch, Neighbours, TextVectors
from xmtc.search.sparse_index import SparseIndex
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.token_store import TokenStore

LISTED = 5  # neighbours in an explanation
NAMED = 50  # labels that a text is compared with by name


@dataclass(frozen=True)
class TReaderInputs:
    """Documents as a reader takes them. Labels are those that training documents have, by their place among these."""

    tokens: TokenStore
    knowledge: Csr | None = None  #: documents x (labels + clusters) of the teacher, with weights
    votes: Csr | None = None  #: documents x labels: the share of the neighbours' votes
    encoded: NDArray[np.float32] | None = None  #: documents x width: unit vectors that an encoder made of the texts
    names: Csr | None = None  #: documents x labels: how like the text a label's name and description are

    def __len__(self) -> int:
        return len(self.tokens)

    def take(self, documents: NDArray[np.int64]) -> TReaderInputs:
        """Some of the documents."""
        sparse = (self.knowledge, self.votes, self.names)
        known, votes, names = (None if part is None else take_rows(part, documents) for part in sparse)
        encoded = None if self.encoded is None else self.encoded[documents]
        return TReaderInputs(self.tokens.take(documents), known, votes, encoded, names)

    def right_without_votes(self, targets: Csr) -> float:
        """Of the labels that nobody voted for, the share that are right, the documents' labels being `targets`."""
        if self.votes is None:
            return 0.0
        voted = int((self.votes.sign() * targets).nnz)
        return (targets.nnz - voted + 1) / (targets.shape[0] * targets.shape[1] - self.votes.nnz + 2)


@dataclass(frozen=True)
class KnowledgeSettings:
    """How many neighbours teach and how many vote (0: none), and how."""

    neighbours: int
    voters: int
    power: float
    weighted: bool
    parentless: bool  #: whether labels without parents count as knowledge


@dataclass(eq=False)
class NeighbourKnowledge:
    """Training documents with their labels, found as neighbours; and the teacher, if there is one."""

    settings: KnowledgeSettings
    seen: SeenLabels
    targets: Csr  #: training documents x all labels
    search: DocumentSearch | None  #: None if nothing is asked of neighbours
    teacher: Teacher | None = None
    ids: Strings | None = None  #: what the training documents are called
    encoder: TextVectors | None = None  #: what makes `TReaderInputs.encoded`, if the network reads these
    names: SparseIndex | None = None  #: the labels' names and descriptions, if texts are compared with these

    @property
    def wanted(self) -> int:
        """How many neighbours are looked for."""
        return max(self.settings.neighbours, self.settings.voters)

    @cached_property
    def _carried(self) -> Csr:
        """What each training document tells those that it is a neighbour of."""
        assert self.teacher is not None
        return self.teacher.carried(self.targets, self.settings.parentless)

    @cached_property
    def seen_targets(self) -> Csr:
        """The labels of the training documents, without those that none has."""
        some = self.seen.columns(self.targets)
        some.sort_indices()
        return some

    def encode(
        self, corpus: Corpus, settings: EncoderSettings | None, checkpoints: Checkpoints, device: str = "cpu"
    ) -> NDArray[np.float32] | None:
        """Take an encoder, if there is to be one; its vectors of the training documents, kept with the checkpoints.

        It computes on `device`, such as "auto".
        """
        from xmtc.models.neighbour_vectors import encoder_vectors

        if settings is None:
            return None
        self.encoder = encoder_vectors(settings, device)
        kept = checkpoints.get("encoded")
        if kept is None:
            kept = {"vectors": np.asarray(self.encoder.transform(corpus))}
            checkpoints.put("encoded", kept)
        vectors: NDArray[np.float32] = kept["vectors"]
        return vectors

    def nearest(self, corpus: Corpus, encoded: NDArray[np.float32] | None = None) -> Neighbours | None:
        """The neighbours of further documents, however near; an encoder that finds them need not read them again."""
        if self.search is None:
            return None
        known = encoded if self.search.settings.vectors == "encoder" else None
        return self.search.nearest(corpus, self.wanted, known, limited=False)

    def compare_names(self, labels: LabelSet) -> None:
        """From now on texts are compared with the labels' names and descriptions too, as they are with each other."""
        assert self.search is not None
        texts = list(label_texts(labels))
        named = self.search.vectors.transform(Corpus.of([texts[at] for at in self.seen.ids.tolist()]))
        assert not isinstance(named, np.ndarray)
        self.names = SparseIndex.of(unit_rows(named))

    def _like_names(self, corpus: Corpus) -> Csr | None:
        if self.names is None or self.search is None:
            return None
        ids, near = self.names.nearest(self.search.vectors.transform(corpus), NAMED)  # type: ignore[arg-type]
        return Neighbours(ids, near).matrix(near, len(self.names))

    def inputs(
        self, corpus: Corpus, tokens: TokenStore, near: Neighbours | None, encoded: NDArray[np.float32] | None = None
    ) -> TReaderInputs:
        """Documents with what their neighbours bring them, and what an encoder made of them."""
        settings, known, votes = self.settings, None, None
        if near is not None and self.teacher is not None:
            nearest = near.top(settings.neighbours)
            weights = nearest.similarities if settings.weighted else np.ones_like(nearest.similarities)
            known = knowledge(nearest.matrix(weights, self.targets.shape[0]), self._carried, settings.weighted)
        if near is not None and settings.voters:
            votes = near.top(settings.voters).shares(settings.power, self.seen_targets)
        return TReaderInputs(tokens, known, votes, encoded, self._like_names(corpus))

    def with_fair_votes(self, inputs: TReaderInputs, near: Neighbours | None, seed: int) -> TReaderInputs:
        """All training documents with votes that a network can learn from.

        Leave-one-out biases votes against relevant labels: a training document does not vote for itself. A label with a
        single document would only get wrong votes, and a network would learn never to trust them. So one voter, drawn
        at random, is dropped for irrelevant labels too.
        """
        if inputs.votes is None or near is None:
            return inputs
        targets = self.seen_targets
        columns = targets.tocsc()
        counts = np.diff(columns.indptr)
        chosen = columns.indptr[:-1] + np.random.default_rng(seed).integers(0, np.maximum(counts, 1))
        columns.data[chosen[counts > 0]] = 0
        fewer = columns.tocsr()
        fewer.eliminate_zeros()
        voters = near.top(self.settings.voters)
        of_wrong = voters.shares(self.settings.power, fewer)
        votes = (inputs.votes * targets + of_wrong - of_wrong * targets).tocsr()
        votes.eliminate_zeros()
        votes.sort_indices()
        return replace(inputs, votes=votes)

    def said_by_neighbours(self, near: Neighbours | None, label: int, labels: LabelSet, words: list[str]) -> list[str]:
        """Sentences about the neighbours that brought a label to one document, and about what came with it."""
        if near is None:
            return []
        rows = near.ids[0][: self.settings.neighbours or self.settings.voters]
        rows = rows[rows >= 0]
        if not len(rows):
            return ["no training document is near this text"]
        of_each = [_entries(self.targets, row) for row in rows.tolist()]
        have = [at for at, tags in enumerate(of_each) if label in tags]
        said = [f"{len(have) or 'none'} of {len(rows)} neighbours {'has' if len(have) < 2 else 'have'} this label"]
        for at in have[:LISTED]:
            name = self.ids[int(rows[at])] if self.ids is not None else str(rows[at])
            said.append(f"training document {name} has it, similarity {near.similarities[0, at]:.2f}")
        if self.teacher is None:
            return said
        above = [self._called(parent, labels, words) for parent in _entries(self.teacher.parents, label)]
        if have and above:
            said.append(f"with it came what is above it: {', '.join(above)}")
        below = sorted({tag for tags in of_each for tag in tags if label in _entries(self.teacher.parents, tag)})
        if below:
            said.append(f"it is above what neighbours have: {', '.join(map(labels.name, below[:LISTED]))}")
        described = self.teacher.description(label, words)
        return [*said, f"the teacher describes it as: {described}"] if described else said

    def _called(self, parent: int, labels: LabelSet, words: list[str]) -> str:
        """A label, or a cluster by the words that describe it."""
        if parent < len(labels):
            return labels.name(parent)
        assert self.teacher is not None
        return f"a cluster ({self.teacher.description(parent, words)})"

    def save(self, folder: FolderWriter) -> None:
        """Write everything but the settings and what is seen, which other parts of the model know."""
        folder.matrix("targets", self.targets)
        if self.search is not None:
            self.search.save(folder)
        if self.encoder is not None and (self.search is None or self.search.vectors is not self.encoder):
            self.encoder.save(folder)
        if self.teacher is not None:
            folder.arrays("teacher", self.teacher.to_arrays())
        if self.ids is not None:
            folder.strings("documents", self.ids)

    def load(
        self, folder: FolderReader, most_words: int, vocabulary: int, encoder: EncoderSettings | None = None
    ) -> None:
        """Take teacher, encoder and documents' names from a folder; BadModelFolder if they do not fit to the rest."""
        from xmtc.models.neighbour_vectors import load_encoder

        documents, labels = self.targets.shape
        if encoder is not None:
            if self.search is not None and self.search.settings.vectors == "encoder":
                self.encoder = self.search.vectors
            else:
                self.encoder = load_encoder(folder, encoder)
        if self.settings.neighbours:
            with folder.building("teacher"):
                self.teacher = Teacher.from_arrays(folder.arrays("teacher"), labels, vocabulary)
                if self.teacher.words.shape[1] != most_words:
                    raise ValueError(f"descriptions of {self.teacher.words.shape[1]} words, not {most_words}")
        if folder.has("documents.safetensors"):
            self.ids = folder.strings("documents", documents)


def _entries(matrix: Csr, row: int) -> list[int]:
    found: list[int] = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]].tolist()
    return found
