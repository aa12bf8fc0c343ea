from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix, issparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, f1_score, precision_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.estimator_checks import check_estimator

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.integrations.sklearn import XmtcClassifier, expected_failed_checks
from xmtc.integrations.sklearn_data import BadEstimatorInput

pd: Any = pytest.importorskip("pandas")

TEXTS = ["red apple", "green apple", "blue sky", "grey sky"] * 5
TAGS = [["fruit", "red"], ["fruit"], ["weather"], ["weather", "grey"]] * 5
ONE = ["fruit", "fruit", "weather", "weather"] * 5
CLASSES = ["fruit", "grey", "red", "weather"]
MATRIX = MultiLabelBinarizer(sparse_output=True).fit_transform(TAGS)
FEATURES = TfidfVectorizer().fit_transform(TEXTS)


@pytest.mark.parametrize("method", ["dismec", "knn", "prior"])
def test_scikit_learns_own_checks_hold_but_those_declared(method: str) -> None:
    classifier = XmtcClassifier(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(classifier, on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed <= set(expected_failed_checks(classifier))
    assert sum(result["status"] == "passed" for result in results) > 45
    assert all(len(reason) > 20 for reason in expected_failed_checks(classifier).values())


def every_form_of_texts() -> dict[str, Any]:
    return {
        "list": TEXTS,
        "tuple": tuple(TEXTS),
        "array": np.array(TEXTS),
        "objects": np.array(TEXTS, object),
        "column": np.array(TEXTS, object)[:, None],
        "series": pd.Series(TEXTS, index=range(100, 120)),
        "arrow": pd.Series(TEXTS, dtype="string"),
        "frame": pd.DataFrame({"text": TEXTS}),
    }


@pytest.mark.parametrize("form", every_form_of_texts())
def test_texts_in_every_form_give_the_same_model(form: str) -> None:
    X = every_form_of_texts()[form]
    found = XmtcClassifier(k=2).fit(X, TAGS).predict(X)
    assert (found != XmtcClassifier(k=2).fit(TEXTS, TAGS).predict(TEXTS)).nnz == 0


@pytest.mark.parametrize("convert", [csr_array, csr_matrix, csc_matrix, coo_array, lambda X: X.toarray()])
def test_features_in_every_form_give_the_same_model(convert: Any) -> None:
    X = convert(FEATURES)
    classifier = XmtcClassifier(k=2).fit(X, MATRIX)
    assert classifier.n_features_in_ == FEATURES.shape[1]
    assert (classifier.predict(X) != XmtcClassifier(k=2).fit(FEATURES, MATRIX).predict(FEATURES)).nnz == 0


@pytest.mark.parametrize(
    "y",
    [
        TAGS,
        [set(tags) for tags in TAGS],
        pd.Series(TAGS),
        np.array([*TAGS, None], object)[:-1],
        MATRIX,
        MATRIX.toarray(),
        MATRIX.toarray().astype(bool),
        MATRIX.toarray().tolist(),
        csc_matrix(MATRIX),
        pd.DataFrame(MATRIX.toarray(), columns=CLASSES),
    ],
    ids=["lists", "sets", "series", "objects", "csr", "dense", "bools", "rows", "csc", "frame"],
)
def test_labels_in_every_form_give_the_same_matrix(y: Any) -> None:
    classifier = XmtcClassifier(k=2).fit(TEXTS, y)
    found: Any = classifier.predict(TEXTS)
    assert issparse(classifier.predict(TEXTS))
    assert found.shape == MATRIX.shape
    wanted = XmtcClassifier(k=2).fit(TEXTS, TAGS).predict(TEXTS)
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())
    assert 0 < classifier.score(TEXTS, y) <= 1


def test_classes_are_the_columns() -> None:
    assert XmtcClassifier().fit(TEXTS, TAGS).classes_.tolist() == CLASSES
    assert XmtcClassifier().fit(TEXTS, MATRIX).classes_.tolist() == [0, 1, 2, 3]
    assert XmtcClassifier().fit(TEXTS, pd.DataFrame(MATRIX.toarray(), columns=CLASSES)).classes_.tolist() == CLASSES
    assert XmtcClassifier().fit(TEXTS, [[7], [9, 7]] * 10).classes_.tolist() == [7, 9]
    assert XmtcClassifier(k=1).fit(TEXTS, TAGS).predict_labels(["apple", "sky"]) == [["fruit"], ["weather"]]


def test_one_label_a_document_gives_one_label_back() -> None:
    for y in (ONE, np.array(ONE), pd.Series(ONE), np.array([tag == "fruit" for tag in ONE])):
        classifier = XmtcClassifier().fit(TEXTS, y)
        found = classifier.predict(TEXTS)
        assert found.tolist() == list(y)
        assert classifier.score(TEXTS, y) == accuracy_score(y, found) == 1


def test_a_document_without_an_answer_gets_the_most_frequent_label() -> None:
    classifier = XmtcClassifier("knn").fit(["red apple", "blue sky", "grey sky"], ["fruit", "weather", "weather"])
    assert classifier.predict(["nothing known"]).tolist() == ["weather"]


def test_predictions_compose_with_the_metrics() -> None:
    classifier = XmtcClassifier(k=1).fit(TEXTS, MATRIX)
    found = classifier.predict(TEXTS)
    assert precision_score(MATRIX, found, average="micro") == 1
    assert 0 < f1_score(MATRIX, found, average="samples") < 1
    assert cross_val_score(XmtcClassifier(k=2), TEXTS, MATRIX.toarray(), cv=2, scoring="f1_micro").min() > 0.5
    assert cross_val_score(XmtcClassifier(), TEXTS, TAGS, cv=KFold(2)).min() > 0.5
    assert cross_val_score(XmtcClassifier(), TEXTS, ONE, cv=2).min() == 1


def test_default_score_is_ndcg() -> None:
    corpus = Corpus.of(TEXTS, TAGS)
    classifier = XmtcClassifier(k=3).fit(TEXTS, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = xmtc.evaluate(xmtc.make("dismec").fit(corpus), corpus, k=[3]).values["nDCG@3"] / 100
    assert classifier.score(TEXTS, TAGS) == pytest.approx(wanted)


def test_threshold_and_k() -> None:
    classifier = XmtcClassifier("prior", threshold=0.4).fit(TEXTS, TAGS)
    assert classifier.predict_labels(["any"]) == [["fruit", "weather"]]
    assert classifier.set_params(threshold=0.2).predict_labels(["any"]) == [["fruit", "weather", "grey", "red"]]
    assert classifier.set_params(k=1).predict_labels(["any"]) == [["fruit"]]
    many = [[f"label{at}" for at in range(30)]] * 4
    assert len(XmtcClassifier("prior", threshold=0.5).fit(TEXTS[:4], many).predict_labels(["any"])[0]) == 30


def test_probabilities_are_sparse_and_only_there_where_scores_are_some() -> None:
    found = XmtcClassifier("knn", k=2).fit(TEXTS, TAGS).predict_proba(TEXTS)
    assert isinstance(found, csr_array)
    assert found.shape == (20, 4)
    assert found.data.min() >= 0
    assert found.data.max() <= 1
    assert hasattr(XmtcClassifier("knn"), "predict_proba")
    assert not hasattr(XmtcClassifier("dismec"), "predict_proba")
    with pytest.raises(AttributeError, match="has no attribute 'predict_proba'"):
        XmtcClassifier("dismec").fit(TEXTS, TAGS).predict_proba(TEXTS)


def test_held_out_documents_serve_calibration_and_thresholds() -> None:
    classifier = XmtcClassifier(valid=0.2, calibrate=True, threshold="tuned").fit(TEXTS, TAGS)
    assert classifier.model_.train_documents_ == 16
    assert classifier.predict_proba(TEXTS).data.max() <= 1
    assert "fruit" in classifier.predict_labels(["green apple"])[0]


def test_parameters_are_cloned_and_shown() -> None:
    classifier = XmtcClassifier("knn", k=3, neighbours=7, tfidf__min_df=2)
    assert is_classifier(classifier)
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert copy.get_params()["neighbours"] == 7
    assert repr(copy) == "XmtcClassifier(k=3, method='knn', neighbours=7, tfidf__min_df=2)"
    model = copy.set_params(neighbours=3, tfidf__log_tf=False).fit(TEXTS, TAGS).model_
    assert (model.config.neighbours, model.config.tfidf.min_df, model.config.tfidf.log_tf) == (3, 2, False)
    assert classifier.get_params()["neighbours"] == 7
    config: Any = XmtcClassifier(tfidf={"min_df": 2}, tfidf__min_chars=1).fit(TEXTS, TAGS).model_.config
    assert (config.tfidf.min_df, config.tfidf.min_chars) == (2, 1)


def test_a_search_of_settings() -> None:
    grid = {"cost": [0.1, 1.0], "tfidf__min_df": [1, 2], "k": [1, 2]}
    search = GridSearchCV(XmtcClassifier(), grid, cv=KFold(2)).fit(TEXTS, TAGS)
    assert set(search.best_params_) == set(grid)
    assert search.best_score_ > 0.5
    assert search.predict(TEXTS).shape == (20, 4)


def test_a_search_in_a_pipeline_in_several_processes() -> None:
    pipeline = make_pipeline(TfidfVectorizer(), XmtcClassifier(k=1))
    search = GridSearchCV(pipeline, {"xmtcclassifier__cost": [0.1, 1.0]}, cv=2, scoring="f1_micro", n_jobs=2)
    search.fit(TEXTS, MATRIX)
    assert search.best_score_ > 0.5
    assert cross_val_predict(pipeline, TEXTS, ONE, cv=2).tolist() == ONE


def test_a_wrong_name_in_a_grid_is_named() -> None:
    with (
        warnings.catch_warnings(),
        pytest.raises(ValueError, match=r"(?s)All the 2 fits failed.*no hyper-parameter 'csot'; did you mean 'cost'"),
    ):
        warnings.simplefilter("ignore")
        GridSearchCV(XmtcClassifier(), {"csot": [1.0]}, cv=KFold(2)).fit(TEXTS, TAGS)


@pytest.mark.parametrize("method", ["dismec", "knn", "parabel", "rocchio"])
def test_a_fitted_classifier_survives_pickling(method: str) -> None:
    classifier = XmtcClassifier(method, k=2).fit(TEXTS, TAGS)
    again = pickle.loads(pickle.dumps(classifier))
    for one in (classifier, again, pickle.loads(pickle.dumps(again))):
        np.testing.assert_array_equal(one.predict(TEXTS).toarray(), classifier.predict(TEXTS).toarray())
    assert again.get_params() == classifier.get_params()


def test_a_damaged_pickle_is_noticed() -> None:
    state = XmtcClassifier().fit(TEXTS, TAGS).__getstate__()
    state["model_"]["biases.safetensors"] = state["model_"]["biases.safetensors"][:-1] + b"?"
    with pytest.raises(XmtcError, match="altered"):
        XmtcClassifier().__setstate__(state)


def test_the_model_inside_can_be_saved_without_pickle(tmp_path: Path) -> None:
    XmtcClassifier(k=1).fit(TEXTS, TAGS).model_.save(tmp_path / "model")
    assert xmtc.load(tmp_path / "model").predict(["apple"], k=1).names()[0][0][0] == "fruit"


def test_feature_names_are_checked() -> None:
    frame = pd.DataFrame(FEATURES.toarray(), columns=["a", "b", "c", "d", "e", "f"])
    classifier = XmtcClassifier(k=1).fit(frame, TAGS)
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c", "d", "e", "f"]
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame.rename(columns={"a": "z"}))
    assert not hasattr(classifier.fit(TEXTS, TAGS), "n_features_in_")


def test_nothing_is_predicted_before_fit() -> None:
    for call in (XmtcClassifier.predict, XmtcClassifier.predict_labels, XmtcClassifier.top_labels):
        with pytest.raises(NotFittedError):
            call(XmtcClassifier(), TEXTS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("red apple", "one text"),
        (b"red apple", "one text"),
        (None, "NoneType|None"),
        (5, "scalar|Expected 2D"),
        ({"a", "b"}, "no order"),
        ((text for text in TEXTS), "read only once"),
        ([], "0 sample|Expected 2D"),
        (["a", None] * 10, "texts.1. is (None|NaN|nan|missing)"),
        (["a", float("nan")] * 10, "texts.1. is (None|NaN|nan|missing)"),
        (["a", 3] * 10, "texts.1. is .*, not a string"),
        ([b"a", b"b"] * 10, "texts.0. is .*decode"),
        (pd.Series(["a", None] * 10), "texts.1. is (None|NaN|nan|missing)"),
        (pd.DataFrame({"a": TEXTS, "b": TEXTS}), "could not convert|dtype|convert"),
        (TEXTS[:3], "inconsistent numbers of samples"),
        ([1.0, 2.0], "Expected 2D"),
        ([[np.nan, 1.0]] * 20, "NaN"),
        ([[np.inf, 1.0]] * 20, "infinity"),
        ([[1e300, 1.0]] * 20, "too large"),
        ([[1j, 1.0]] * 20, "omplex"),
        (np.zeros((20, 2, 2)), "dim"),
        (np.zeros((20, 0)), "0 feature"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
def test_documents_that_cannot_be_used(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        XmtcClassifier().fit(X, TAGS)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y"),
        ("fruit", "one string"),
        ({"a", "b"}, "order and a length"),
        ((tag for tag in TAGS), "order and a length"),
        (TAGS[:4], "inconsistent numbers of samples"),
        ([*TAGS[:-1], None], "document 19 of y has None"),
        ([*TAGS[:-1], "fruit"], "document 19 of y has 'fruit'"),
        ([*TAGS[:-1], [None]], "the label None"),
        ([*TAGS[:-1], [float("nan")]], "the label nan"),
        ([*TAGS[:-1], [1]], "some are numbers"),
        ([*TAGS[:-1], [["deep"]]], "the label"),
        ([*TAGS[:-1], [""]], "is empty"),
        ([*TAGS[:-1], [" "]], "is empty"),
        ({0: "fruit"}, "y should be"),
        ([*ONE[:-1], None], "NaN or None"),
        ([*ONE[:-1], float("nan")], "NaN or None"),
        ([*ONE[:-1], 3], "some are not"),
        (np.linspace(0, 1, 20), "[Cc]ontinuous|Unknown label type"),
        (np.full((20, 2), 2), "other values than 0 and 1"),
        (np.full((20, 2), np.nan), "other values than 0 and 1"),
        (csr_array(np.full((20, 2), 0.5)), "other values than 0 and 1"),
        (np.array([["a", "b"]] * 20), "other values than 0 and 1|matrix"),
        (np.zeros((20, 3)), "no document has a label"),
        ([[] for _ in TEXTS], "no document has a label"),
        (np.zeros((20, 2, 2)), "y"),
        (pd.DataFrame([[1, 0]] * 20, columns=["1", 1]), "two classes of y are written '1'"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else type(value).__name__,
)
def test_labels_that_cannot_be_used(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        XmtcClassifier().fit(TEXTS, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "dismek"}, "did you mean 'dismec'"),
        ({"method": 3}, "method=3"),
        ({"k": 0}, "k=0"),
        ({"k": 2.5}, "k=2.5"),
        ({"k": True}, "k=True"),
        ({"threshold": "high"}, "threshold='high'"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"threshold": float("inf")}, "threshold=inf"),
        ({"threshold": "0.5"}, "threshold='0.5'"),
        ({"calibrate": "yes", "valid": 0.2}, "calibrate='yes'"),
        ({"seed": -1}, "seed=-1"),
        ({"tfidf__min_df__deep": 1}, "tfidf.min_df"),
        ({"threshold": "tuned"}, "valid=0.1"),
        ({"calibrate": True}, "valid=0.1"),
        ({"valid": 3}, "valid=3"),
        ({"valid": 1.5}, "valid=1.5"),
        ({"cost": -1}, "cost=-1"),
        ({"csot": 1}, "did you mean 'cost'"),
        ({"tfidf__min_dff": 1}, "min_dff"),
        ({"cost": 1, "cost__x": 2}, "cost is a value"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_used(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(BadEstimatorInput, match=message):
        XmtcClassifier(**parameters).fit(TEXTS, TAGS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda fitted: fitted.predict("red apple"), "one text"),
        (lambda fitted: fitted.predict(FEATURES), "trained on texts"),
        (lambda fitted: fitted.top_labels(TEXTS, k=0), "k must be at least 1, not 0"),
        (lambda fitted: fitted.top_labels(TEXTS, k=1.5), "whole number"),
        (lambda fitted: fitted.set_params(threshold=7).predict(TEXTS), "drops every label"),
        (lambda fitted: fitted.set_params(threshold=-1).predict_labels(TEXTS), "keeps every label"),
        (lambda fitted: fitted.score(TEXTS, None), "requires y"),
        (lambda fitted: fitted.score(TEXTS, "fruit"), "one string"),
        (lambda fitted: fitted.score(TEXTS, TAGS, [1] * 20), "sample_weight"),
    ],
)
def test_calls_of_a_fitted_classifier_that_cannot_be_meant(call: Any, message: str) -> None:
    with pytest.raises(BadEstimatorInput, match=message):
        call(XmtcClassifier("knn").fit(TEXTS, TAGS))


def test_scoring_against_other_columns_is_refused() -> None:
    classifier = XmtcClassifier().fit(TEXTS, MATRIX)
    with pytest.raises(BadEstimatorInput, match="y has 3 columns"):
        classifier.score(TEXTS, MATRIX[:, :3])
    with pytest.raises(BadEstimatorInput, match="sample_weight"):
        classifier.score(TEXTS, MATRIX, sample_weight=np.ones(20))
    with pytest.raises(ValueError, match="features"):
        XmtcClassifier().fit(FEATURES, MATRIX).predict(FEATURES[:, :3])
    with pytest.raises(BadEstimatorInput, match="trained on features"):
        XmtcClassifier().fit(FEATURES, MATRIX).predict(TEXTS)
