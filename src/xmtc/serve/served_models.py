"""The models that are served: loaded, checked and tried, and exchanged as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xmtc.corpus.builder import PARAGRAPH
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.evaluation.evaluate import THRESHOLD_DEPTH
from xmtc.hub import is_address
from xmtc.models.base import Model
from xmtc.models.registry import CATALOGUE, model_class
from xmtc.models.training_facts import NO_UPDATE
from xmtc.serve.label_search import LabelSearch
from xmtc.serve.problems import Refused, bad_input
from xmtc.storage import opening

CURVE_POINTS = 200  # of the curve of precision and recall that clients get
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LENGTH = 5  # of a list, unless a request says
NAMES_TRIED = 30
DESCRIBED = 50_000  # labels whose names are kept as Python strings


@dataclass(frozen=True, eq=False)
class ServedModel:
    """One version of a model. It never changes: a new version is another object."""

    id: str
    place: str
    version: str
    created: str
    model: Model

    @classmethod
    def load(cls, id: str, place: str) -> ServedModel:
        """The model in a folder, checked from end to end; BadModelFolder if it cannot be served."""
        reader = opening(place)
        if reader.kind not in CATALOGUE:
            raise BadModelFolder(f"{place}: a model of kind {reader.kind!r}, which this version of xmtc does not know")
        # Of one reader, so that the version is that of the model, whatever comes into the folder meanwhile.
        model = model_class(reader.kind).load(reader)
        if model.training_.get("input") == "features":
            raise BadModelFolder(
                f"{place}: it was trained on features, and only texts come over HTTP; train it on texts"
            )
        manifest = reader.manifest
        times = model.training_.get("updates", NO_UPDATE)["times"]
        return cls(id, place, f"{1 + times}.{str(manifest['checksum'])[:12]}", str(manifest.get("created", "")), model)

    def warm_up(self, max_batch: int) -> ServedModel:
        """Do once what requests will do, so that kernels are compiled and files are checked and read."""
        # Names of labels have words that the model knows; batches of other sizes take other ways through kernels.
        some = " ".join(self.labels.name(at) for at in range(min(NAMES_TRIED, len(self.labels))))
        for documents in (1, 2, max_batch):
            top = self.model.predict([some] * documents, LENGTH)
        self.model.predict([some], THRESHOLD_DEPTH)
        if self.model.capabilities.explain and top.ids[0, 0] >= 0:
            self.model.explain(some, self.labels.key(int(top.ids[0, 0])))
        self.search.find(some, 1)
        return self

    @property
    def labels(self) -> LabelSet:
        """The labels of the model."""
        assert self.model.labels_ is not None
        return self.model.labels_

    @cached_property
    def search(self) -> LabelSearch:
        """The search over label names."""
        return LabelSearch(self.labels)

    def described(self, at: int) -> tuple[str, str, list[str]]:
        """The id, the name and the path of a label; kept, since a few labels are most of all answers."""
        known = self._described.get(at)
        if known is None:
            if len(self._described) >= DESCRIBED:
                self._described.clear()
            labels = self.labels
            known = self._described[at] = (labels.key(at), labels.name(at), labels.path_names(at))
        return known

    @cached_property
    def _described(self) -> dict[int, tuple[str, str, list[str]]]:
        return {}

    @cached_property
    def text_fields(self) -> tuple[str, ...]:
        """The fields of a document that make its text, as in training."""
        return tuple(name.strip() for name in str(self.model.reading_.get("text_field", "text")).split(","))

    def text_of(self, document: str | Mapping[str, str], place: str = "documents") -> str:
        """The text of a document: its fields joined as they were in training; refused if it has none of them."""
        if isinstance(document, str):
            return document
        given = [document[name] for name in self.text_fields if name in document]
        if given:
            return PARAGRAPH.join(document.get(name, "") for name in self.text_fields)
        if "text" in document:
            return document["text"]
        wanted = ", ".join(self.text_fields)
        raise bad_input([(place, f"a document needs a field with its text; this model was trained with: {wanted}")])

    def label_at(self, key: str, place: str) -> int:
        """The number of a label by id; refused, with the place in the request, if there is none."""
        at = self.labels.index(key)
        if at < 0:
            raise bad_input(
                [(place, f"there is no label {key!r:.100}; /v1/models/{self.id}/labels?search= finds labels")]
            )
        return at

    @cached_property
    def info(self) -> dict[str, Any]:
        """What `/v1/models` says about it."""
        model = self.model
        return {
            "id": self.id,
            "title": model.title,
            "kind": model.name,
            "labels": len(self.labels),
            "documents": model.train_documents_,
            "score_kind": model.score_kind.value,
            "explains": model.capabilities.explain,
            "learns": model.capabilities.partial_fit,
            "version": self.version,
            "tuned": model.thresholds_ is not None,
            "curve": self._curve(),
        }

    def _curve(self) -> list[dict[str, float]] | None:
        curve = self.model.threshold_curve_
        if curve is None:
            return None
        some = np.unique(np.linspace(0, len(curve.threshold) - 1, CURVE_POINTS).round().astype(np.int64))
        columns = [column[some].astype(np.float64).round(6).tolist() for column in curve]
        return [dict(zip(curve._fields, point, strict=True)) for point in zip(*columns, strict=True)]


class ServedModels:
    """The current version of each model."""

    def __init__(self, places: Iterable[str]) -> None:
        self._current = {id: ServedModel.load(id, place) for id, place in named_places(places).items()}

    def __getitem__(self, id: str) -> ServedModel:
        served = self._current.get(id)
        if served is None:
            raise Refused(404, f"there is no model {id!r:.100}; /v1/models lists those that are served")
        return served

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._current.values())

    def __contains__(self, id: str) -> bool:
        return id in self._current

    def replace(self, served: ServedModel) -> None:
        """From now on this version is served; requests that have the one before end with that."""
        self._current[served.id] = served


def named_places(places: Iterable[str]) -> dict[str, str]:
    """Model folders by the name under which they are served.

    >>> named_places(["models/tagger", "second=models/new/tagger"])
    {'tagger': 'models/tagger', 'second': 'models/new/tagger'}
    """
    found: dict[str, str] = {}
    for place in places:
        name, equals, folder = place.partition("=")
        if not equals or not NAME.fullmatch(name):
            folder = place
            name = place.rpartition("/")[2].partition("@")[0] if is_address(place) else Path(place).resolve().name
        if not NAME.fullmatch(name):
            raise ConfigError(f"{place}: {name!r} is no name for an address; give one: NAME={folder}")
        if name in found:
            raise ConfigError(f"{place}: there is a model {name} already; give it another name: NAME={folder}")
        found[name] = folder
    return found
