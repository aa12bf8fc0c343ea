"""`blend`: several models that answer together, with weights learned on held-out documents.

Stacked generalisation: Wolpert, "Stacked Generalization", Neural Networks 5, 1992; with lists instead of scores for all
labels, and weights for head, middle and tail labels.

What it does: the members are trained on a part of the documents and tag the rest; from these lists it learns how likely
each label is relevant, given each member's score and rank (see `xmtc.models.ensemble.stacking`). Members that add
nothing are dropped. Unless a paired test prefers the blend to its best member, on documents that the weights were not
learned on, that member is used as it is. Then the remaining members are trained again on all documents (`refit`). With
validation documents of your own, members see the whole corpus at once.

Cost: the members', trained twice with `refit`; learning the weights takes seconds. A prediction takes 100 labels from
every member that was kept, never a score for every label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, field_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, WeightKind
from xmtc.errors import BadModelFolder, ConfigError, MissingExtra, XmtcError
from xmtc.models.base import Model
from xmtc.models.calibration import LIST_LENGTH
from xmtc.models.config import PRUNE, Capabilities, ModelConfig, Shrinking
from xmtc.models.ensemble.holdout import Holdout, split_holdout
from xmtc.models.ensemble.stacking import Stack, Table, choose
from xmtc.models.explanation import Explanation
from xmtc.models.registry import CATALOGUE, make, model_class
from xmtc.packing import WeightType
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderReader, FolderWriter

if TYPE_CHECKING:
    from torch import nn

BATCH = 4096
MEMBERS = "members"
ENSEMBLES = ("blend", "auto")


class Ensemble(Model):
    """A model that answers with several models, however they were chosen: `blend` and `auto`."""

    names_: list[str]
    members_: list[Model]
    stack_: Stack

    def adopt(self, names: Sequence[str], models: Sequence[Model], stack: Stack | None) -> None:
        """Answer with these models, stacked as given, or with equal weights."""
        counts = models[0]._fitted().counts
        assert counts is not None
        self.names_, self.members_ = list(names), list(models)
        self.stack_ = stack or Stack.equal([model.score_kind for model in models], counts)

    def _lists(self, corpus: Corpus, k: int) -> list[Predictions]:
        return [member.predict(corpus, max(k, LIST_LENGTH)) for member in self.members_]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        if self.stack_.as_it_is:
            top = self.stack_.curves[0].apply(self.members_[0].predict(corpus, k))
            return Predictions(top.ids, top.scores, self._fitted(), self.score_kind)
        starts = range(0, len(corpus), BATCH)
        tables = (Table.of(self._lists(corpus[start : start + BATCH], k)) for start in starts)
        parts = [table.top(self.stack_.probabilities(table), k) for table in tables]
        ids, scores = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """What each member says and adds; the words are those of the member that adds most and can explain."""
        name, table = self._fitted().name(label), Table.of(self._lists(Corpus.of([text]), LIST_LENGTH))
        row = table.rows(table.label == label)  # one row, or none if no member lists the label
        score = float(self.stack_.probabilities(row).sum())
        shares = self.stack_.shares(row).sum(axis=0)
        ranks = row.rank[0] if len(row) else np.full(len(self.members_), -1)
        evidence = []
        for at, member in enumerate(self.names_):
            if ranks[at] < 0:
                evidence.append(f"{member} does not list it among its first {LIST_LENGTH}")
                continue
            says = f"{member} lists it in place {ranks[at] + 1} with a score of {row.score[0, at]:.3f}"
            added = f", which adds {shares[at]:+.2f} to its log-odds"
            evidence.append(says if self.stack_.as_it_is else says + added)
        by_share = [at for at in np.argsort(-shares, kind="stable").tolist() if ranks[at] >= 0]
        for at in by_share or range(len(self.members_)):
            if self.members_[at].capabilities.explain:
                why = self.members_[at]._explain(text, label)
                evidence += [f"the words are those of {self.names_[at]}", *why.evidence]
                return replace(why, label=name, score=score, evidence=tuple(evidence))
        return Explanation(name, score, (), tuple(evidence))

    def _networks(self) -> list[nn.Module]:
        return [network for member in self.members_ for network in member._networks()]

    def shrunk(self, weight_type: WeightType, share: float = 1.0) -> Self:
        """With its members shrunk, those that can be: each keeps this share of its own weights."""
        made = super().shrunk(weight_type, share)
        made.members_ = [
            member.shrunk(weight_type, share if "prune" in member.shrinking else 1.0) if member.shrinking else member
            for member in self.members_
        ]
        return made

    def _pruned(self, share: float) -> Self:
        return copy(self)  # its members are

    @property
    def shrinking(self) -> frozenset[Shrinking]:
        """What can make the folder of one member smaller at least."""
        return frozenset[Shrinking]().union(*(member.shrinking for member in self.members_))

    def _save(self, folder: FolderWriter) -> None:
        facts = []
        folder.arrays("stack", self.stack_.to_arrays())
        for at, (name, member) in enumerate(zip(self.names_, self.members_, strict=True)):
            config = member.config.model_dump(mode="json")
            facts.append({"name": name, "kind": member.name, "config": config, "training": member.training_})
            counts = member._fitted().counts
            assert counts is not None
            part = folder.part(f"member{at}")
            part.arrays("counts", {"counts": counts})
            member.write(part)
        folder.json(MEMBERS, facts)

    def _load(self, folder: FolderReader) -> None:
        labels, facts = self._fitted(), _member_facts(folder)
        self.names_, self.members_ = [entry["name"] for entry in facts], []
        with folder.building("stack"):
            self.stack_ = Stack.from_arrays(folder.arrays("stack"), len(facts), len(labels))
        for at, entry in enumerate(facts):
            part = folder.part(f"member{at}", entry)
            with part.building("counts"):
                counts = part.arrays("counts")["counts"]
                if counts.dtype != np.int64 or counts.shape != (len(labels),) or np.any(counts < 0):
                    raise ValueError(f"there are {counts.shape} training counts for {len(labels)} labels")
                known = labels.with_counts(counts)
            self.members_.append(model_class(entry["kind"]).load(part, known))


class BlendConfig(ModelConfig):
    """The members, and whether they are trained again on all documents."""

    members: tuple[str | dict[str, Any], ...] = Field(("bonsai", "knn"), min_length=1)
    """The models to blend: names, or {model: NAME, set: {...}}; each has the blend's seed unless it sets its own."""
    refit: bool = True
    """Train the members that stay again on all documents, those held out included."""

    @field_validator("members")
    @classmethod
    def _known(cls, members: tuple[str | dict[str, Any], ...]) -> tuple[str | dict[str, Any], ...]:
        for member in members:
            name, settings = _named(member)
            if name in ENSEMBLES:
                raise ValueError(f"{name} cannot be a member; name the models that it is made of")
            model_class(name).parse_config(settings)
        return members


