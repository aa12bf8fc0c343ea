"""`Model`: the contract that every method fulfils.

A method's file defines a subclass with `name`, `capabilities`, a `Config` and the four abstract methods. The base class
does what all methods share: it checks input, refuses what cannot fit into memory, calibrates scores, saves and loads.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from xmtc import hub
from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, WeightKind
from xmtc.corpus.frames import Table, described, whole_number
from xmtc.corpus.inputs import labelled, unlabelled, validation
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sketch import Sketch
from xmtc.corpus.sources import check_path
from xmtc.errors import BadModelFolder, ConfigError, NotFitted, OutOfMemory, XmtcError
from xmtc.extras import require
from xmtc.memory import available_memory
from xmtc.models import card, shown
from xmtc.models.calibration import LIST_LENGTH, Calibration, Method, Pairs, fitted_on
from xmtc.models.config import Capabilities, ModelConfig, Shrinking
from xmtc.models.config_errors import describe
from xmtc.models.explanation import Explanation, Explanations
from xmtc.models.precision_recall import Choice, ThresholdCurve
from xmtc.models.restriction import allowed_labels, predict_within
from xmtc.models.shared_prediction import shared_prediction
from xmtc.models.thresholds import SMOOTHING, Thresholds
from xmtc.models.training_facts import after_update, check_facts
from xmtc.packing import WeightType
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import CARD, FolderReader, FolderWriter, writing

if TYPE_CHECKING:
    from torch import nn

TRAINING_VERSION = 2  # of what is kept to go on with a training; it rises when the same settings train differently


class Model(ABC):
    """A method with its hyper-parameters and, once fitted, what it learned (attributes that end in `_`)."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    Config: ClassVar[type[ModelConfig]]

    labels_: LabelSet | None = None
    training_: Mapping[str, Any]
    #: How its training documents were read: the options of `xmtc train` for fields, kept for documents to come.
    reading_: Mapping[str, Any] = MappingProxyType({})
    metrics_: Mapping[str, Any] = MappingProxyType({})  # measured when it was saved, until it learns something else
    _unchecked: FolderReader | None = None  # a folder whose large files are not checked yet
    calibration_: Calibration | None = None
    _thresholds: Thresholds | None = None
    _curve: ThresholdCurve | None = None
    #: A method that improves step by step calls this during `fit` for each better model; `xmtc train` saves it.
    on_better: Callable[[], None] | None = None

    def __init__(self, **hyper_parameters: Any) -> None:
        self.config = self.parse_config(hyper_parameters)
        self.training_ = {}

    def __repr__(self) -> str:
        return shown.text_of(self)

    def _repr_html_(self) -> str:
        return shown.html_of(self)

    @classmethod
    def parse_config(cls, hyper_parameters: Mapping[str, Any]) -> ModelConfig:
        """The typed configuration; a ConfigError names the setting that is wrong and what it could be."""
        try:
            return cls.Config(**hyper_parameters)
        except ValidationError as error:
            raise ConfigError(describe(cls.name, cls.Config, hyper_parameters, error)) from error

    def check_installed(self) -> None:
        """A MissingExtra, which says what to install, if training with these settings needs more than there is."""
        if self.capabilities.extra is not None:
            require(self.name, self.capabilities.extra)

    def fit(
        self,
        corpus: Corpus | Table,
        valid: Corpus | Table | None = None,
        checkpoints: str | Path | None = None,
        log: str | Path | None = None,
        *,
        document_weights: Any = None,
        label_weights: Any = None,
    ) -> Self:
        """Learn from a corpus; `valid` is for choices such as when to stop, never for learning itself.

        `checkpoints` is a folder for finished pieces of long work: a killed run resumes from them when it is started
        again with the same settings and documents. `log` is a folder for TensorBoard curves of neural methods.

        In place of a corpus, a table with the columns `text` and `labels` does: see `Corpus.from_frame`.

        `document_weights` (a number from 0 for each document) and `label_weights` (a number above 0 for each label, or
        a mapping from some labels to numbers) are for methods that have them in their `capabilities.weights`: see
        `Corpus.with_weights`.
        """
        self.check_installed()
        for folder, what in ((checkpoints, "checkpoints"), (log, "log")):
            if folder is not None:
                check_path(folder, f"{what}=", "the name of a folder")
        valid = validation(valid)
        corpus = labelled(corpus, "fit")
        self._check_input(corpus)
        if not len(corpus):
            raise XmtcError(f"{corpus.name}: no documents to train on")
        corpus = corpus.with_weights(document_weights, label_weights)
        self.check_weights(corpus.weight_kinds)
        weights, fingerprint = corpus.weights_fingerprint(), corpus.fingerprint()
        corpus = corpus.without_zero_weights()
        if not corpus.targets.nnz:
            raise XmtcError(f"{corpus.name}: no document has a label, so there is nothing to learn")
        self._check_devices(corpus)
        self._check_memory(corpus)
        start = time.perf_counter()
        self._unchecked = None
        run = {
            "model": self.name,
            "version of the training code": TRAINING_VERSION,
            "settings": self.config.model_dump(mode="json"),
            "documents": fingerprint,
            "validation documents": valid.fingerprint() if valid is not None else None,
            "weights": weights,
        }
        if valid is not None and (valid.texts is None) != (corpus.texts is None):
            has, lacks = ("features", "texts") if valid.texts is None else ("texts", "features")
            raise XmtcError(f"{valid.name} has {has} for validation, but {corpus.name} {lacks}; give both the same")
        aligned = valid.with_labels(corpus.labels) if valid is not None else None
        self.calibration_ = self._thresholds = self._curve = None
        self.metrics_ = {}
        self._fit(corpus, aligned, Checkpoints(checkpoints, run, log))
        self.labels_ = corpus.labels.with_counts(corpus.label_counts)
        self.training_ = {
            "corpus": corpus.name,
            "fingerprint": run["documents"],
            "documents": len(corpus),
            "labels": int(np.count_nonzero(corpus.label_counts)),
            "input": "texts" if corpus.texts is not None and "text" in self.capabilities.input else "features",
            "seconds": round(time.perf_counter() - start, 3),
            **({"validation": fitted_on(valid)} if valid is not None else {}),
            **({"weights": weights} if weights is not None else {}),
            "sketch": Sketch.of(corpus).to_hex(),
        }
        return self

    def partial_fit(self, corpus: Corpus | Table) -> Self:
        """Learn from further documents, which may bring new labels and new words.

        What was fitted on validation documents (calibration, thresholds) stays as it is, and `training_` says that it
        is older than the update.
        """
        if not self.capabilities.partial_fit:
            raise XmtcError(f"{self.name} cannot learn from further documents; fit it again on all of them")
        corpus = labelled(corpus, "partial_fit")
        if self.labels_ is None:
            return self.fit(corpus)
        self._fitted()
        self._check_input(corpus)
        self.check_weights(corpus.weight_kinds)
        corpus = corpus.without_zero_weights()
        if not corpus.targets.nnz:
            what = "no document has a label" if len(corpus) else "no documents"
            raise XmtcError(f"{corpus.name}: {what}, so there is nothing to learn")
        start = time.perf_counter()
        known = len(self.labels_)
        aligned = corpus.with_labels(self.labels_)
        counts = aligned.label_counts
        assert self.labels_.counts is not None
        counts[: len(self.labels_)] += self.labels_.counts
        self._partial_fit(aligned)
        self.metrics_ = {}  # of the model before
        self.labels_ = aligned.labels.with_counts(counts)
        self._thresholds = self._thresholds and self._thresholds.extended(len(self.labels_))
        self.training_ = after_update(self.training_, corpus, counts, known, time.perf_counter() - start)
        return self

    def calibrate(self, valid: Corpus | Table, method: Method = "isotonic") -> Self:
        """Turn scores into probabilities: of the labels with a score of 0.8, 8 in 10 are then relevant.

        Give documents that the model was not trained on: on training documents it is far too confident. "isotonic" fits
        any rising curve, "platt" a sigmoid, which needs fewer documents. The order of a document's labels stays;
        thresholds, which were for the scores before, are dropped.
        """
        valid = labelled(valid, "calibrate")
        top = self._predict(valid, min(LIST_LENGTH, len(self._check_valid(valid))))
        self.calibration_ = Calibration.fit(Pairs.of(top, valid), method, self.capabilities.score)
        self._thresholds = self._curve = None
        self.metrics_ = {}
        training = {key: value for key, value in self.training_.items() if key not in ("thresholds", "curve")}
        self.training_ = {**training, "calibration": fitted_on(valid, method=method)}
        return self

    def tune(self, valid: Corpus | Table, smoothing: float = SMOOTHING) -> Self:
        """Choose for each label the threshold with the best F1 on documents that the model was not trained on.

        Rare labels get a threshold near the one that is best for all labels together; see `xmtc.models.thresholds` for
        `smoothing`. Thresholds are for scores as predicted now, so calibrate first. Use them with
        `predict(documents, k=100).threshold(model.thresholds_)`. Does what `measure` does, too.
        """
        valid = labelled(valid, "tune")
        self._check_valid(valid)
        pairs = Pairs.of(self.predict(valid, LIST_LENGTH), valid)
        self._thresholds = Thresholds.fit(pairs, smoothing)
        self._keep_curve(pairs, valid)
        self.metrics_ = {}
        self.training_ = {**self.training_, "thresholds": fitted_on(valid, smoothing=smoothing)}
        return self

    def measure(self, valid: Corpus | Table, top: Predictions | None = None) -> Self:
        """Keep the precision and recall at each threshold on documents that the model was not trained on.

        `threshold_for` then chooses among them. `top`, if given, are the predictions for these documents, in long
        lists. `tune` does the same beside its own work.
        """
        valid = labelled(valid, "measure")
        self._check_valid(valid)
        if top is not None and (not isinstance(top, Predictions) or len(top) != len(valid)):
            raise XmtcError(f"top must be the predictions for these {len(valid):,} documents; leave it out otherwise")
        self._keep_curve(Pairs.of(self.predict(valid, LIST_LENGTH) if top is None else top, valid), valid)
        return self

    def _keep_curve(self, pairs: Pairs, valid: Corpus) -> None:
        self._curve = ThresholdCurve.fit(pairs)
        self.training_ = {**self.training_, "curve": fitted_on(valid)}

    def threshold_for(self, *, precision: float | None = None, recall: float | None = None) -> float:
        """The threshold that reached a precision (with the most recall) or a recall on the validation documents.

        Precision and recall are micro-averaged, between 0 and 1. Use it with
        `predict(documents, k=100).threshold(model.threshold_for(precision=0.8))`; on new documents they will differ
        a little.
        """
        return self.threshold_choice(precision=precision, recall=recall).threshold

    def threshold_choice(self, *, precision: float | None = None, recall: float | None = None) -> Choice:
        """As `threshold_for`, with the precision and the recall that the threshold had."""
        self._fitted()
        if self._curve is None:
            raise ConfigError(
                "this model was not measured on validation documents, so no threshold can be chosen; train it with "
                "--valid 0.1 (in Python: model.measure(valid) or model.tune(valid))"
            )
        return self._curve.reaching(precision=precision, recall=recall)

    def predict(
        self,
        documents: Corpus | Iterable[str] | Table,
        k: int = 5,
        *,
        only: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
    ) -> Predictions:
        """The k best labels of each document, best first.

        Documents are a corpus, a list or series of texts, or a table with a column `text`, as `Corpus.of` takes them.
        `only` and `exclude`, lists of labels by key or name, restrict what is listed: the k best labels that are
        allowed. A method that searches a label tree lists those that its beam reaches, perhaps fewer than k.
        """
        labels = self._fitted()
        corpus = unlabelled(documents, "predict")
        self._check_input(corpus)
        k = min(whole_number(k, "k"), len(labels))
        if not len(corpus):
            return Predictions(np.zeros((0, k), np.int32), np.zeros((0, k), np.float32), labels, self.score_kind)
        if only is None and exclude is None:
            top = shared_prediction(self._predict, corpus, k, labels)
        else:
            allowed = allowed_labels(labels, only, exclude)
            top = predict_within(self._predict, corpus, k, allowed, labels, self.capabilities.score)
        if self.calibration_ is not None:
            top = self.calibration_.apply(top)
        return top if corpus.ids is None else replace(top, documents=corpus.ids)

    def to(self, device: str) -> Self:
        """Predict on a device: cpu, cuda, cuda:1, mps, or auto, which is a GPU if there is one.

        A method without a network computes on the CPU, and takes no other device.
        """
        self._fitted()
        networks = self._networks()
        if networks:
            from xmtc.nn.devices import device_called, place

            for network in networks:
                place(network, device_called(device))
        elif device not in ("auto", "cpu"):
            raise ConfigError(f"device {device}: this {self.name} model computes on a CPU; leave the device out")
        return self

    @overload
    def explain(self, text: str, label: str) -> Explanation: ...
    @overload
    def explain(self, text: str, label: None = None, *, k: int = 3) -> Explanations: ...
    def explain(self, text: str, label: str | None = None, *, k: int = 3) -> Explanation | Explanations:
        """Why (or why not) a text gets a label, given by key or name; without one, why it gets its k best labels."""
        labels = self._fitted()
        if not self.capabilities.explain:
            raise XmtcError(f"{self.name} cannot explain its answers; `xmtc models` shows which methods can")
        if not isinstance(text, str):
            raise XmtcError(f"explain takes one text, not {described(text)}; call it for each text")
        if label is not None:
            return self._explained(text, labels.find(label))
        best = self.predict([text], k).ids[0].tolist()
        return Explanations(self._explained(text, at) for at in best if at >= 0)

    def _explained(self, text: str, label: int) -> Explanation:
        """`_explain` with what it leaves to the base class: the text, the label's key, the calibrated score."""
        why = self._explain(text, label)
        score = why.score if self.calibration_ is None else self.calibration_.one(why.score)
        return replace(why, score=score, text=why.text or text, key=self._fitted().key(label))

    def save(self, path: str | Path, about: Mapping[str, Any] | None = None) -> None:
        """Write the model to a folder, replacing an older model; `about` goes into its manifest."""
        check_path(path, "save", "the name of a folder")
        self.metrics_ = (about or {}).get("metrics", self.metrics_)
        self._save_folder(path, about or {}, card.ANYWHERE)

    def push_to_hub(
        self, repo: str, *, private: bool | None = None, token: str | None = None, message: str = "Upload a model"
    ) -> str:
        """Upload the model with its card to `user/name` on the Hugging Face Hub; its address there, for `xmtc.load`.

        A new repository is made with `private`, an older model in it is replaced. `token` is that of `hf auth login`
        or HF_TOKEN unless given.
        """
        hub.check_repo(repo)
        self._fitted()
        with TemporaryDirectory() as folder:
            self._save_folder(Path(folder) / "model", {}, f"hf://{repo}")
            return hub.upload(Path(folder) / "model", repo, private, token, message)

    def _save_folder(self, path: str | Path, about: Mapping[str, Any], place: str) -> None:
        """Write the model folder, whose card says to load the model from `place`."""
        labels = self._fitted()
        kept = {"reading": dict(self.reading_), "metrics": dict(self.metrics_)}
        facts = {"training": self.training_, **{key: value for key, value in kept.items() if value}, **about}
        with writing(path, self.name, self.config.model_dump(mode="json"), facts) as folder:
            folder.labels(labels)
            self.write(folder)
            folder.text(CARD, card.card_of(self, facts, place))

    def write(self, folder: FolderWriter) -> None:
        """Write all parts but the labels."""
        folder = folder.rounding(self.weight_type)
        if self.calibration_ is not None:
            folder.arrays("calibration", self.calibration_.to_arrays())
        if self._thresholds is not None:
            folder.arrays("thresholds", self._thresholds.to_arrays())
        if self._curve is not None:
            folder.arrays("curve", self._curve.to_arrays())
        self._save(folder)

    @classmethod
    def load(cls, folder: FolderReader, labels: LabelSet | None = None) -> Self:
        """The model in a checked folder; `xmtc.load` finds the class by the folder's kind.

        A member of an ensemble shares the ensemble's `labels`.
        """
        if cls.capabilities.extra is not None:
            require(f"{folder.folder}: {cls.name}", cls.capabilities.extra)
        model = cls(**folder.manifest["config"])
        model.labels_ = folder.labels() if labels is None else labels
        model.training_ = folder.manifest.get("training", {})
        model.reading_ = folder.manifest.get("reading", {})
        model.metrics_ = folder.manifest.get("metrics", {})
        if type(model.train_documents_) is not int or model.train_documents_ < 1:
            raise BadModelFolder(f"{folder.folder}: its manifest does not say how many documents it was trained on")
        check_facts(model.training_, str(folder.folder))
        if model.labels_.counts is None or not len(model.labels_):
            raise BadModelFolder(f"{folder.folder}: its labels have no training counts, so this is no trained model")
        if folder.has("calibration.safetensors"):
            with folder.building("calibration"):
                model.calibration_ = Calibration.from_arrays(folder.arrays("calibration"))
        if folder.has("thresholds.safetensors"):
            with folder.building("thresholds"):
                model._thresholds = Thresholds.from_arrays(folder.arrays("thresholds"), len(model.labels_))
        if folder.has("curve.safetensors"):
            with folder.building("curve"):
                model._curve = ThresholdCurve.from_arrays(folder.arrays("curve"))
        model._load(folder)
        model._unchecked = folder
        return model

    def shrunk(self, weight_type: WeightType, share: float = 1.0) -> Self:
        """This model with its largest weights only, this share of them, which will be saved as `weight_type`.

        `xmtc.shrink` chooses both by documents that the model has not seen. In memory the weights are not rounded yet:
        that is done when the model is saved.
        """
        self._fitted()
        made = self._pruned(share) if share < 1 else copy(self)
        before = self.training_.get("shrunk", {}).get("share", 1.0)
        made.training_ = {**self.training_, "shrunk": {"weights": weight_type, "share": share * before}}
        made.metrics_ = {}
        return made

    @property
    def shrinking(self) -> frozenset[Shrinking]:
        """What can make the folder of this fitted model smaller."""
        return self.capabilities.shrink

    @property
    def weight_type(self) -> WeightType:
        """How weights are saved: as the model was shrunk to, else as its settings say."""
        kind: WeightType = self.training_.get("shrunk", {}).get("weights") or getattr(self.config, "weights", "float32")
        return kind

    @property
    def train_documents_(self) -> int:
        """The number of documents that the model was trained on; 0 before."""
        documents: int = self.training_.get("documents", 0)
        return documents

    @property
    def title(self) -> str:
        """What this model is called in tables and headings."""
        return self.name

    @property
    def score_kind(self) -> ScoreKind:
        """What this model's scores are."""
        return self.capabilities.score if self.calibration_ is None else ScoreKind.CALIBRATED

    @property
    def thresholds_(self) -> NDArray[np.float32] | None:
        """The threshold of each label, if the model was tuned."""
        return None if self._thresholds is None else self._thresholds.each

    @property
    def threshold_curve_(self) -> ThresholdCurve | None:
        """Precision and recall at each threshold on the validation documents, if the model was measured."""
        return self._curve

    def check_weights(self, kinds: Collection[WeightKind]) -> None:
        """A ConfigError that names the methods which can, if this one cannot learn with weights of these kinds."""
        from xmtc.models.registry import weighing

        for kind in kinds:
            if kind not in self.capabilities.weights:
                raise ConfigError(f"{self.name} cannot take weights of {kind}; these can: {', '.join(weighing(kind))}")

    def memory_needed(self, corpus: Corpus) -> int:
        """Bytes that training on this corpus will take beyond the corpus itself, estimated beforehand."""
        return 0

    @abstractmethod
    def _fit(self, corpus: Corpus, valid: Corpus | None, checkpoints: Checkpoints) -> None: ...

    def _networks(self) -> list[nn.Module]:
        """The networks of a fitted model that can move to another device."""
        return []

    @abstractmethod
    def _predict(self, corpus: Corpus, k: int) -> Predictions: ...

    @abstractmethod
    def _save(self, folder: FolderWriter) -> None: ...

    @abstractmethod
    def _load(self, folder: FolderReader) -> None: ...

    def _pruned(self, share: float) -> Self:
        """A copy with the largest of its weights, this share of them."""
        raise NotImplementedError(f"{self.name} declares that it can be pruned but does not define it")

    def _partial_fit(self, corpus: Corpus) -> None:
        raise NotImplementedError(f"{self.name} declares partial_fit but does not define it")

    def _explain(self, text: str, label: int) -> Explanation:
        raise NotImplementedError(f"{self.name} declares explain but does not define it")

    def _fitted(self) -> LabelSet:
        """The labels of a fitted model; all that uses what was learned calls this first, since it finishes checks."""
        if self.labels_ is None:
            raise NotFitted(f"this {self.name} model was not fitted; call fit(corpus) first")
        if self._unchecked is not None:
            self._unchecked.finish_checks()
            self._unchecked = None
        return self.labels_

    def _check_valid(self, valid: Corpus) -> LabelSet:
        """The labels of the model, after checking that these documents can be used for validation."""
        labels = self._fitted()
        self._check_input(valid)
        if not valid.targets.nnz:
            raise XmtcError(f"{valid.name}: no document has a label, so they cannot say which labels are relevant")
        overlap = Sketch.from_hex(self.training_.get("sketch", "")).overlap(valid)
        if overlap.is_loud:
            warnings.warn(
                f"{valid.name}: {overlap} of these documents were in training, where the model is too sure of itself; "
                "calibrate and tune on documents that it has not seen",
                stacklevel=3,
            )
        return labels

    def _check_input(self, corpus: Corpus) -> None:
        has = {"text": corpus.texts is not None, "features": corpus.features is not None}
        if not any(has[kind] for kind in self.capabilities.input):
            wanted = " or ".join(sorted(self.capabilities.input))
            raise XmtcError(f"{self.name} needs {wanted}, which {corpus.name} does not have")

    def _check_devices(self, corpus: Corpus) -> None:
        """A ConfigError before any work if a network could not be trained where the settings say."""
        if self.capabilities.gpu:
            from xmtc.nn.devices import check_devices

            training: Any = self.config
            check_devices(training.training, len(corpus))

    def _check_memory(self, corpus: Corpus) -> None:
        needed, available = self.memory_needed(corpus), available_memory()
        if needed > available:
            raise OutOfMemory(
                f"training {self.name} on {corpus.name} needs about {needed / 2**30:.1f} GiB of memory and "
                f"{available / 2**30:.1f} GiB are free; use a smaller corpus, fewer terms or a larger machine"
            )
