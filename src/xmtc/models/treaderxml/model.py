"""`treaderxml`: a text is read together with what its nearest neighbours' labels, and their parents, are about.

Wang, Song, Huo, Xu, Yang, Chen, Zhao: "Exploiting Dynamic and Fine-grained Semantic Scope for Extreme Multi-label Text
Classification" (TReaderXML), NLPCC 2022.

What it does: for every text the nearest training documents are found, by cosine of the means of their word vectors.
Their labels and the parents of these have descriptions, of which the first words are averaged place by place: the
teacher knowledge, a "sentence" of a few word vectors. Teacher and text are each read by masked multi-head
self-attention, a residual and plain self-attention; the two are put behind each other and read once more, masked, so
that the words of the text see the teacher's. Mean and maximum over all places, a bottleneck, a score for each label.

Where it differs: the paper looks for neighbours among "training and validation set", so that a training document finds
itself, and with itself the correct answer. Here only training documents are neighbours, never the text itself nor a
copy of it, for training, validation and test alike (see `xmtc.search.neighbours`). Every other formula can be had as
printed (docs/methods/treaderxml.md lists them; recipes/treaderxml/paper sets them). By default labels without parents
are kept, a place of the knowledge is a mean over the labels with a word there, the bottleneck has a bias and a ReLU,
and labels' scores have a bias that starts from their frequency. Mean and max pooling is what the paper leaves open.
Without a hierarchy, clusters of labels are parents; without names, the strongest words of their documents describe
labels. Our additions are off by default: the log-odds of the neighbours' votes are added to the scores (`votes`), and
so is the similarity of the text to labels' names (`names`); the bottleneck also sees the vector of a pretrained encoder
(`encoded`); knowledge is dropped in training (`knowledge_dropout`); near duplicates are no neighbours in training
(`search.max_similarity`); other vectors find the neighbours (`search.vectors`); with many labels only candidates are
scored: those of the neighbours, those of the best clusters, or both (`candidates`).

Cost: training a document takes about 3 x tokens x dimensions x (24 x dimensions + 3 x tokens) for the reading and 3 x
bottleneck x labels (or candidates) for the scores; memory grows with words x dimensions and labels x bottleneck, five
numbers each, and with one vector a training document, which is a part of the model.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import make_csr, unit_rows, with_columns
from xmtc.corpus.strings import Strings
from xmtc.errors import ConfigError
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.seen_labels import SeenLabels
from xmtc.labelspace.tree import build_tree
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities
from xmtc.models.explanation import Explanation
from xmtc.models.treaderxml.settings import TReaderXmlConfig
from xmtc.models.treaderxml.teacher import Strongest, Teacher, label_texts
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.neighbours import DocumentSearch, Floats, Neighbours
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.mean_embeddings import token_idf, token_matrix
from xmtc.text.token_store import TokenStore
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xmtc.models.treaderxml.knowledge import KnowledgeSettings, NeighbourKnowledge, TReaderInputs
    from xmtc.models.treaderxml.network import TReaderNetwork
    from xmtc.models.treaderxml.scoring import TReaderScorer
    from xmtc.nn.serialization import Arrays

WEIGHTS = "network"
MANY_LABELS = 30_000  # more are not all scored, unless asked for
USUAL = 100  # labels that are scored where there is no candidate


class TReaderXml(Model):
    """Self-attention over a text and over what its neighbours' labels are about.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> small = dict(heads=2, bottleneck=16, words=dict(vectors="random", dimensions=32))
    >>> quick = dict(epochs=10, batch_size=4, learning_rate=0.01)
    >>> TReaderXml(**small, training=quick).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "treaderxml"
    capabilities = Capabilities(
        summary="attends over the text and over the label descriptions of similar documents",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = TReaderXmlConfig
    config: TReaderXmlConfig

    tokenizer_: WordTokenizer
    seen_: SeenLabels
    knowledge_: NeighbourKnowledge
    scorer_: TReaderScorer

    @property
    def _scores(self) -> str:
        """Which labels are scored: "all", or where candidates come from."""
        if self.config.candidates != "auto":
            return self.config.candidates
        return "all" if len(self.seen_) <= MANY_LABELS else "both"

    @property
    def _knowledge_settings(self) -> KnowledgeSettings:
        """How many neighbours are needed for what."""
        from xmtc.models.treaderxml.knowledge import KnowledgeSettings

        config = self.config
        votes = config.votes or self._scores in ("neighbours", "both")
        return KnowledgeSettings(
            neighbours=config.neighbours if config.branches != "text" else 0,
            voters=config.voters if votes else 0,
            power=config.vote_power,
            weighted=config.weighting == "similarity",
            parentless=config.parentless_labels,
        )

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: words and labels five times, vectors of documents, their knowledge, the values of a batch."""
        assert corpus.texts is not None
        config, labels = self.config, int(np.count_nonzero(corpus.label_counts))
        words = min(config.words.max_words, (corpus.texts.nbytes + 20 * len(corpus.labels)) // 30 + 1000)
        weights = words * config.words.dimensions + labels * config.bottleneck
        if config.search.vectors == "tfidf":
            search = DocumentVectors(config.tfidf).memory_needed(corpus)
        else:
            search = 8 * len(corpus) * (384 if config.search.vectors == "encoder" else config.words.dimensions)
        if config.encoded:
            search += 4 * len(corpus) * 384 + (300 << 20)
        each = corpus.targets.nnz // len(corpus) + 1
        known = 16 * len(corpus) * each * (2 * config.neighbours + config.voters)
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        scored = labels if labels <= MANY_LABELS or config.candidates == "all" else MANY_LABELS
        batch = config.training.batch_size * (
            tokens * (30 * config.words.dimensions + config.heads * tokens) + 6 * scored
        )
        return 24 * weights + 3 * corpus.texts.nbytes + search + known + 4 * batch + (100 << 20)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        import torch

        from xmtc.models.treaderxml.knowledge import NeighbourKnowledge
        from xmtc.models.treaderxml.scoring import TReaderLearner
        from xmtc.nn.datasets import validation_rows
        from xmtc.nn.layers import seeded
        from xmtc.nn.trainer import train

        config, seed = self.config, derived_seed(self.config.seed, 0)
        self.seen_ = SeenLabels.of(corpus.label_counts)
        self.knowledge_ = NeighbourKnowledge(self._knowledge_settings, self.seen_, corpus.targets, None, ids=corpus.ids)
        tokens, table = self._words(corpus)
        encoder = config.encoder if config.encoded else None
        encoded = self.knowledge_.encode(corpus, encoder, checkpoints, config.training.device)
        near = self._find_neighbours(corpus, tokens, table, encoded, checkpoints)
        clusters = self._build_teacher(corpus, tokens)
        everyone, targets = self.knowledge_.inputs(corpus, tokens, near, encoded), self.knowledge_.seen_targets
        rows, held_out = validation_rows(len(corpus), valid, config.training.valid_documents, config.seed)
        if valid is None:
            valid_set, relevant = everyone.take(held_out), take_rows(targets, held_out)
        else:
            others = valid[held_out]
            valid_set, relevant = (
                self._inputs(others),
                self.seen_.columns(with_columns(others.targets, len(corpus.labels))),
            )
        train_set = self.knowledge_.with_fair_votes(everyone, near, derived_seed(config.seed, 2)).take(rows)
        learned_targets = take_rows(targets, rows)
        with seeded(seed):
            # A copy: the search for neighbours keeps the vectors as they are, the network trains them.
            network = self._network(torch.tensor(table), 0 if clusters is None else clusters.shape[0])
        shares = (corpus.label_counts[self.seen_.ids] + 1) / (len(corpus) + 2)
        network.init_output_bias(shares, train_set.right_without_votes(learned_targets))
        self.scorer_ = self._scorer(network, corpus.label_counts, clusters)
        learner = TReaderLearner(
            self.scorer_,
            train_set,
            learned_targets,
            valid_set,
            relevant,
            config.knowledge_dropout,
            sum_over_labels=config.loss_over_labels == "sum",
        )
        learner.document_weights = corpus.document_weights[rows] if corpus.document_weights is not None else None
        train(learner, config.training.at(0), seed, checkpoints, WEIGHTS)

    def _words(self, corpus: Corpus) -> tuple[TokenStore, Floats]:
        """(documents as word ids, a vector for each word); the words of labels' names and descriptions have ids too."""
        from xmtc.text.embedding_table import word_table

        assert corpus.texts is not None
        config = self.config
        texts = Strings.joined([corpus.texts, Strings.of(label_texts(corpus.labels))])
        self.tokenizer_ = WordTokenizer.train(texts, config.words.max_words, config.words.min_df)
        tokens = self.tokenizer_.encode(texts, config.words.max_tokens)
        table = word_table(config.words, self.tokenizer_, tokens, config.seed)
        if config.heads > table.shape[1]:
            raise ConfigError(f"treaderxml: heads={config.heads} for word vectors of {table.shape[1]} numbers")
        ends = tokens.offsets[: len(corpus) + 1]
        return TokenStore(tokens.ids[: ends[-1]], ends), table

    def _find_neighbours(
        self, corpus: Corpus, tokens: TokenStore, table: Floats, encoded: Floats | None, checkpoints: Checkpoints
    ) -> Neighbours | None:
        """The neighbours of the training documents, each without itself; found once and kept with the checkpoints."""
        from xmtc.models.neighbour_vectors import fit_vectors

        config, knowledge = self.config, self.knowledge_
        if not knowledge.wanted:
            return None
        words = (self.tokenizer_, tokens, table)
        read = (knowledge.encoder, encoded)
        vectors, matrix = fit_vectors(config, corpus, words, read, config.training.device)
        knowledge.search = DocumentSearch.of(config.search, vectors, matrix, corpus.texts, config.seed)
        if config.names:
            knowledge.compare_names(corpus.labels)
        kept = checkpoints.get("neighbours")
        if kept is None:
            near = knowledge.search.nearest_of_training(matrix, knowledge.wanted)
            checkpoints.put("neighbours", {"ids": near.ids, "similarities": near.similarities})
        else:
            near = Neighbours(kept["ids"], kept["similarities"])
        lonely = int((near.ids[:, 0] < 0).sum())
        if lonely:
            _say(f"{lonely:,} of {len(corpus):,} documents have no neighbour: they read that nothing is known")
        return near

    def _build_teacher(self, corpus: Corpus, tokens: TokenStore) -> Csr | None:
        """Make the teacher, if the network reads one; returns clusters, (clusters, seen labels), if they are scored."""
        config, labels, words = self.config, corpus.labels, len(self.tokenizer_)

        @cache  # costly, and not always needed
        def vectors() -> Csr:
            rows = unit_rows(token_matrix(tokens, words, token_idf(tokens, words)))
            return label_vectors(rows, corpus.targets, labels)

        def strongest(rows: Csr) -> NDArray[np.int32]:
            return Strongest(vectors(), config.description_words)(rows)

        clusters = of_all = None
        has_tree, has_teacher = self._scores in ("tree", "both"), config.branches != "text"
        if has_tree or (has_teacher and (labels.parents is None or not labels.parents.nnz)):
            some, seed = take_rows(vectors(), self.seen_.ids), derived_seed(config.seed, 1)
            clusters = build_tree(some, max_leaf=config.cluster_size, levels=1, seed=seed).levels[-1]
            columns = self.seen_.ids[clusters.indices]
            of_all = make_csr(clusters.data, columns, clusters.indptr, (clusters.shape[0], len(labels)))
        if has_teacher:
            teacher = Teacher.of(labels, self.tokenizer_, config.description_words, strongest, of_all)
            self.knowledge_.teacher = teacher
            for said in teacher.fallbacks:
                _say(said)
        return clusters if has_tree else None

    def _network(self, table: Tensor, clusters: int) -> TReaderNetwork:
        from xmtc.models.treaderxml.network import TReaderNetwork

        encoded = 0 if self.knowledge_.encoder is None else self.knowledge_.encoder.width
        sparse = self._scores != "all"
        return TReaderNetwork(table, self.config, len(self.seen_), clusters, encoded, sparse)

    def _scorer(self, network: TReaderNetwork, counts: NDArray[np.int64], clusters: Csr | None) -> TReaderScorer:
        from xmtc.models.treaderxml.scoring import Candidates, TReaderScorer

        teacher, candidates = self.knowledge_.teacher, None
        if self._scores != "all":
            usual = np.sort(np.argsort(-counts[self.seen_.ids], kind="stable")[:USUAL])
            candidates = Candidates(self._scores in ("neighbours", "both"), clusters, self.config.beam_width, usual)
        words = np.zeros((0, 1), np.int32) if teacher is None else teacher.words
        return TReaderScorer(network, words, candidates, self.config.softmax)

    def _inputs(self, corpus: Corpus) -> TReaderInputs:
        """Further documents, as the network takes them."""
        assert corpus.texts is not None
        tokens = self.tokenizer_.encode(corpus.texts, self.config.words.max_tokens)
        encoder = self.knowledge_.encoder
        encoded = None if encoder is None else np.asarray(encoder.transform(corpus))
        return self.knowledge_.inputs(corpus, tokens, self.knowledge_.nearest(corpus, encoded), encoded)

    def _networks(self) -> list[nn.Module]:
        from xmtc.models.neighbour_vectors import networks_of

        networks: list[nn.Module] = [self.scorer_.network]
        searching = None if self.knowledge_.search is None else self.knowledge_.search.vectors
        for reader in (self.knowledge_.encoder, searching):
            networks += [network for network in networks_of(reader) if network not in networks]
        return networks

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        from xmtc.nn.level import PREDICT_BATCH
        from xmtc.nn.parallel import torch_threads

        inputs = self._inputs(corpus)
        with torch_threads(-(-len(corpus) // PREDICT_BATCH)) as cores:
            found, probabilities = self.scorer_.best(inputs, k, cores)
        ids = np.full((len(corpus), k), -1, np.int32)
        scores = np.zeros((len(corpus), k), np.float32)
        ids[:, : found.shape[1]] = self.seen_.labels(found)
        scores[:, : found.shape[1]] = probabilities
        return Predictions.sorted(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """The neighbours that brought the label, the parents they added, and the words attended."""
        from xmtc.nn.devices import device_of

        labels, config = self._fitted(), self.config
        place = self.seen_.place(label)
        if place is None:
            return Explanation(labels.name(label), 0.0, (), ("no training document had this label",), text=text)
        query, document = Corpus.of([text]), np.zeros(1, np.int64)
        top = self._predict(query, len(labels))
        score = float(top.scores[0][top.ids[0] == label].sum())
        inputs = self._inputs(query)
        network = self.scorer_.network
        batch = self.scorer_.batch(inputs, document).to(device_of(network))
        taught, looked = network.attention_weights(batch.ids, batch.lengths, batch.teacher, place, batch.encoded)
        shares = looked / (looked.sum() or 1)
        where = zip(self.tokenizer_.spans(text), shares.tolist(), strict=False)
        spans = [(start, end, share) for (start, end), share in where]
        near, known = self.knowledge_.nearest(query), self.tokenizer_.words
        evidence = self.knowledge_.said_by_neighbours(near, label, labels, known)
        if batch.teacher is not None:
            evidence.append(f"the teacher's words have {float(taught.sum()):.0%} of the attention")
        if config.votes and inputs.votes is not None:
            voted = float(inputs.votes.toarray()[0, place])
            evidence.append(f"it has {voted:.0%} of the votes of {config.voters} neighbours")
        if inputs.names is not None:
            evidence.append(f"its name and the text are alike by {float(inputs.names.toarray()[0, place]):.2f}")
        return Explanation.of_spans(labels.name(label), score, text, spans, evidence)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        folder.text("tokenizer.json", self.tokenizer_.to_json())
        self.knowledge_.save(folder)
        write_network(folder, WEIGHTS, self.scorer_.network)
        if self.scorer_.candidates is not None and self.scorer_.candidates.clusters is not None:
            folder.matrix("clusters", self.scorer_.candidates.clusters)

    def _load(self, folder: FolderReader) -> None:
        import torch

        from xmtc.models.neighbour_vectors import load_vectors
        from xmtc.models.treaderxml.knowledge import NeighbourKnowledge
        from xmtc.nn.serialization import read_network, word_table_shape

        labels, config, clusters = self._fitted(), self.config, None
        assert labels.counts is not None
        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        self.seen_ = SeenLabels.of(labels.counts)
        targets = folder.matrix("targets", (self.train_documents_, len(labels)))
        self.knowledge_ = NeighbourKnowledge(self._knowledge_settings, self.seen_, targets, None)
        if self.knowledge_.wanted:
            vectors = load_vectors(folder, config)
            self.knowledge_.search = DocumentSearch.load(folder, config.search, vectors, self.train_documents_)
        if config.names:
            self.knowledge_.compare_names(labels)
        encoder = config.encoder if config.encoded else None
        self.knowledge_.load(folder, config.description_words, len(self.tokenizer_), encoder)
        if self._scores in ("tree", "both"):
            clusters = folder.matrix("clusters", (None, len(self.seen_)))

        def empty(arrays: Arrays) -> TReaderNetwork:
            table = torch.empty(word_table_shape(arrays, len(self.tokenizer_)))
            return self._network(table, 0 if clusters is None else clusters.shape[0])

        self.scorer_ = self._scorer(read_network(folder, WEIGHTS, empty), labels.counts, clusters)


def _say(sentence: str) -> None:
    print(f"treaderxml: {sentence}", file=sys.stderr)
