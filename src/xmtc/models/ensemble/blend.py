"""`blend`: several models that answer together, each with the say that validation documents give it.

Stacked generalisation: Wolpert, "Stacked Generalization", Neural Networks 5, 1992; with lists instead of scores for all
labels, and weights for head, middle and tail labels.

What it does: the members are trained on a part of the documents and tag the rest; from these lists curves and weights
are learned that say how likely each label is right, given where and how high each member lists it (see
`xmtc.models.ensemble.stacking`). Members that add nothing are dropped, and if the best member alone is better, judged
on documents that the weights were not learned on, it is taken as it is. Then the members that are left are trained
again on all documents (`refit`). With validation documents of your own, members see the whole corpus at once.

Cost: the members', trained twice with `refit`; learning the weights takes seconds. A prediction asks every member that
was kept for 100 labels. Only lists of labels go from one to the other, never a score for every label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from pydantic import Field, field_validator

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, MissingExtra, XmtcError
from xmtc.models.base import Capabilities, Model, ModelConfig
from xmtc.models.calibration import LIST_LENGTH
from xmtc.models.ensemble.stacking import FEWEST, Choice, Stack, Table, choose
from xmtc.models.explanation import Explanation
from xmtc.models.registry import CATALOGUE, make, model_class
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderReader, FolderWriter

#: Of a corpus this many documents are held out for the weights, or a tenth; of a small one a fifth, up to the first.
HELD_OUT, MOST_HELD_OUT = 500, 2000
BATCH = 4096
MEMBERS = "members"
ENSEMBLES = ("blend", "auto")


def held_out(corpus: Corpus, seed: int) -> tuple[Corpus, Corpus | None]:
    """(documents to train members on, documents to learn weights on), in blocks; all and none if there are too few.

    >>> rest, valid = held_out(Corpus.of(["..."] * 3000, [["a"]] * 3000), seed=0)
    >>> len(rest), len(valid)
    (2490, 510)
    """
    size = min(MOST_HELD_OUT, max(len(corpus) // 10, min(HELD_OUT, len(corpus) // 5)))
    return corpus.split(size, seed=seed, method="blocks") if size >= FEWEST else (corpus, None)


class Ensemble(Model):
    """What answers with several models, however they were chosen: `blend` and `auto`."""

    names_: list[str]
    members_: list[Model]
    stack_: Stack

    def adopt(self, names: Sequence[str], models: Sequence[Model], choice: Choice | None) -> None:
        """Answer with these models as a choice says, or all alike if there is none."""
        labels = models[0]._fitted()
        assert labels.counts is not None
        kept = choice.kept if choice is not None else range(len(models))
        self.names_, self.members_ = [names[at] for at in kept], [models[at] for at in kept]
        kinds = [model.score_kind for model in self.members_]
        self.stack_ = choice.stack if choice is not None else Stack.equal(kinds, labels.counts)

    def _lists(self, corpus: Corpus, k: int) -> list[Predictions]:
        return [member.predict(corpus, max(k, LIST_LENGTH)) for member in self.members_]

    def _predict(self, corpus: Corpus, k: int) -> Predictions:
        if self.stack_.as_it_is:
            top = self.stack_.curves[0].apply(self.members_[0].predict(corpus, k))
            return Predictions(top.ids, top.scores, self._fitted(), self.score_kind)
        parts = []
        for start in range(0, len(corpus), BATCH):
            lists = self._lists(corpus[start : start + BATCH], k)
            table = Table.of(lists)
            parts.append(table.top(self.stack_.probabilities(table), k, lists[0], self.score_kind))
        ids, scores = (np.concatenate([getattr(part, what) for part in parts]) for what in ("ids", "scores"))
        return Predictions(ids, scores, self._fitted(), self.score_kind)

    def _explain(self, text: str, label: int) -> Explanation:
        """What each member says and adds; the words are those of the member that speaks loudest and can explain."""
        labels, document = self._fitted(), Corpus.of([text])
        lists = self._lists(document, LIST_LENGTH)
        places = [np.flatnonzero(part.ids[0] == label) for part in lists]
        table = Table.of(lists)
        row = table.label == label
        score = float(self.stack_.probabilities(table)[row].sum())
        shares = self.stack_.shares(table)[row].sum(axis=0).tolist()
        evidence = []
        for name, part, place, share in zip(self.names_, lists, places, shares, strict=True):
            if not len(place):
                evidence.append(f"{name} does not list it among its first {LIST_LENGTH}")
                continue
            says = f"{name} lists it in place {place[0] + 1} with a score of {part.scores[0, place[0]]:.3f}"
            evidence.append(says if self.stack_.as_it_is else f"{says}, which adds {share:+.2f} to its log-odds")
        loudest = [at for at in np.argsort([-s for s in shares], kind="stable").tolist() if len(places[at])]
        for at in loudest or range(len(lists)):
            member = self.members_[at]
            if member.capabilities.explain:
                why = member._explain(text, label)
                evidence += [f"the words are those of {self.names_[at]}", *why.evidence]
                return Explanation(labels.name(label), score, why.words, tuple(evidence), why.text, why.spans)
        return Explanation(labels.name(label), score, (), tuple(evidence))

    def _save(self, folder: FolderWriter) -> None:
        facts = [
            {"name": name, "kind": member.name, "config": member.config.model_dump(mode="json"),
             "training": {**member.training_, "documents": member.train_documents_}}
            for name, member in zip(self.names_, self.members_, strict=True)
        ]  # fmt: skip
        folder.json(MEMBERS, facts)
        folder.arrays("stack", self.stack_.to_arrays())
        for at, member in enumerate(self.members_):
            part = folder.part(f"member{at}")
            counts = member._fitted().counts
            assert counts is not None
            part.arrays("counts", {"counts": counts})
            member.write(part)

    def _load(self, folder: FolderReader) -> None:
        labels, facts = self._fitted(), _checked(folder)
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
    """The models that are blended, each a name or `{model: NAME, set: {...}}`, and whether they see all documents.

    A member has the blend's seed unless its own is set.
    """

    members: tuple[str | dict[str, Any], ...] = Field(("bonsai", "knn"), min_length=1)
    refit: bool = True

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
    """Several models with the say that validation documents give them.

    >>> tags = [["fruit"], ["fruit"], ["weather"], ["weather"]]
    >>> corpus = Corpus.of(["red apple", "green apple", "blue sky", "grey sky"] * 30, tags * 30)
    >>> blend = Blend(members=["knn", {"model": "parabel", "set": {"trees": 1}}]).fit(corpus)
    >>> blend.predict(["an apple"], k=1).names()[0][0][0]
    'fruit'
    """

    name = "blend"
    capabilities = Capabilities(
        summary="several models together; held-out documents say what each is worth for frequent and for rare labels",
        input=frozenset({"text", "features"}),
        score=ScoreKind.PROBABILITY,
        explain=True,
    )
    Config = BlendConfig
    config: BlendConfig

    @classmethod
    def of(cls, models: Sequence[Model], valid: Corpus, names: Sequence[str] | None = None) -> Self:
        """A blend of fitted models, from documents that none of them was trained on.

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
        blend._blend(names or _numbered([model.name for model in models]), list(models), valid)
        largest = max(models, key=lambda model: model.train_documents_)
        blend.labels_, blend.train_documents_ = largest._fitted(), largest.train_documents_
        blend.training_ = dict(largest.training_)
        return blend

    def check_installed(self) -> None:
        """A MissingExtra that names the first member which needs more than there is."""
        for name, settings in map(_named, self.config.members):
            try:
                model_class(name)(**settings).check_installed()
            except MissingExtra as error:
                what = name if error.what == name else f"{name} with {error.what}"
                raise MissingExtra(f"blend: the member {what}", error.extra, error.library) from error

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes: as if all members were trained at once; all are kept until the weights are learned."""
        members = self._members()
        for member in members:
            member._check_input(corpus)
        return sum(member.memory_needed(corpus) for member in members)

    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None:
        names = _numbered([_named(member)[0] for member in self.config.members])
        rest, judges = (corpus, valid) if valid is not None else held_out(corpus, self.config.seed)
        models = self._members()
        checkpoints.put(MEMBERS, {"count": np.array([len(models)])})  # says whose pieces these are
        for at, model in enumerate(models):
            model.fit(
                rest, None, _inside(checkpoints.folder, f"member{at}"), _inside(checkpoints.log_folder, names[at])
            )
        self._blend(names, models, judges)
        if self.config.refit and len(rest) < len(corpus):
            for at, member in enumerate(self.members_):
                place = models.index(member)
                again = _inside(checkpoints.folder, f"member{place}-again")
                self.members_[at] = type(member)(**member.config.model_dump()).fit(
                    corpus, None, again, _inside(checkpoints.log_folder, f"{names[place]}-again")
                )

    def _blend(self, names: Sequence[str], models: Sequence[Model], valid: Corpus | None) -> None:
        """Learn the weights on documents that the models were not trained on."""
        choice = None
        if valid is not None and len(valid):
            labels = models[0]._fitted()
            assert labels.counts is not None
            lists = [model.predict(valid, LIST_LENGTH) for model in models]
            choice = choose(lists, valid.with_labels(labels), labels.counts)
        self.adopt(names, models, choice)

    def _members(self) -> list[Model]:
        """New models as configured."""
        named = map(_named, self.config.members)
        return [make(name, **{"seed": self.config.seed, **settings}) for name, settings in named]


def _named(member: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """(name, settings) of a member as it is configured.

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


def _checked(folder: FolderReader) -> list[dict[str, Any]]:
    """What a folder says of its members; an error if that cannot be."""
    facts = folder.json(MEMBERS)
    kinds = {"name": str, "kind": str, "config": dict, "training": dict}
    if not isinstance(facts, list) or not facts:
        raise BadModelFolder(f"{folder.folder}: {MEMBERS}.json does not say of which models the blend is made")
    for entry in facts:
        sound = isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in kinds.items())
        if not sound or entry["kind"] in ENSEMBLES or entry["kind"] not in CATALOGUE:
            raise BadModelFolder(f"{folder.folder}: {MEMBERS}.json names a member that this version does not know")
    return facts