class Blend(Ensemble):
    """Several models, with weights learned on held-out documents.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 30, tags * 30)
    >>> blend = Blend(members=["knn", {"model": "parabel", "set": {"trees": 1}}]).fit(corpus)
    >>> blend.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "blend"
    capabilities = Capabilities(
        summary="several models, weighted on held-out documents for frequent and for rare labels",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
        weights=frozenset({"documents", "labels"}),
        shrink=PRUNE,
    )
    Config = BlendConfig
    config: BlendConfig

    @classmethod
    def of(cls, models: Sequence[Model], valid: Corpus, names: Sequence[str] | None = None) -> Self:
        """A blend of fitted models, with weights learned on documents that none of them was trained on.

        The models must have been trained on the same labels. `names` are for explanations.
        """
        if not models:
            raise XmtcError("a blend needs at least one fitted model")
        first = models[0]._fitted()
        for model in models:
            if model._fitted().keys != first.keys:
                raise XmtcError("the models know different labels; train all of them on the same corpus")
        members = [{"model": model.name, "set": model.config.model_dump(mode="json")} for model in models]
        blend = cls(members=members)
        blend._blend(names or _numbered([model.name for model in models]), list(models), Holdout.given(valid))
        largest = max(models, key=lambda model: model.train_documents_)
        blend.labels_, blend.training_ = largest._fitted(), largest.training_
        return blend

    def check_installed(self) -> None:
        """A MissingExtra that names the first member which needs more than there is."""
        for name, settings in map(_named, self.config.members):
            try:
                model_class(name)(**settings).check_installed()
            except MissingExtra as error:
                what = name if error.what == name else f"{name} with {error.what}"
                raise MissingExtra(f"blend: the member {what}", error.extra, error.library) from error

    def check_weights(self, kinds: Collection[WeightKind]) -> None:
        """As that of all members."""
        for member in self._members():
            try:
                member.check_weights(kinds)
            except ConfigError as error:
                raise ConfigError(f"blend: the member {error}") from error

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: the sum over all members, which are kept until the weights are learned."""
        members = self._members()
        for member in members:
            member._check_input(corpus)
        return sum(member.memory_needed(corpus) for member in members)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        models = self._members()
        names = _numbered([model.name for model in models])
        train, holdout = (
            (corpus, Holdout.given(valid)) if valid is not None else split_holdout(corpus, self.config.seed)
        )
        checkpoints.put(MEMBERS, {"count": np.array([len(models)])})  # says whose pieces these are

        def fit(model: Model, documents: Corpus, at: int, suffix: str = "") -> Model:
            pieces = _inside(checkpoints.folder, f"member{at}{suffix}")
            return model.fit(documents, None, pieces, _inside(checkpoints.log_folder, f"{names[at]}{suffix}"))

        for at, model in enumerate(models):
            fit(model, train, at)
        self._blend(names, models, holdout)
        if self.config.refit and len(train) < len(corpus):
            fresh = self._members()
            places = [models.index(member) for member in self.members_]
            self.members_ = [fit(fresh[at], corpus, at, "-again") for at in places]
            self.stack_ = self.stack_.with_counts(corpus.label_counts)

    def _blend(self, names: Sequence[str], models: Sequence[Model], holdout: Holdout | None) -> None:
        """Learn the weights on documents that the models were not trained on."""
        choice = None
        if holdout is not None and len(holdout):
            labels = models[0]._fitted()
            assert labels.counts is not None
            lists = [model.predict(holdout.corpus, LIST_LENGTH) for model in models]
            choice = choose(lists, holdout.with_labels(labels), labels.counts)
        if choice is None:
            self.adopt(names, models, None)
        else:
            self.adopt([names[at] for at in choice.kept], [models[at] for at in choice.kept], choice.stack)

    def _members(self) -> list[Model]:
        """New models as configured."""
        named = map(_named, self.config.members)
        return [make(name, **{"seed": self.config.seed, **settings}) for name, settings in named]


