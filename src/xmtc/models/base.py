"""`Model`: the contract that every method fulfils.

A method's file defines a subclass with `name`, `capabilities`, a `Config` and the four underscored methods; the base
class does everything that is the same for all: checking input, refusing what cannot fit into memory, cutting and
sorting answers, saving and loading.
"""

from __future__ import annotations

import difflib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError, NotFitted, OutOfMemory, XmtcError
from xmtc.memory import available_memory
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderReader, FolderWriter, writing


class ModelConfig(BaseModel):
    """Hyper-parameters of a method: typed, frozen, an unknown key is an error. Every method has a seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    seed: int = Field(0, ge=0, lt=2**63)


@dataclass(frozen=True)
class Capabilities:
    """What a method can do; the command line and the docs' tables are made from this."""

    summary: str
    input: frozenset[Literal["text", "features"]]
    score: ScoreKind
    explain: bool = False
    partial_fit: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why a document got a label: the score as a sum over words, and sentences of evidence.

    >>> print(Explanation("fruit", 0.75, (("apple", 0.5), ("red", 0.25)), ("like document 7",)))
    fruit: 0.750
      apple                     0.500
      red                       0.250
      like document 7
    """

    label: str
    score: float
    words: tuple[tuple[str, float], ...]
    evidence: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"  {word:<25} {weight:.3f}" for word, weight in self.words]
        return "\n".join([f"{self.label}: {self.score:.3f}", *words, *(f"  {line}" for line in self.evidence)])


class Model(ABC):
    """A method with its hyper-parameters and, once fitted, what it learned (`labels_` and further `..._`)."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    Config: ClassVar[type[ModelConfig]]

    labels_: LabelSet | None = None
    train_documents_: int = 0
    training_: Mapping[str, Any]

    def __init__(self, **hyper_parameters: Any) -> None:
        self.config = self.parse_config(hyper_parameters)
        self.training_ = {}

    @classmethod
    def parse_config(cls, hyper_parameters: Mapping[str, Any]) -> ModelConfig:
        """The typed configuration, or an error that names the key and what it could be."""
        known = cls.Config.model_fields
        for key in hyper_parameters:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(sorted(known))}"
                raise ConfigError(f"{cls.name} has no hyper-parameter {key!r}; {hint}")
        try:
            return cls.Config(**hyper_parameters)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(map(str, first["loc"])) or "the configuration"
            raise ConfigError(f"{cls.name}: {key}={first['input']!r}: {first['msg']}") from error

    def fit(self, corpus: Corpus, valid: Corpus | None = None) -> Self:
        """Learn from a corpus; `valid` is for choices such as when to stop, never for learning itself."""
        self._check_input(corpus)
        if not len(corpus):
            raise XmtcError(f"{corpus.name}: no documents to train on")
        if not corpus.targets.nnz:
            raise XmtcError(f"{corpus.name}: no document has a label, so there is nothing to learn")
        self._check_memory(corpus)
        start = time.perf_counter()
        labels = corpus.labels.with_counts(corpus.label_counts)
        self._fit(corpus, valid.with_labels(corpus.labels) if valid is not None else None)
        self.labels_, self.train_documents_ = labels, len(corpus)
        self.training_ = {
            "corpus": corpus.name,
            "fingerprint": corpus.fingerprint(),
            "documents": len(corpus),
            "labels": int(np.count_nonzero(corpus.label_counts)),
            "seconds": round(time.perf_counter() - start, 3),
        }
        return self

    def partial_fit(self, corpus: Corpus) -> Self:
        """Learn from further documents, which may bring new labels."""
        if not self.capabilities.partial_fit:
            raise XmtcError(f"{self.name} cannot learn from further documents; fit it again on all of them")
        if self.labels_ is None:
            return self.fit(corpus)
        self._check_input(corpus)
        aligned = corpus.with_labels(self.labels_)
        counts = aligned.label_counts
        assert self.labels_.counts is not None
        counts[: len(self.labels_)] += self.labels_.counts
        self._partial_fit(aligned)
        self.labels_ = aligned.labels.with_counts(counts)
        self.train_documents_ += len(corpus)
        self.training_ = {**self.training_, "documents": self.train_documents_}
        return self

    def predict(self, documents: Corpus | Iterable[str], k: int = 5) -> Predictions:
        """The k best labels of each document, best first."""
        labels = self._fitted()
        if isinstance(documents, str):
            raise XmtcError("predict takes a list of texts or a corpus; put a single text into a list: [text]")
        if k < 1:
            raise XmtcError(f"k must be at least 1, not {k}")
        corpus = documents if isinstance(documents, Corpus) else Corpus.of(documents)
        self._check_input(corpus)
        k = min(k, len(labels))
        if not len(corpus):
            return Predictions(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32), labels, self.score_kind)
        return self._predict(corpus, k)

    def explain(self, text: str, label: str) -> Explanation:
        """Why (or why not) a text gets a label, given by key or name."""
        labels = self._fitted()
        if not self.capabilities.explain:
            raise XmtcError(f"{self.name} cannot explain its answers; `xmtc models` shows which methods can")
        return self._explain(text, labels.find(label))

    def save(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write the model to a folder, replacing a model that is there; `about` goes into its manifest."""
        labels = self._fitted()
        facts = {"training": {**self.training_, "documents": self.train_documents_}, **(about or {})}
        with writing(path, self.name, self.config.model_dump(mode="json"), facts) as folder:
            folder.labels(labels)
            self._save(folder)

    @classmethod
    def load(cls, folder: FolderReader) -> Self:
        """The model in a checked folder; `xmtc.load` finds the class by the folder's kind."""
        model = cls(**folder.manifest["config"])
        model.labels_ = folder.labels()
        model.training_ = folder.manifest.get("training", {})
        model.train_documents_ = model.training_.get("documents", 0)
        if type(model.train_documents_) is not int or model.train_documents_ < 1:
            raise BadModelFolder(f"{folder.folder}: its manifest does not say how many documents it was trained on")
        if model.labels_.counts is None or not len(model.labels_):
            raise BadModelFolder(f"{folder.folder}: its labels have no training counts, so this is no trained model")
        model._load(folder)
        return model

    @property
    def score_kind(self) -> ScoreKind:
        """What this model's scores are."""
        return self.capabilities.score

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes that training on this corpus will take beyond the corpus itself, estimated beforehand."""
        return 0

    @abstractmethod
    def _fit(self, corpus: Corpus, valid: Corpus | None) -> None: ...

    @abstractmethod
    def _predict(self, corpus: Corpus, k: int) -> Predictions: ...

    @abstractmethod
    def _save(self, folder: FolderWriter) -> None: ...

    @abstractmethod
    def _load(self, folder: FolderReader) -> None: ...

    def _partial_fit(self, corpus: Corpus) -> None:
        raise NotImplementedError(f"{self.name} declares partial_fit but does not define it")

    def _explain(self, text: str, label: int) -> Explanation:
        raise NotImplementedError(f"{self.name} declares explain but does not define it")

    def _fitted(self) -> LabelSet:
        if self.labels_ is None:
            raise NotFitted(f"this {self.name} model was not fitted; call fit(corpus) first")
        return self.labels_

    def _check_input(self, corpus: Corpus) -> None:
        has = {"text": corpus.texts is not None, "features": corpus.features is not None}
        if not any(has[kind] for kind in self.capabilities.input):
            wanted = " or ".join(sorted(self.capabilities.input))
            raise XmtcError(f"{self.name} needs {wanted}, which {corpus.name} does not have")

    def _check_memory(self, corpus: Corpus) -> None:
        needed, available = self.memory_needed(corpus), available_memory()
        if needed > available:
            raise OutOfMemory(
                f"training {self.name} on {corpus.name} needs about {needed / 2**30:.1f} GiB of memory and "
                f"{available / 2**30:.1f} GiB are free; use a smaller corpus, fewer terms or a larger machine"
            )
