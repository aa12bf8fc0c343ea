"""`attentionxml`: a BiLSTM read by one attention a label, level by level down a shallow and wide label tree.

You, Zhang, Wang, Dai, Mamitsuka, Zhu: "AttentionXML: Label Tree-based Attention-Aware Deep Model for High-Performance
Extreme Multi-Label Text Classification", NeurIPS 2019.

What it does: word vectors go through a BiLSTM; each label weighs the words in its own way, and layers that all labels
share turn the weighted mean into its score. With many labels a tree is put above them (balanced 2-means, a few wide
levels) and each level has a network of its own, trained on the children of the nodes that the level above finds, the
relevant ones always among them; a label's probability is the product down its path. Weights are averaged over the last
epochs (SWA); several trees (or seeds, without a tree) can be averaged.

With a `shortlist` a linear model finds the labels, and the last network learns what is to be added to their log-odds:
where most labels have a handful of documents, words count that no network has seen often enough.

Where it differs: the first shared layer is applied before the weighted mean (the same function, cheaper); words without
a given vector can get one that is learned on the documents; an output bias that fits the share of relevant labels; each
label has output weights of its own beside the shared ones (it learns in fewer epochs; `own_outputs=false` is the
paper's); a label's score also says how well its row fits the words, and it begins with its parent's rows (a mean of
states does not tell how well, and some seeds never learn it from there; `logsumexp_score=false` is the paper's); the
state of a word also says what the word is by itself (`shortcut=false` is the paper's); the tree is chosen from the
number of labels unless it is given; `pooling="max"` is the paper's BiLSTM ablation; labels without documents are left
out; in prediction states and weights are multiplied as bytes.

Cost: training a document takes tokens x hidden x (dimensions + hidden) for the BiLSTM of each level, and tokens x
(3 x hidden) x labels (or candidates) for the attention, whatever the number of labels in all; memory grows with words
and labels, five numbers each for a weight, its two moments, its mean and its best value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.errors import ConfigError
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.tree import LabelTree, build_tree
from xmtc.models.attentionxml.shortlist import Lister, Shortlister
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.models.registry import make
from xmtc.nn.settings import TrainingSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.beam import beam_search
from xmtc.search.listed import Listed
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from xmtc.models.attentionxml.network import AttentionXmlNetwork
    from xmtc.nn.datasets import Documents

LIST_LENGTH = 100  # of each tree's list before trees are averaged
PREDICT_BATCH, MAX_BATCH_TOKENS = 64, 8192  # documents, and their words with padding
FIRST_LEVEL = 2048  # nodes, at the most, that every document is compared with
FLAT_WORTH = 4.0  # attention over all labels may cost this many times the BiLSTM before a tree is better
CANDIDATE_LABELS, FEWEST_PARENTS = 512, 15


class AttentionXmlConfig(ModelConfig):
    """The network, the label tree above it, and the training; recipes/attentionxml has the paper's settings.

    A tree has `levels` levels of nodes (H in the paper) with `arity` children each (K) and at most `max_leaf` labels
    under a lowest node (M); of each level `beam_width` nodes are followed (C). What is null is chosen. With
    `own_outputs` each label adds output weights of its own to the shared ones, with a `logsumexp_score` its score also
    says how well its row fits the words, and with a `shortcut` the state of each word is the mean of the BiLSTM's and
    one that the word has by itself; the paper does without the three.

    With a `shortlist`, the name of a linear model, the last network corrects the labels that this model lists. Networks
    of levels above are trained for it to begin with, and are not needed afterwards.
    """

    trees: PositiveInt = 1
    tree: Literal["auto", "flat", "tree"] = "auto"
    levels: PositiveInt | None = None
    arity: int | None = Field(None, ge=2)
    max_leaf: PositiveInt | None = None
    beam_width: PositiveInt | None = None
    hidden: PositiveInt = 128
    layers: tuple[PositiveInt, ...] = Field((128,), min_length=1)
    own_outputs: bool = True
    shortcut: bool = True
    logsumexp_score: bool = True
    shortlist: Lister | None = None
    dropout: float = Field(0.5, ge=0, lt=1)
    pooling: Literal["attention", "max"] = "attention"
    bottleneck: PositiveInt = 512
    label_table: Literal["float32", "float16", "int8"] = "float32"
    words: WordSettings = WordSettings()
    training: TrainingSettings = TrainingSettings()
    tfidf: TfIdfSettings = Field(default_factory=lambda: TfIdfSettings(min_chars=1))


@dataclass(frozen=True)
class TreeShape:
    """What `tree`, `levels`, `arity`, `max_leaf` and `beam_width` come down to; no levels: flat."""

    levels: int
    arity: int
    max_leaf: int
    beam_width: int
    reason: str


@dataclass
class Member:
    """One tree of the ensemble with a network for each of its levels."""

    tree: LabelTree
    networks: list[AttentionXmlNetwork]


class AttentionXml(Model):
    """BiLSTM and multi-label attention, level by level down a label tree.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 9, tags * 9)
    >>> quick = dict(batch_size=4, learning_rate=0.02)
    >>> small = dict(hidden=8, layers=[8], words=dict(vectors="random", dimensions=8), training=quick)
    >>> AttentionXml(**small).fit(corpus).predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "attentionxml"
    capabilities = Capabilities(
        summary="BiLSTM with an attention for each label, over a shallow and wide label tree; shows where it looks",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        extra="neural",
    )
    Config = AttentionXmlConfig
    config: AttentionXmlConfig

    tokenizer_: WordTokenizer
    seen_: NDArray[np.int64]  # labels that documents had; the networks and trees know only these, by their place here
    members_: list[Member]
    beam_width_: int  # nodes that are followed on each level
    lister_: Shortlister | None

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: words and labels five times, token ids, the tf-idf for clustering, and the values of a batch."""
        assert corpus.texts is not None
        config, shape = self.config, self._shape(corpus)
        words = min(config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        labels = int(np.count_nonzero(corpus.label_counts))
        rows = words * config.words.dimensions + labels * (2 * config.hidden + config.own_outputs * config.layers[-1])
        clustering = DocumentVectors(config.tfidf).memory_needed(corpus) if shape.levels else 0
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        per_token = 12 * config.hidden + 3 * config.words.dimensions
        batch = config.training.batch_size * tokens * per_token + 4 * config.training.batch_size * labels
        lister = make(config.shortlist).memory_needed(corpus) if config.shortlist else 0
        return 20 * rows + corpus.texts.nbytes + clustering + lister + 4 * min(batch, 2**31) + (100 << 20)

    def _shape(self, corpus: Corpus) -> TreeShape:
        return self._shape_for(int(np.count_nonzero(corpus.label_counts)))

    def _shape_for(self, labels: int) -> TreeShape:
        """Flat or which tree, for so many labels with documents."""
        config = self.config
        lstm = 16 * config.hidden * (config.words.dimensions + config.hidden)
        affordable = int(FLAT_WORTH * lstm / (2 * (2 * config.hidden + config.layers[0])))
        if config.pooling == "max" and config.shortlist:
            raise ConfigError("attentionxml: pooling='max' scores all labels, so it does without a shortlist")
        if config.pooling == "max" and config.tree == "tree":
            raise ConfigError("attentionxml: pooling='max' scores all labels, so it goes with tree='flat'")
        if config.pooling == "max" or config.tree == "flat" or (config.tree == "auto" and labels <= affordable):
            reason = f"flat: {labels:,} labels, attention over all of them is affordable up to {affordable:,}"
            return TreeShape(0, 2, max(1, labels), 1, reason if config.tree == "auto" else "flat, as asked")
        levels = config.levels or (1 if labels <= 64 * FIRST_LEVEL else 2)
        step = max(3, math.ceil(math.log2(max(2, labels) / FIRST_LEVEL) / levels))
        arity = config.arity or 2**step
        max_leaf = config.max_leaf or arity
        beam_width = config.beam_width or max(FEWEST_PARENTS, CANDIDATE_LABELS // max_leaf)
        why = f"{labels:,} labels are more than the {affordable:,} that are affordable at once"
        reason = f"a tree{': ' + why if config.tree == 'auto' else ', as asked'}; "
        reason += f"levels={levels}, arity={arity}, max_leaf={max_leaf}, beam_width={beam_width}"
        return TreeShape(levels, arity, max_leaf, beam_width, reason)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        from xmtc.nn.datasets import Documents, prepare_word_datasets

        config, shape = self.config, self._shape(corpus)
        print(f"attentionxml: {shape.reason}", file=sys.stderr)
        self.tokenizer_, table, train_set, valid_set = prepare_word_datasets(
            corpus, valid, config.words, config.training, config.seed
        )
        self.members_, self.beam_width_ = [], shape.beam_width
        self.seen_ = np.flatnonzero(corpus.label_counts)
        train_set, valid_set = (Documents(part.tokens, part.targets[:, self.seen_]) for part in (train_set, valid_set))
        self.lister_, lists = None, None
        if config.shortlist:
            self.lister_, lists = self._shortlists(config.shortlist, corpus, valid, checkpoints)
        for at, tree in enumerate(self._label_trees(corpus, shape)):
            networks = self._train_tree(tree, table, train_set, valid_set, shape.beam_width, at, checkpoints, lists)
            if lists is not None:  # the networks above have done their work
                tree, networks = self._flat_tree(), networks[-1:]
            self.members_.append(Member(tree, networks))

    def _flat_tree(self) -> LabelTree:
        return LabelTree.of([[list(range(len(self.seen_)))]])

    def _shortlists(
        self, name: Lister, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints
    ) -> tuple[Shortlister, tuple[Listed, Listed]]:
        """(what finds labels, lists of the documents to learn from and of those to check with)."""
        from xmtc.nn.datasets import validation_rows

        rows, held_out = validation_rows(len(corpus), valid, self.config.training.valid_documents, self.config.seed)
        lister, fair = Shortlister.fit(name, corpus[rows], self.config.seed, checkpoints)
        valid_set = lister.lists((corpus if valid is None else valid)[held_out])
        return lister, (self._known(fair), self._known(valid_set))

    def _known(self, listed: Listed) -> Listed:
        """The same with the places of labels among those that have documents."""
        places = np.searchsorted(self.seen_, listed.labels).astype(np.int32)
        known = self.seen_[np.minimum(places, len(self.seen_) - 1)] == listed.labels
        return Listed(np.where(known, places, np.int32(-1)), listed.odds)

    def _label_trees(self, corpus: Corpus, shape: TreeShape) -> Sequence[LabelTree]:
        """A tree for each member, of the labels that documents have."""
        config, seen = self.config, self.seen_
        if not shape.levels:
            return [self._flat_tree()] * config.trees
        features = DocumentVectors(config.tfidf).fit_transform(corpus)
        vectors = take_rows(label_vectors(features, corpus.targets, corpus.labels), seen)
        deepest = math.ceil(math.log2(max(1.0, len(seen) / shape.max_leaf)) / math.log2(shape.arity))
        if self.config.levels is not None and deepest < shape.levels:
            raise ConfigError(
                f"attentionxml: {len(seen)} labels make a tree of at most {deepest} levels with arity={shape.arity} "
                f"and max_leaf={shape.max_leaf}, not levels={shape.levels}; choose fewer levels or smaller nodes"
            )
        return [
            build_tree(
                vectors, arity=shape.arity, max_leaf=shape.max_leaf, levels=shape.levels,
                seed=derived_seed(config.seed, at),
            )
            for at in range(config.trees)
        ]  # fmt: skip

    def _train_tree(
        self, tree: LabelTree, table: NDArray[np.float32], train: Documents, valid: Documents, beam_width: int, at: int,
        checkpoints: Checkpoints, lists: tuple[Listed, Listed] | None,
    ) -> list[AttentionXmlNetwork]:  # fmt: skip
        """The networks of a tree's levels from the top, each begun with what the one above has learned."""
        from xmtc.models.attentionxml.reranking import CorrectionLearner
        from xmtc.nn.datasets import Documents
        from xmtc.nn.level import Beam, LevelLearner, expand_beam
        from xmtc.nn.parallel import torch_threads
        from xmtc.nn.trainer import train as train_network
        from xmtc.nn.warm_up import warmed_up

        config = self.config
        networks: list[AttentionXmlNetwork] = []
        targets = [tree.targets(part.targets) for part in (train, valid)]
        if config.words.pretraining_epochs:
            top = [Documents(part.tokens, each[0]) for part, each in zip((train, valid), targets, strict=True)]
            table = warmed_up(table, top[0], top[1], config.words.pretraining_epochs, derived_seed(config.seed, at))
        found = [Beam.at_root(len(part.tokens)) for part in (train, valid)]  # the nodes that the search has reached
        for depth, level in enumerate(tree.levels):
            correcting = lists is not None and depth == tree.depth - 1
            followed = found[0]
            if depth and not correcting:
                followed = found[0].with_positives(targets[0][depth - 1], beam_width)
            name = f"tree{at}-level{depth}" if tree.depth > 1 else f"model{at}"
            seed = derived_seed(config.seed, at, depth)
            network = self._network(table, level.shape[1], seed, correcting)
            if networks:
                network.init_from_parent(networks[-1], tree.parents(depth) if config.logsumexp_score else None)
            learner: LevelLearner | CorrectionLearner
            if lists is not None and correcting:
                learner = CorrectionLearner(network, train, lists[0], valid, lists[1], config.training.batch_size)
                network.expect_unlisted(learner.share_of_unlisted())
            else:
                learner = LevelLearner(
                    network, level, depth == 0, Documents(train.tokens, targets[0][depth]), followed,
                    Documents(valid.tokens, targets[1][depth]), found[1],
                )  # fmt: skip
                network.expect(learner.share_of_positives())
            train_network(learner, config.training.at(depth), seed, checkpoints, name)
            networks.append(network)
            if depth + 1 < tree.depth - (lists is not None):
                with torch_threads() as cores:
                    found = [
                        expand_beam(
                            network,
                            level,
                            depth == 0,
                            part.tokens,
                            above,
                            beam_width,
                            cores,
                            f"{name}: finding candidates",
                        )
                        for part, above in zip((train, valid), found, strict=True)
                    ]
        return networks

    def _network(self, table: NDArray[np.float32], labels: int, seed: int, correcting: bool) -> AttentionXmlNetwork:
        from xmtc.models.attentionxml.network import AttentionXmlNetwork

        config = self.config
        return AttentionXmlNetwork.made(
            table, labels, hidden=config.hidden, layers=config.layers, word_dropout=config.words.dropout,
            dropout=config.dropout, frozen=config.words.frozen, own_outputs=config.own_outputs,
            bottleneck=config.bottleneck if config.pooling == "max" else None, seed=seed, shortcut=config.shortcut,
            logsumexp_score=config.logsumexp_score, corrective=correcting,
        )  # fmt: skip

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        return Predictions.blend(self._lists(corpus, k), k=k)

    def _lists(self, corpus: Corpus, k: int) -> list[Predictions]:
        """Each member's best labels, with their probabilities."""
        from xmtc.nn.batching import by_tokens
        from xmtc.nn.level import children_scores
        from xmtc.nn.parallel import torch_threads

        if self.lister_ is not None:
            return self._corrected(self.lister_, corpus)
        assert corpus.texts is not None
        labels = self._fitted()
        tokens = self.tokenizer_.encode(corpus.texts, self.config.words.max_tokens)
        length = min(max(k, LIST_LENGTH), len(self.seen_))
        batches = by_tokens(tokens.lengths, MAX_BATCH_TOKENS, PREDICT_BATCH)
        beam_width = self.beam_width_
        lists = []
        with torch_threads(len(batches)) as cores:
            for member in self.members_:
                ids = np.full((len(corpus), length), -1, np.int32)
                scores = np.zeros((len(corpus), length), np.float32)

                def search(documents: NDArray[np.int64], member: Member = member) -> tuple[Any, Any]:
                    def score(depth: int, rows: Any, nodes: Any) -> NDArray[np.float32]:
                        network, level = member.networks[depth], member.tree.levels[depth]
                        return children_scores(network, level, depth == 0, tokens, documents, rows, nodes)

                    return beam_search(member.tree, score, len(documents), beam_width, length)

                for documents, found in zip(batches, cores.map(search, batches), strict=True):
                    ids[documents] = np.where(found[0] < 0, -1, self.seen_[found[0]])
                    scores[documents] = np.exp(found[1])
                lists.append(Predictions(ids, scores, labels, self.score_kind))
        return lists

    def _corrected(self, lister: Shortlister, corpus: Corpus) -> list[Predictions]:
        """The same where a linear model has found the labels."""
        from xmtc.models.attentionxml.reranking import corrected
        from xmtc.nn.parallel import torch_threads

        assert corpus.texts is not None
        labels = self._fitted()
        tokens = self.tokenizer_.encode(corpus.texts, self.config.words.max_tokens)
        listed = self._known(lister.lists(corpus))
        lists = []
        with torch_threads(-(-len(corpus) // PREDICT_BATCH)) as cores:
            for member in self.members_:
                places, probabilities = corrected(member.networks[-1], tokens, listed, cores)
                ids = np.where(places < 0, -1, self.seen_[places]).astype(np.int32)
                lists.append(Predictions(ids, probabilities, labels, self.score_kind))
        return lists

    def _explain(self, text: str, label: int) -> Explanation:
        """Where the label looked: the share of its attention that each word has, the mean over the members."""
        import torch

        from xmtc.nn.batching import padded

        place = int(np.searchsorted(self.seen_, label))
        if place == len(self.seen_) or self.seen_[place] != label:
            return Explanation(self._fitted().name(label), 0.0, (), ("no training document had this label",), text=text)
        query = Corpus.of([text])
        lists = self._lists(query, len(self._fitted()))
        probabilities = [float(found.scores[0][found.ids[0] == label].sum()) for found in lists]
        assert query.texts is not None
        tokens = self.tokenizer_.encode(query.texts, self.config.words.max_tokens)
        with torch.inference_mode():
            ids, lengths = padded(tokens, np.zeros(1, np.int64))
            each = [member.networks[-1].attention_weights(ids, lengths, place) for member in self.members_]
        shares = np.nan_to_num(np.mean([np.asarray(part) for part in each], axis=0))
        spans = [
            (start, end, float(share)) for (start, end), share in zip(self.tokenizer_.spans(text), shares, strict=False)
        ]
        evidence = []
        for at, member in enumerate(self.members_):
            kind = f"tree {at + 1}, {member.tree.depth} levels" if member.tree.depth > 1 else f"model {at + 1}"
            evidence.append(f"{kind}: probability {probabilities[at]:.3f}")
        if self.lister_ is not None:
            listed = self.lister_.lists(query)
            odds = listed.odds[listed.labels == label]
            said = f"with a probability of {1 / (1 + np.exp(-odds[0])):.3f}" if len(odds) else "nowhere in its list"
            evidence.insert(0, f"{self.config.shortlist}, which the network corrects: {said}")
        return Explanation.of_spans(self._fitted().name(label), float(np.mean(probabilities)), text, spans, evidence)

    def _save(self, folder: FolderWriter) -> None:
        folder.text("tokenizer.json", self.tokenizer_.to_json())
        folder.arrays("search", {"beam_width": np.array([self.beam_width_]), "seen": self.seen_})
        if self.lister_ is not None:
            self.lister_.save(folder)
        for at, member in enumerate(self.members_):
            folder.arrays(f"tree{at}", member.tree.to_arrays())
            for depth, network in enumerate(member.networks):
                folder.arrays(f"tree{at}-level{depth}", network.to_arrays(self.config.label_table))

    def _load(self, folder: FolderReader) -> None:
        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        with folder.building("search"):
            arrays = folder.arrays("search")
            self.beam_width_, self.seen_ = int(arrays["beam_width"][0]), arrays["seen"].astype(np.int64, casting="safe")
            rising = np.diff(self.seen_, prepend=-1, append=len(self._fitted())) > 0
            if self.beam_width_ < 1 or not rising.all() or not len(self.seen_):
                raise ValueError("the labels of the trees are not those of the model")
        name = self.config.shortlist
        self.lister_ = Shortlister.load(folder, name, self) if name is not None else None
        self.members_ = []
        for at in range(self.config.trees):
            with folder.building(f"tree{at}"):
                tree = LabelTree.from_arrays(folder.arrays(f"tree{at}"))
                if tree.labels != len(self.seen_):
                    raise ValueError(f"a tree of {tree.labels} labels for a model with {len(self.seen_)}")
            networks = []
            for depth, level in enumerate(tree.levels):
                networks.append(self._load_network(folder, f"tree{at}-level{depth}", level.shape[1]))
            self.members_.append(Member(tree, networks))

    def _load_network(self, folder: FolderReader, name: str, labels: int) -> AttentionXmlNetwork:
        from xmtc.nn.serialization import Arrays, read_network

        def made(arrays: Arrays) -> AttentionXmlNetwork:
            table = arrays["words.words.weight"]
            if table.ndim != 2 or len(table) != len(self.tokenizer_):
                raise ValueError(f"a table of the shape {table.shape} for {len(self.tokenizer_)} words")
            empty = np.empty(table.shape, np.float32)
            return self._network(empty, labels, 0, self.lister_ is not None).with_rows_like(arrays)

        return read_network(folder, name, made)