def _named(member: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(name, settings) of a configured member.

    >>> _named("knn"), _named({"model": "knn", "set": {"power": 1.0}})
    (('knn', {}), ('knn', {'power': 1.0}))
    """
    if isinstance(member, str):
        return member, {}
    name, settings = member.get("model"), member.get("set") or {}
    if not isinstance(name, str) or not isinstance(settings, dict) or not set(member) <= {"model", "set"}:
        raise ConfigError(f"a member of a blend is a name or {{model: NAME, set: {{...}}}}, not {member}")
    return name, settings


def _numbered(names: Sequence[str]) -> list[str]:
    """Names that can be told apart.

    >>> _numbered(["knn", "dismec", "knn"])
    ['knn', 'dismec', 'knn 2']
    """
    before = [names[:at].count(name) for at, name in enumerate(names)]
    return [name if not times else f"{name} {times + 1}" for name, times in zip(names, before, strict=True)]


def _inside(folder: Path | None, name: str) -> Path | None:
    return folder / name if folder is not None else None


def _member_facts(folder: FolderReader) -> list[dict[str, Any]]:
    """Name, kind, configuration and training of each member; BadModelFolder if the file is damaged."""
    facts = folder.json(MEMBERS)
    kinds = {"name": str, "kind": str, "config": dict, "training": dict}
    if not isinstance(facts, list) or not facts:
        raise BadModelFolder(f"{folder.folder}: {MEMBERS}.json does not say of which models the blend is made")
    for entry in facts:
        sound = isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in kinds.items())
        if not sound or entry["kind"] in ENSEMBLES or entry["kind"] not in CATALOGUE:
            raise BadModelFolder(f"{folder.folder}: {MEMBERS}.json names a member that this version does not know")
    return facts
