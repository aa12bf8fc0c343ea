"""`x_transformer`: a transformer finds clusters of labels, linear classifiers rank the labels in them.

Chang, Yu, Zhong, Yang, Dhillon: "Taming Pretrained Transformers for Extreme Multi-label Text Classification", KDD 2020
(as X-BERT: arXiv 1905.02331).

What it does: labels are clustered (balanced 2-means, about 100 in a cluster) by the tf-idf vectors of their documents,
by the encoder's vectors of these ("embeddings"), or by those of the labels' names. The matcher, a pretrained encoder
with a linear layer, is fine-tuned to find the clusters of a document by squared hinge. The ranker has a linear
classifier for each label, on the document's tf-idf beside the vector that the tuned encoder makes of it. It learns from
the documents of the label's cluster and from those for which the matcher finds the cluster, the hard negatives. A
label's score is exp(-max(0, 1 - s)^2) of the ranker's s, times that of the matcher's to the power of `discount`.

Where it differs: the authors' ranking leaves out the matcher's score (`discount=0`); a little of it is better, and all
of it far worse. For them a document whose cluster the matcher misses is no negative of the cluster's other labels. The
matcher begins with the answer "no", and stops early by documents that are held out. The paper's ensemble of nine has
three encoders, each with three clusterings (`label_vectors` lists them, `ensemble="ranks"`); a model here has one
encoder. `matcher="linear"` spares the fine-tuning: linear classifiers on the same features, with the encoder as it
comes, find the clusters. Labels without documents are spread over the clusters and get the answer "no".

Cost: encoding each document once for the ranker and about three times for each epoch of the matcher; then training the
ranker, labels x documents of a cluster x (words + width of the encoder). The folder has the encoder and, of each label,
the weights that are not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import Csr
from xmtc.corpus.sparse import dense_csr, unit_rows, with_dense
from xmtc.corpus.strings import Strings
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.tree import LabelTree, build_tree
from xmtc.memory import give_back_memory
from xmtc.models.base import Model
from xmtc.models.config import PRUNE, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.nn.encoders.settings import EncoderSettings, TransformerTraining
from xmtc.predictions import Predictions, ScoreKind
from xmtc.progress import progress
from xmtc.search.beam import descend
from xmtc.search.linear_training import TrainChildren, child_documents, reached_by, train_level, work_of
from xmtc.search.linear_tree import LinearTree, NodeWeights, read_tree
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.subword_tokenizer import SubwordTokenizer
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.token_store import TokenStore

if TYPE_CHECKING:
    from torch import nn

    from xmtc.models.x_transformer.matcher import Matcher
    from xmtc.nn.serialization import Arrays

LIST_LENGTH = 100  # of each member's list before members are averaged
BATCH = 2048  # documents that are ranked together
READ_TOGETHER = 16_384  # documents that are encoded before their labels are sought
Vectors = NDArray[np.float32]
Found = tuple[NDArray[np.int32], NDArray[np.float32]]  # ids and log-probabilities, each (documents, k)
Clustering = Literal["documents", "embeddings", "names"]


class RankerSettings(BaseModel):
    """Linear classifiers, as those of `parabel`: the ranker's, and a linear matcher's."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    loss: Literal["squared_hinge", "logistic"] = "squared_hinge"
    """Loss of the classifiers: squared_hinge (a linear SVM) or logistic."""
    cost: PositiveFloat = Field(1.0, allow_inf_nan=False)
    """Weight of errors against regularisation (C): higher fits the training documents more closely."""
    bias: PositiveFloat = Field(0.3, allow_inf_nan=False)
    """How freely a classifier's bias moves away from the answer no."""
    tolerance: PositiveFloat = 0.1
    """A classifier is finished when its gradients differ by no more: smaller is more exact and slower."""
    rounds: PositiveInt = 20
    """Passes over a classifier's documents, at most."""
    smallest_weight: NonNegativeFloat = 0.01
    """Drop weights that are nearer to 0: a smaller and faster model."""


class MatcherTraining(TransformerTraining):
    """How the matcher is fine-tuned; `learning_rate` is that of the layer that scores clusters."""

    epochs: PositiveInt | Annotated[tuple[PositiveInt, ...], Field(min_length=1)] = 4
    learning_rate: PositiveFloat = 1e-3
    warmup_ratio: float = Field(0.1, ge=0, lt=1)


