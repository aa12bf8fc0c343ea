"""scikit-learn: every method of xmtc as an estimator, for pipelines, cross-validation and searches of settings.

Here rather than `Model.fit`: X and y as scikit-learn's users have them, parameters by name, and answers in the forms
that its metrics take. A documents x labels matrix is always sparse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.errors import XmtcError
from xmtc.extras import require
from xmtc.models.base import Model
from xmtc.models.registry import load, make, model_class
from xmtc.predictions import Predictions, ScoreKind
from xmtc.recipes import put_value

require("xmtc.integrations.sklearn", "sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.utils.metaestimators import available_if  # noqa: E402
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data  # noqa: E402

from xmtc.integrations.sklearn_data import BadEstimatorInput, Target, features_of, target_of, texts_of  # noqa: E402

LENGTH, LONG_LENGTH = 5, 100  # of lists, unless `k` says; with a threshold they are cut by it
SPARSE_CHECKS = (
    "check_classifiers_multilabel_representation_invariance",
    "check_classifiers_multilabel_output_format_predict",
    "check_classifiers_multilabel_output_format_predict_proba",
)


def _has_probabilities(classifier: XmtcClassifier) -> bool:
    model = getattr(classifier, "model_", None)
    kind = model.score_kind if model is not None else model_class(str(classifier.method)).capabilities.score
    if kind is ScoreKind.RANKING and not classifier.calibrate:
        raise AttributeError(
            f"the scores of {classifier.method} are no probabilities; use top_labels(X), or "
            "XmtcClassifier(..., calibrate=True, valid=0.1)"
        )
    return True


class XmtcClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method of xmtc as a scikit-learn classifier.

    X: texts (a list, a Series, an array, a DataFrame of one column) or features (numbers, dense or sparse). y: a list
    of labels for each document, a 0/1 matrix with a column for each label, or one label for each document.

    `method` is a name of `xmtc models`; its settings are keywords, with two underscores inside of groups, so a grid is
    `{"cost": [0.1, 1], "tfidf__min_df": [1, 2]}`. A document gets the `k` best labels (5, or with a threshold up to
    100), of which those below `threshold` are left out (a number, or "tuned": one for each label). `valid`, a share of
    the documents, is held out of the training for early stopping, calibration (`calibrate=True`) and tuned thresholds.

    >>> from sklearn.base import clone
    >>> texts, tags = ["red apple", "green apple", "blue sky"] * 4, [["fruit", "red"], ["fruit"], ["weather"]] * 4
    >>> classifier = XmtcClassifier("dismec", k=1, cost=1.0).fit(texts, tags)
    >>> classifier.predict_labels(["an apple", "the sky"])
    [['fruit'], ['weather']]
    >>> clone(classifier).set_params(tfidf__min_df=2)
    XmtcClassifier(cost=1.0, k=1, tfidf__min_df=2)
    """

    model_: Model

    def __init__(
        self,
        method: str = "dismec",
        *,
        k: int | None = None,
        threshold: float | Literal["tuned"] | None = None,
        valid: float | None = None,
        calibrate: bool = False,
        **settings: Any,
    ) -> None:
        self.method = method
        self.k = k
        self.threshold = threshold
        self.valid = valid
        self.calibrate = calibrate
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, with the settings of the method that were given."""
        return {**super().get_params(deep=deep), **self._settings}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and settings of the method by their names, which `fit` checks."""
        own = self._get_param_names()
        for name, value in params.items():
            if name in own:
                setattr(self, name, value)
        self._settings = self._settings | {name: value for name, value in params.items() if name not in own}
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from documents and their labels; one with the `sample_weight` 2 counts as if it were there twice."""
        with _as_value_errors():
            self._check_parameters()
            model = make(self.method, **self._nested())
            target = target_of(y)
            corpus = self._corpus(X, target, reset=True)
            if sample_weight is not None:
                corpus = corpus.with_weights(sample_weight, names=("sample_weight", ""))
                model.check_weights(["documents"])
            train, valid = corpus.split(self.valid, seed=model.config.seed) if self.valid else (corpus, None)
            model.fit(train, valid)
            if valid is not None and self.calibrate:
                model.calibrate(valid)
            if valid is not None and self.threshold == "tuned":
                model.tune(valid)
        self.model_, self.classes_, self.target_form_ = model, target.classes, target.form
        return self

    def predict(self, X: Any) -> Any:
        """A sparse 0/1 matrix, documents x `classes_`; if y had one label a document, an array of labels."""
        if self._form() == "single":
            best = self.top_labels(X, 1).ids
            counts = self.model_._fitted().counts
            assert counts is not None
            # A method may know no label for a document, but an answer is asked for: the most frequent one.
            return self.classes_[np.where(best[:, 0] < 0, counts.argmax(), best[:, 0]) if best.size else []]
        answer = self._kept(X).to_csr()
        return make_csr(np.ones(answer.nnz, np.int64), answer.indices, answer.indptr, answer.shape)

    def predict_labels(self, X: Any) -> list[list[Any]]:
        """For each document its labels, best first."""
        self._form()
        names = self.classes_.tolist()
        return [[names[label] for label in row if label >= 0] for row in self._kept(X).ids.tolist()]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Csr:
        """A sparse matrix, documents x `classes_`, with the scores of the `k` best labels; all others count as 0.

        Only where scores are probabilities, by construction or calibrated. Each label has its own: they do not add up
        to 1, also where y had one label a document.
        """
        return self.top_labels(X).to_csr()

    def top_labels(self, X: Any, k: int | None = None) -> Predictions:
        """The k best labels of each document with their scores, whatever these mean (`.kind` says it)."""
        self._form()
        with _as_value_errors():
            return self.model_.predict(self._corpus(X), self._length() if k is None else k)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy if y has one label a document; else nDCG@k, between 0 and 1, k as for `predict` (at most 5)."""
        if self._form() == "single":
            accuracy: float = super().score(X, y, sample_weight)
            return accuracy
        from xmtc.evaluation.evaluate import evaluate

        with _as_value_errors():
            if sample_weight is not None:
                raise BadEstimatorInput("score takes sample_weight only where y has one label a document")
            target = target_of(y)
            self._check_columns(target)
            truth = self._corpus(X, target)
            k = min(self.k or LENGTH, LENGTH)
            return evaluate(self.model_, truth, k=(k,)).values[f"nDCG@{k}"] / 100

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.one_d_array = False
        tags.target_tags.multi_output = False
        tags.classifier_tags.multi_label = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """For joblib and copies: the model as the files of its folder."""
        state: dict[str, Any] = dict(super().__getstate__())
        if "model_" in state:
            with TemporaryDirectory() as folder:
                self.model_.save(Path(folder) / "model")
                state["model_"] = {file.name: file.read_bytes() for file in (Path(folder) / "model").iterdir()}
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        files = state.get("model_")
        super().__setstate__({key: value for key, value in state.items() if key != "model_"})
        if files is not None:
            # Arrays stay mapped when the files are gone; where a system does not allow that, they stay until the end.
            with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                for name, content in files.items():
                    (Path(folder) / name).write_bytes(content)
                self.model_ = load(folder)
                self.model_._fitted()  # which finishes the checks of large files

    def _nested(self) -> dict[str, Any]:
        """The settings as xmtc has them: group__name is inside of its group."""
        nested: dict[str, Any] = {}
        for name, value in self._settings.items():
            put_value(nested, name.replace("__", "."), dict(value) if isinstance(value, Mapping) else value)
        return nested

    def _check_parameters(self) -> None:
        if not isinstance(self.method, str):
            raise BadEstimatorInput(f"method={self.method!r}: the name of a method is needed, such as 'dismec'")
        if self.k is not None and (isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1):
            raise BadEstimatorInput(f"k={self.k!r}: a whole number from 1 is needed, or None")
        if not (self.threshold is None or self.threshold == "tuned"):
            number = isinstance(self.threshold, (int, float, np.number)) and not isinstance(self.threshold, bool)
            if not number or not np.isfinite(self.threshold):
                raise BadEstimatorInput(f'threshold={self.threshold!r}: a finite number is needed, "tuned" or None')
        if self.valid is not None and not (isinstance(self.valid, (float, np.floating)) and 0 < self.valid < 1):
            raise BadEstimatorInput(f"valid={self.valid!r}: a share of the documents is needed, such as 0.1, or None")
        if not isinstance(self.calibrate, (bool, np.bool_)):
            raise BadEstimatorInput(f"calibrate={self.calibrate!r}: True or False is needed")
        for name, wanted in (("calibrate=True", self.calibrate), ('threshold="tuned"', self.threshold == "tuned")):
            if wanted and not self.valid:
                raise BadEstimatorInput(f"{name} needs documents that are not trained on; give valid=0.1 too")

    def _form(self) -> str:
        check_is_fitted(self, "model_")
        return str(self.target_form_)

    def _length(self) -> int:
        return int(self.k or (LENGTH if self.threshold is None else LONG_LENGTH))

    def _kept(self, X: Any) -> Predictions:
        """The labels that documents get: the k best, without those below the threshold."""
        top = self.top_labels(X, max(self._length(), LONG_LENGTH) if self.threshold == "tuned" else None)
        if self.threshold is None:
            return top
        thresholds = self.model_.thresholds_ if self.threshold == "tuned" else float(self.threshold)
        assert thresholds is not None
        with _as_value_errors():
            return top.threshold(thresholds).top(self._length())

    def _corpus(self, X: Any, target: Target | None = None, reset: bool = False) -> Corpus:
        """X, and y where it is given, as a corpus; `reset` takes the features of X for those to expect."""
        texts, features = texts_of(X), None
        if texts is None:
            checked = validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=reset)
            features = features_of(checked)
        elif reset:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)  # of an earlier fit
        documents = features.shape[0] if texts is None and features is not None else len(texts or ())
        if not documents:
            raise BadEstimatorInput("Found array with 0 sample(s) while a minimum of 1 is required")
        if target is None:
            return Corpus(_no_targets(documents), LabelSet.of([]), texts=texts, features=features, name="X")
        check_consistent_length(range(documents), range(target.matrix.shape[0]))
        return Corpus(target.matrix, target.labels(), texts=texts, features=features, name="X")

    def _check_columns(self, target: Target) -> None:
        """An indicator matrix has no names, so it must have the columns that it had when the model was fitted."""
        if target.form == "indicator" and not np.array_equal(target.classes, self.classes_):
            raise BadEstimatorInput(
                f"y has {len(target.classes)} columns, which are not the {len(self.classes_)} labels of the training"
            )


def expected_failed_checks(classifier: XmtcClassifier) -> dict[str, str]:
    """The checks of `sklearn.utils.estimator_checks` that do not hold, and why: for its `expected_failed_checks`."""
    sparse = "documents x labels matrices are sparse here, always: a dense one of a million labels fits no memory"
    found = dict.fromkeys(SPARSE_CHECKS, sparse)
    if classifier.method == "prior":
        found["check_classifiers_train"] = "prior gives every document the same labels, so it separates no classes"
    elif getattr(classifier, "predict_proba", None) is not None:
        found["check_classifiers_train"] = "a label's probability is its own: those of a document need not add up to 1"
    return found


def _no_targets(documents: int) -> Csr:
    return label_matrix([], np.zeros(documents + 1, np.int32), 0)


@contextmanager
def _as_value_errors() -> Iterator[None]:
    """Errors of xmtc become ValueErrors too, which is what scikit-learn and its users expect."""
    try:
        yield
    except XmtcError as error:
        if isinstance(error, ValueError):
            raise
        raise BadEstimatorInput(str(error)) from error
