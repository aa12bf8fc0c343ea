"""`attentionxml`: a BiLSTM read by one attention a label, level by level down a shallow and wide label tree.

You, Zhang, Wang, Dai, Mamitsuka, Zhu: "AttentionXML: Label Tree-based Attention-Aware Deep Model for High-Performance
Extreme Multi-Label Text Classification", NeurIPS 2019.

What it does: word vectors go through a BiLSTM; each label weighs the words in its own way, and layers that all labels
share turn the weighted mean into its score. With many labels a tree is put above them (balanced 2-means, a few wide
levels) and each level has a network of its own, trained on the children of the nodes that the level above finds, the
relevant ones always among them; a label's probability is the product down its path. Weights are averaged over the last
epochs (SWA); several trees (or seeds, without a tree) can be averaged.

Where it differs: the first shared layer is applied before the weighted mean (the same function, cheaper); words without
a given vector can get one that is learned on the documents; the output bias begins with the share of relevant labels;
the tree is chosen from the number of labels unless it is given; labels without documents are left out; prediction uses
int8. Our additions, which the paper's recipes turn off: a label's score also says how well its query vector matches the
words, and it begins with its parent's query (`logsumexp_score`); a word's state also depends on the word alone
(`word_skip`); word vectors can learn the labels first with a bag of words (`pretraining_epochs`).

Cost: training a document takes tokens x hidden x (dimensions + hidden) for the BiLSTM of each level, and tokens x
(3 x hidden) x labels (or candidates) for the attention, whatever the number of labels in all; memory grows with words
and labels, five numbers each for a weight, its two moments, its mean and its best value.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.errors import ConfigError
from xmtc.labelspace.label_features import label_vectors
from xmtc.labelspace.seen_labels import SeenLabels
from xmtc.labelspace.tree import LabelTree, build_tree
from xmtc.models.base import Model
from xmtc.models.config import ROUND, Capabilities, ModelConfig
from xmtc.models.explanation import Explanation
from xmtc.nn.settings import TrainingSettings
from xmtc.predictions import Predictions, ScoreKind
from xmtc.search.beam import beam_search
from xmtc.seeding import derived_seed
from xmtc.storage import FolderReader, FolderWriter
from xmtc.text.document_features import DocumentVectors
from xmtc.text.embedding_table import WordSettings
from xmtc.text.tfidf import TfIdfSettings
from xmtc.text.word_tokenizer import WordTokenizer

if TYPE_CHECKING:
    from torch import Tensor, nn

    from xmtc.models.attentionxml.network import AttentionXmlNetwork
    from xmtc.nn.datasets import Documents

LIST_LENGTH = 100  # of each tree's list before trees are averaged
PREDICT_BATCH, MAX_BATCH_TOKENS = 64, 8192  # documents, and their words with padding
FIRST_LEVEL = 2048  # at most this many nodes are compared with every document
FLAT_WORTH = 4.0  # attention over all labels may cost this many times the BiLSTM before a tree is better
CANDIDATE_LABELS, FEWEST_PARENTS = 512, 15


class AttentionXmlConfig(ModelConfig):
    """The network, the label tree above it, and the training; recipes/attentionxml/paper has the paper's form.

    With `logsumexp_score` the score also has the log-mean-exp of a label's attention scores.
    """

    trees: PositiveInt = 1
    """How many trees (or networks, if flat) are trained, each from another seed, and averaged."""
    tree: Literal["auto", "flat", "tree"] = "auto"
    """flat: attention over all labels; tree: level by level; auto: flat as long as that is affordable."""
    levels: PositiveInt | None = None
    """Levels of nodes above the labels (H in the paper); null: chosen by the number of labels."""
    arity: int | None = Field(None, ge=2)
    """Children of a node, a power of 2 (K in the paper); null: chosen by the number of labels."""
    max_leaf: PositiveInt | None = None
    """Labels under a lowest node, at most (M in the paper); null: arity."""
    beam_width: PositiveInt | None = None
    """Nodes of each level that the search follows (C in the paper); null: chosen."""
    hidden: PositiveInt = 128
    """Size of the BiLSTM's state in each direction."""
    layers: tuple[PositiveInt, ...] = Field((128,), min_length=1)
    """Sizes of the layers that turn a label's weighted mean into its score, shared by all labels."""
    word_skip: bool = True
    """A word's state is the mean of the BiLSTM's and one of the word alone; not in the paper."""
    logsumexp_score: bool = True
    """A label's score also says how well its attention matches any word; not in the paper."""
    quantized: bool = True
    """Predict with int8 on a CPU: several times as fast, probabilities differ by about 0.001."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Share of the words' states set to 0 in training."""
    output_bias: Literal["prior", "inherited"] = "prior"
    """Where the output bias begins: prior (the log-odds of a relevant label), or inherited from the level above."""
    label_init: Literal["parent", "random"] | None = None
    """Where the queries of a level's labels begin: their parent's, or random; null: parent with logsumexp_score."""
    pretraining_epochs: Annotated[int, Field(ge=0)] = 0
    """Epochs in which the word vectors first learn the labels with a bag of words; not in the paper."""
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
        summary="BiLSTM and one attention per label over a shallow, wide label tree; explains by attention weights",
        input=frozenset({"text"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        gpu=True,
        extra="neural",
        weights=frozenset({"documents"}),
        shrink=ROUND,
    )
    Config = AttentionXmlConfig
    config: AttentionXmlConfig

    tokenizer_: WordTokenizer
    seen_: SeenLabels
    members_: list[Member]
    beam_width_: int  # nodes that are followed on each level

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: words and labels five times, token ids, the tf-idf for clustering, and the values of a batch."""
        assert corpus.texts is not None
        config, shape = self.config, self._shape(corpus)
        words = min(config.words.max_words, corpus.texts.nbytes // 30 + 1000)
        labels = int(np.count_nonzero(corpus.label_counts))
        rows = words * config.words.dimensions + labels * 2 * config.hidden
        clustering = DocumentVectors(config.tfidf).memory_needed(corpus) if shape.levels else 0
        tokens = min(config.words.max_tokens, corpus.texts.nbytes // (6 * len(corpus)) + 50)
        per_token = 12 * config.hidden + 3 * config.words.dimensions
        batch = config.training.batch_size * tokens * per_token + 4 * config.training.batch_size * labels
        return 20 * rows + corpus.texts.nbytes + clustering + 4 * min(batch, 2**31) + (100 << 20)

    def _shape(self, corpus: Corpus) -> TreeShape:
        return self._shape_for(int(np.count_nonzero(corpus.label_counts)))

    def _shape_for(self, labels: int) -> TreeShape:
        """Flat or which tree, for this number of labels with documents."""
        config = self.config
        lstm = 16 * config.hidden * (config.words.dimensions + config.hidden)
        affordable = int(FLAT_WORTH * lstm / (2 * (2 * config.hidden + config.layers[0])))
        if config.tree == "flat" or (config.tree == "auto" and labels <= affordable):
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
        self.seen_ = SeenLabels.of(corpus.label_counts)
        both = (train_set, valid_set)
        sets = [Documents(part.tokens, self.seen_.columns(part.targets), part.weights) for part in both]
        for at, tree in enumerate(self._label_trees(corpus, shape)):
            self.members_.append(Member(tree, self._train_tree(tree, table, sets, at, checkpoints)))

    def _label_trees(self, corpus: Corpus, shape: TreeShape) -> Sequence[LabelTree]:
        """A tree for each member, of the labels that documents have."""
        config, seen = self.config, self.seen_.ids
        if not shape.levels:
            return [LabelTree.of([[list(range(len(seen)))]])] * config.trees
        features = DocumentVectors(config.tfidf).fit_transform(corpus)
        vectors = take_rows(label_vectors(features, corpus.weighted_targets, corpus.labels), seen)
        deepest = math.ceil(math.log2(max(1.0, len(seen) / shape.max_leaf)) / math.log2(shape.arity))
        if self.config.levels is not None and deepest < shape.levels:
            raise ConfigError(
                f"attentionxml: {len(seen)} labels make a tree of at most {deepest} levels with arity={shape.arity} "
                f"and max_leaf={shape.max_leaf}, not levels={shape.levels}; choose fewer levels or smaller nodes"
            )
        return [
            build_tree(
                vectors,
                arity=shape.arity,
                max_leaf=shape.max_leaf,
                levels=shape.levels,
                seed=derived_seed(config.seed, at),
            )
            for at in range(config.trees)
        ]

    def _train_tree(
        self, tree: LabelTree, table: NDArray[np.float32], sets: Sequence[Documents], at: int, checkpoints: Checkpoints
    ) -> list[AttentionXmlNetwork]:
        """The networks of a tree's levels from the top, each begun with the weights of the one above.

        `sets` are the training and the validation documents.
        """
        import torch

        from xmtc.models.attentionxml.pretraining import pretrain_words
        from xmtc.nn.datasets import Documents
        from xmtc.nn.layers import seeded
        from xmtc.nn.level import Beam, LevelLearner, expand_beam
        from xmtc.nn.parallel import torch_threads
        from xmtc.nn.trainer import train as train_network

        config, width = self.config, self.beam_width_
        networks: list[AttentionXmlNetwork] = []
        targets = [tree.targets(part.targets) for part in sets]
        levels = [
            [Documents(part.tokens, each, part.weights) for each in above]
            for part, above in zip(sets, targets, strict=True)
        ]
        if config.pretraining_epochs:
            table = pretrain_words(
                table,
                levels[0][0],
                levels[1][0],
                config.pretraining_epochs,
                derived_seed(config.seed, at),
                checkpoints,
                f"tree{at}-words",
                config.training.device,
            )
        beams = [Beam.at_root(len(part.tokens)) for part in sets]  # the nodes that the search has reached
        for depth, level in enumerate(tree.levels):
            followed = beams[0].with_positives(targets[0][depth - 1], width) if depth else beams[0]
            name = f"tree{at}-level{depth}" if tree.depth > 1 else f"model{at}"
            seed = derived_seed(config.seed, at, depth)
            with seeded(seed):
                network = self._network(torch.tensor(table), level.shape[1])
            if networks:
                network.init_from_parent(networks[-1], tree.parents(depth) if self._from_parents else None)
            learner = LevelLearner(
                network, level, levels[0][depth], followed, levels[1][depth], beams[1], config.quantized
            )
            if config.output_bias == "prior":
                network.init_output_bias(learner.share_of_positives())
            train_network(learner, config.training.at(depth), seed, checkpoints, name)
            networks.append(network)
            if depth + 1 < tree.depth:
                with torch_threads() as cores:
                    what = f"{name}: finding candidates"
                    beams = [
                        expand_beam(network, level, part.tokens, beam, width, cores, what, config.quantized)
                        for part, beam in zip(sets, beams, strict=True)
                    ]
                held = 100 * beams[1].recall(targets[1][depth])
                print(
                    f"{name}: a beam of {width} nodes holds {held:.1f} % of the validation documents' relevant ones",
                    file=sys.stderr,
                )
        return networks

    @property
    def _from_parents(self) -> bool:
        return self.config.label_init == "parent" or (self.config.label_init is None and self.config.logsumexp_score)

    def _network(self, table: Tensor, labels: int) -> AttentionXmlNetwork:
        from xmtc.models.attentionxml.network import AttentionXmlNetwork

        return AttentionXmlNetwork(table, labels, self.config)

    def _networks(self) -> list[nn.Module]:
        return [network for member in self.members_ for network in member.networks]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        return Predictions.blend(self._lists(corpus, k), k=k)

    def _lists(self, corpus: Corpus, k: int) -> list[Predictions]:
        """Each member's best labels, with their probabilities."""
        from xmtc.nn.batching import by_tokens
        from xmtc.nn.level import children_scores
        from xmtc.nn.parallel import torch_threads

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
                        return children_scores(network, level, tokens, documents, rows, nodes, self.config.quantized)

                    return beam_search(member.tree, score, len(documents), beam_width, length)

                for documents, found in zip(batches, cores.map(search, batches), strict=True):
                    ids[documents] = self.seen_.labels(found[0])
                    scores[documents] = np.exp(found[1])
                lists.append(Predictions(ids, scores, labels, self.score_kind))
        return lists

    def _explain(self, text: str, label: int) -> Explanation:
        """The attention weights of the label over the words, the mean over the members."""
        import torch

        from xmtc.nn.batching import padded
        from xmtc.nn.devices import device_of

        place = self.seen_.place(label)
        if place is None:
            return Explanation(self._fitted().name(label), 0.0, (), ("no training document had this label",), text=text)
        query = Corpus.of([text])
        lists = self._lists(query, len(self._fitted()))
        probabilities = [float(found.scores[0][found.ids[0] == label].sum()) for found in lists]
        assert query.texts is not None
        tokens = self.tokenizer_.encode(query.texts, self.config.words.max_tokens)
        each = []
        with torch.inference_mode():
            for member in self.members_:
                network = member.networks[-1]
                ids, lengths = (part.to(device_of(network)) for part in padded(tokens, np.zeros(1, np.int64)))
                each.append(network.attention_weights(ids, lengths, place).cpu().numpy())
        shares = np.nan_to_num(np.mean(each, axis=0))
        spans = [
            (start, end, float(share)) for (start, end), share in zip(self.tokenizer_.spans(text), shares, strict=False)
        ]
        evidence = []
        for at, member in enumerate(self.members_):
            kind = f"tree {at + 1}, {member.tree.depth} levels" if member.tree.depth > 1 else f"model {at + 1}"
            evidence.append(f"{kind}: probability {probabilities[at]:.3f}")
        return Explanation.of_spans(self._fitted().name(label), float(np.mean(probabilities)), text, spans, evidence)

    def _save(self, folder: FolderWriter) -> None:
        from xmtc.nn.serialization import write_network

        folder.text("tokenizer.json", self.tokenizer_.to_json())
        folder.arrays("search", {"beam_width": np.array([self.beam_width_]), "seen": self.seen_.ids})
        for at, member in enumerate(self.members_):
            folder.arrays(f"tree{at}", member.tree.to_arrays())
            for depth, network in enumerate(member.networks):
                write_network(folder, f"tree{at}-level{depth}", network)

    def _load(self, folder: FolderReader) -> None:
        import torch

        from xmtc.nn.serialization import Arrays, read_network, word_table_shape

        self.tokenizer_ = WordTokenizer.from_json(folder.text("tokenizer.json"))
        with folder.building("search"):
            arrays = folder.arrays("search")
            self.beam_width_ = int(arrays["beam_width"][0])
            self.seen_ = SeenLabels.from_array(arrays["seen"], len(self._fitted()))
            if self.beam_width_ < 1:
                raise ValueError(f"a beam of width {self.beam_width_}")
        self.members_ = []
        for at in range(self.config.trees):
            with folder.building(f"tree{at}"):
                tree = LabelTree.from_arrays(folder.arrays(f"tree{at}"))
                if tree.labels != len(self.seen_):
                    raise ValueError(f"a tree of {tree.labels} labels for a model with {len(self.seen_)}")

            def empty(arrays: Arrays, labels: int) -> AttentionXmlNetwork:
                return self._network(torch.empty(word_table_shape(arrays, len(self.tokenizer_))), labels)

            networks = [
                read_network(folder, f"tree{at}-level{depth}", partial(empty, labels=level.shape[1]))
                for depth, level in enumerate(tree.levels)
            ]
            self.members_.append(Member(tree, networks))