class XTransformerConfig(ModelConfig):
    """Encoder, clusters, matcher and ranker; recipes/x_transformer/paper has the paper's settings."""

    encoder: EncoderSettings = EncoderSettings()
    label_vectors: Annotated[tuple[Clustering, ...], Field(min_length=1)] = ("documents",)
    """What labels are clustered by: documents, embeddings, names; several make an ensemble."""
    ensemble: Literal["mean", "ranks"] = "mean"
    """How the members are averaged: mean of probabilities, or ranks, as in the paper."""
    max_leaf: PositiveInt = 100
    """Labels of a cluster, at most."""
    matcher: Literal["transformer", "linear"] = "transformer"
    """What finds clusters: the fine-tuned transformer, or linear classifiers on the encoder as it comes."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the numbers of a document's vector set to 0 while the matcher is trained."""
    beam_width: PositiveInt = 10
    """Clusters that the matcher finds for a document, in training and in prediction."""
    negatives: Literal["teacher", "matcher"] = "matcher"
    """The ranker learns from a cluster's own documents (teacher), or also from those the matcher finds for it."""
    discount: float = Field(0.2, ge=0, le=1)
    """How much the matcher's log-probability counts; 0 (as in the paper): labels are ranked by the ranker alone."""
    embedding_weight: NonNegativeFloat = Field(1.0, allow_inf_nan=False)
    """Length of the encoder's vector in the ranker's features, beside the tf-idf vector of length 1."""
    ranker: RankerSettings = RankerSettings()
    training: MatcherTraining = MatcherTraining()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))

    @model_validator(mode="after")
    def _encoder_is_used(self) -> Self:
        if self.matcher == "linear" and self.embedding_weight == 0:
            raise ValueError("matcher=linear with embedding_weight=0 has no use for an encoder; take the model parabel")
        return self


class XTransformer(Model):
    """A transformer that finds clusters of labels, and a linear ranker.

    >>> XTransformer(encoder=dict(name="minilm"), matcher="linear").title
    'X-MiniLM'
    """

    name = "x_transformer"
    capabilities = Capabilities(
        summary="a transformer finds label clusters; linear classifiers on its vectors and tf-idf rank their labels",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=PRUNE,
    )
    Config = XTransformerConfig
    config: XTransformerConfig

    vectors_: DocumentVectors
    tokenizer_: SubwordTokenizer
    networks_: list[Matcher]  # one for each member, or one without clusters for all if their matchers are linear
    rankers_: list[LinearTree]  # of each member: clusters below the root, labels below the clusters

    @property
    def title(self) -> str:
        """X-Transformer only with an encoder of the paper."""
        encoder = self.config.encoder
        return "X-Transformer" if encoder.is_common else f"X-{encoder.title}"

    @property
    def score_kind(self) -> ScoreKind:
        """Means of ranks are no probabilities."""
        by_ranks = self.config.ensemble == "ranks" and self.calibration_ is None
        return ScoreKind.RANKING if by_ranks else super().score_kind

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: both kinds of vectors, separate and joined, the labels' vectors and weights, and the encoder.

        A label's vector has the terms of all its documents, and so have its weights before they are pruned.
        """
        from xmtc.nn.encoders.pretrained import encoder_size, training_memory

        assert corpus.texts is not None
        config, documents = self.config, len(corpus)
        vectors, size = DocumentVectors(config.tfidf), encoder_size(config.encoder.name)
        terms, labels = vectors.terms_of(corpus), int(np.count_nonzero(corpus.label_counts))
        shared = terms * corpus.targets.nnz // max(1, documents) + labels * size.width
        joined = 16 * (terms + documents * size.width)
        untrained = config.encoder.model_copy(update={"frozen_layers": size.layers})
        settings, batch = (untrained, 1) if self._linear else (config.encoder, config.training.batch_size)
        encoder = training_memory(settings, documents, corpus.texts.nbytes, batch)
        return vectors.memory_needed(corpus) + joined + (12 + 6 * len(config.label_vectors)) * shared + encoder

    @property
    def _linear(self) -> bool:
        return self.config.matcher == "linear"

    def _networks(self) -> list[nn.Module]:
        return [*self.networks_]

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        config = self.config
        self.vectors_ = DocumentVectors(config.tfidf)
        features = self.vectors_.fit_transform(corpus)
        self.networks_, self.rankers_ = [], []
        trees, untuned = self._clustered(corpus, features, checkpoints)
        for at, tree in enumerate(trees):
            vectors = untuned if self._linear else self._tuned(tree, at, corpus, valid, checkpoints)
            kept = checkpoints.get(f"ranker{at}")
            if kept is None:
                ranker = self._ranker(tree, at, self._joined(features, vectors), vectors, corpus)
                checkpoints.put(f"ranker{at}", ranker.to_arrays())
            else:
                ranker = LinearTree.from_arrays(kept, len(corpus.labels), self._width)
                ranker.check()
            self.rankers_.append(ranker)
            give_back_memory()

    @property
    def _width(self) -> int:
        """How many features the classifiers see."""
        return self.vectors_.width + (self.networks_[0].encoder.width if self.config.embedding_weight else 0)

    def _clustered(self, corpus: Corpus, features: Csr, checkpoints: Checkpoints) -> tuple[list[LabelTree], Vectors]:
        """(for each member a tree of two levels, clusters and labels; the untuned encoder's vectors, if needed)."""
        assert corpus.texts is not None
        kinds, seen = self.config.label_vectors, np.flatnonzero(corpus.label_counts)
        untuned, trees = np.zeros((0, 0), np.float32), []
        if self._linear or {*kinds} - {"documents"}:
            plain = self._matcher(clusters=0)
            if self._linear or "embeddings" in kinds:
                untuned = self._encoded(plain, corpus.texts, checkpoints, "vectors")
            if self._linear:
                self.networks_.append(plain)
        for at, kind in enumerate(kinds):
            if kind == "documents":
                vectors = take_rows(label_vectors(features, corpus.weighted_targets, corpus.labels), seen)
            else:
                if kind == "embeddings":
                    dense = take_rows(corpus.targets.T.tocsr(), seen) @ untuned
                else:
                    names = (f"{corpus.labels.name(i)} {corpus.labels.description(i)}" for i in seen.tolist())
                    dense = self._encoded(plain, Strings.of(names), checkpoints, "names")
                vectors = unit_rows(dense_csr(dense))
            tree = build_tree(vectors, max_leaf=self.config.max_leaf, levels=1, seed=derived_seed(self.config.seed, at))
            tree = tree.spread_over(seen, len(corpus.labels))
            trees.append(tree if tree.depth == 2 else LabelTree((LabelTree.of([[[0]]]).levels[0], *tree.levels)))
        return trees, untuned

    def _matcher(self, clusters: int, seed: int | None = None) -> Matcher:
        """A new matcher on the encoder as it comes, where it is to be trained."""
        from xmtc.models.x_transformer.matcher import Matcher
        from xmtc.nn.devices import device_called, place
        from xmtc.nn.encoders.encoder import Encoder
        from xmtc.nn.encoders.pretrained import load_pretrained

        config = self.config
        pretrained = load_pretrained(config.encoder.name)
        self.tokenizer_ = pretrained.tokenizer
        network = Matcher(Encoder.of(pretrained, config.encoder), clusters, config.dropout, seed)
        place(network, device_called(config.training.device))
        return network

    def _tokens(self, texts: Strings) -> TokenStore:
        return self.tokenizer_.encode(texts, self.config.encoder.max_tokens)

    def _encoded(
        self, network: Matcher, texts: Strings, checkpoints: Checkpoints | None = None, name: str = ""
    ) -> Vectors:
        """The encoder's vectors of texts, kept as a piece of the run if there is one."""
        from xmtc.nn.encoders.encoder import EncoderTexts, batches_of
        from xmtc.nn.parallel import torch_threads

        kept = checkpoints.get(name) if checkpoints is not None else None
        if kept is not None:
            return kept["vectors"]
        tokens = EncoderTexts(self._tokens(texts))
        with torch_threads(len(batches_of(tokens))) as cores:
            vectors = network.encoder.vectors(tokens, cores)
        if checkpoints is not None:
            checkpoints.put(name, {"vectors": vectors})
        return vectors

    def _tuned(
        self, tree: LabelTree, at: int, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints
    ) -> Vectors:
        """Train a matcher; gives its vectors of all training documents."""
        from xmtc.models.x_transformer.matcher import tuned

        assert corpus.texts is not None
        config, seed, clusters = self.config, derived_seed(self.config.seed, at), tree.levels[0].shape[1]
        network = self._matcher(clusters, seed)
        self.networks_.append(network)
        if clusters == 1:  # nothing to decide
            return self._encoded(network, corpus.texts, checkpoints, f"matcher{at}-vectors")
        settings = config.training.at(0)
        return tuned(network, tree, corpus, valid, self._tokens, settings, seed, checkpoints, f"matcher{at}")

    def _joined(self, features: Csr, vectors: Vectors) -> Csr:
        """Tf-idf and the encoder's vectors side by side, of length 1 together."""
        weight = np.float32(self.config.embedding_weight)
        if weight == 0:
            return features
        lengths = np.sqrt(np.einsum("nw,nw->n", vectors, vectors, dtype=np.float64))[:, None]
        # A model file may hold any numbers; a document's must be finite.
        dense = np.nan_to_num(vectors * (weight / np.maximum(lengths, 1e-30)), posinf=0, neginf=0).astype(np.float32)
        return unit_rows(with_dense(features, dense))

    def _ranker(self, tree: LabelTree, at: int, features: Csr, vectors: Vectors, corpus: Corpus) -> LinearTree:
        """Classifiers of the labels below their clusters, and of the clusters if the matcher is linear."""
        config = self.config
        lists = child_documents(tree, corpus.targets)
        train = TrainChildren(features, corpus.document_weights, config.ranker, config.seed)
        top, below = tree.levels
        work = work_of(below, lists[1]) + (work_of(top, lists[0]) if self._linear else 0)
        with progress(f"training the ranker, {at + 1} of {len(config.label_vectors)}", work) as bar:
            if self._linear:
                clusters = train_level(train, top, lists[0], None, bar)
            else:
                clusters = NodeWeights.nothing(1, top.shape[1])
            reached: Csr | None = None
            if config.negatives == "matcher":
                matcher = LinearTree(LabelTree((top,)), clusters, features.shape[1])
                count = min(config.beam_width, top.shape[1])
                reached = reached_by(self._search(matcher, at, features, vectors, count)[0], top.shape[1])
            labels = train_level(train, below, lists[1], reached, bar)
        return LinearTree(tree, NodeWeights.of_levels([clusters, labels]), features.shape[1])

    def _search(self, tree: LinearTree, at: int, features: Csr, vectors: Vectors, k: int) -> Found:
        """The k best labels (or clusters, of a tree that ends there) of each document."""
        blocks = [slice(start, start + BATCH) for start in range(0, features.shape[0], BATCH)]
        found = [self._search_block(tree, at, take_rows(features, rows), vectors[rows], k) for rows in blocks]
        return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])

    def _search_block(self, tree: LinearTree, at: int, features: Csr, vectors: Vectors, k: int) -> Found:
        config = self.config
        if self._linear:
            return tree.search(features, config.ranker.loss, config.beam_width, k, config.discount)
        scores = self.networks_[at].scores(vectors)[:, tree.tree.levels[0].indices]  # (documents, clusters)
        probabilities = -np.square(np.maximum(0, 1 - scores)).ravel()
        documents, top, ends_here = features.shape[0], tree.tree.levels[0], tree.tree.depth == 1
        root, nothing = np.zeros(documents, np.int64), np.zeros(documents, np.float32)
        keep = k if ends_here else config.beam_width
        clusters = descend(top, probabilities, np.arange(documents), root, nothing, documents, keep)
        if ends_here:
            return clusters
        return tree.search(features, config.ranker.loss, config.beam_width, k, config.discount, (1, *clusters))

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        parts = [
            Predictions.blend(self._lists(corpus[start : start + READ_TOGETHER], k), k=k)
            for start in range(0, len(corpus), READ_TOGETHER)
        ]
        ids, scores = (np.concatenate([getattr(part, what) for part in parts]) for what in ("ids", "scores"))
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _lists(self, corpus: Corpus, k: int) -> list[Predictions]:
        """Each member's best labels, with their probabilities, or with what their ranks count."""
        labels, lists = self._fitted(), []
        length = min(max(k, LIST_LENGTH), len(labels))
        for at, (features, vectors) in enumerate(self._read(corpus)):
            ids, scores = self._search(self.rankers_[at], at, features, vectors, length)
            probabilities = np.exp(scores)
            if self.config.ensemble == "ranks":
                probabilities = np.where(ids < 0, 0, 1 - np.arange(length) / length).astype(np.float32)
            lists.append(Predictions(ids, probabilities, labels, self.score_kind))
        return lists

    def _read(self, corpus: Corpus) -> Iterator[tuple[Csr, Vectors]]:
        """For each member (what its classifiers see, the encoder's vectors)."""
        assert corpus.texts is not None
        features = self.vectors_.transform(corpus)
        vectors, joined = np.zeros((0, 0), np.float32), features
        for at in range(len(self.rankers_)):
            if at < len(self.networks_):  # linear matchers share one
                vectors = self._encoded(self.networks_[at], corpus.texts)
                joined = self._joined(features, vectors)
            yield joined, vectors

    def _explain(self, text: str, label: int) -> Explanation:
        """Words weigh weight x value in the ranker's score of the label, and in a linear matcher's of its cluster.

        The mean over the members; the encoder's vector and the bias add the rest of these scores.
        """
        query = Corpus.of([text])
        lists, members = self._lists(query, 1), len(self.rankers_)
        words = self.vectors_.transform(query)
        total = np.zeros(words.nnz)
        evidence = []
        for at, (features, _) in enumerate(self._read(query)):
            ranker, probabilities = self.rankers_[at], lists[at].scores[0][lists[at].ids[0] == label]
            cluster, own = ranker.path(label)
            each = [ranker.contributions(step, features.indices, features.data) for step in (cluster, own)]
            total += (each[0] + each[1])[: words.nnz] / members
            evidence.append(
                f"clustering by {self.config.label_vectors[at]}: "
                + (
                    f"score {probabilities[0]:.3f}; "
                    if len(probabilities)
                    else "its cluster was not among those found; "
                )
                + f"the ranker's score is {each[1].sum() + ranker.bias(own):.3f}, of which words add "
                f"{each[1][: words.nnz].sum():.3f} and the encoder's vector {each[1][words.nnz :].sum():.3f}"
            )
        score = float(sum(found.scores[0][found.ids[0] == label].sum() for found in lists)) / members
        assert self.vectors_.tfidf is not None
        terms, order = self.vectors_.tfidf.terms, np.argsort(-np.abs(total), kind="stable")
        shown = tuple((terms[int(words.indices[i])], float(total[i])) for i in order if total[i] != 0)
        return Explanation(self._fitted().name(label), score, shown, tuple(evidence))

    def _pruned(self, share: float) -> Self:
        made = copy(self)
        made.rankers_ = [ranker.pruned(share) for ranker in self.rankers_]
        return made

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        self.vectors_.save(folder)
        folder.text("tokenizer.json", self.tokenizer_.to_json())
        folder.json("encoder", self.networks_[0].encoder.facts())
        for at, network in enumerate(self.networks_):
            write_network(folder, f"matcher{at}", network)
        for at, ranker in enumerate(self.rankers_):
            folder.arrays(f"ranker{at}", ranker.to_arrays(), ["weights"])

    def _load(self, folder: FolderReader) -> None:
        from xmtc.models.x_transformer.matcher import Matcher
        from xmtc.nn.encoders.encoder import Encoder
        from xmtc.nn.serialization import read_network

        config = self.config
        self.vectors_ = DocumentVectors.load(folder, config.tfidf)
        self.tokenizer_ = SubwordTokenizer.from_json(folder.text("tokenizer.json"))
        facts = folder.json("encoder")

        def empty(arrays: Arrays) -> Matcher:
            encoder = Encoder.from_facts(facts, config.encoder, len(self.tokenizer_))
            return Matcher(encoder, 0 if self._linear else len(arrays["output.bias"]), config.dropout)

        members, labels = len(config.label_vectors), len(self._fitted())
        self.networks_ = [
            read_network(folder, f"matcher{at}", empty).eval() for at in range(1 if self._linear else members)
        ]
        self.rankers_ = [read_tree(folder, f"ranker{at}", labels, self._width) for at in range(members)]
        for at, ranker in enumerate(self.rankers_):
            with folder.building(f"ranker{at}"):
                clusters = ranker.tree.levels[0].shape[1]
                if ranker.tree.depth != 2 or (not self._linear and self.networks_[at].clusters != clusters):
                    raise ValueError("its clusters are not those of the matcher")
