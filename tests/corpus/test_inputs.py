"""The doors in Python: what is meant is accepted, whatever library it comes from; the rest is an error of one line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array, csr_matrix

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.data import demo_folder
from xmtc.errors import XmtcError
from xmtc.models.base import Model

TEXTS = ["red fruit", "blue sky", "rain on the sea"]
TAGS = [["apple", "food"], ["weather"], ["weather", "water"]]
RECORDS = [{"text": text, "labels": tags} for text, tags in zip(TEXTS, TAGS, strict=True)]
HOT = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]])
NAMES = ["apple", "food", "weather", "water"]
NAN = float("nan")

# As a caller without types sees them.
Loose: Any = Corpus
evaluate: Any = xmtc.evaluate
NUMPY_ONE: Any = np.int64(1)


def tags_of(corpus: Corpus) -> list[list[str]]:
    return [[corpus.labels.key(label) for label in corpus.labels_of(at)] for at in range(len(corpus))]


def same(corpus: Corpus, tags: list[list[str]] = TAGS) -> None:
    assert corpus.texts is not None
    assert list(corpus.texts) == TEXTS
    assert tags_of(corpus) == tags


@pytest.fixture(scope="module")
def model() -> Model:
    return xmtc.make("knn").fit(Corpus.of(TEXTS, TAGS))


def frame(**columns: Any) -> Any:
    import pandas as pd  # type: ignore[import-untyped]

    return pd.DataFrame(columns or {"text": TEXTS, "labels": TAGS})


def series(values: list[Any], index: list[Any] | None = None) -> Any:
    import pandas as pd

    return pd.Series(values, index=index, dtype=object)


def dataset(columns: dict[str, Any], **features: Any) -> Any:
    import datasets  # type: ignore[import-untyped]

    kinds = {"text": datasets.Value("string")} | features if features else None
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds) if kinds else None)


# What is meant


def test_one_label_a_document_is_that_label_and_not_its_letters() -> None:
    for labels in (["sport", "news", "sport"], ("sport", "news", "sport"), np.array(["sport", "news", "sport"])):
        corpus = Corpus.of(TEXTS, labels)
        same(corpus, [["sport"], ["news"], ["sport"]])
        assert list(corpus.labels.keys) == ["sport", "news"]
    same(Corpus.of(TEXTS, ["a|b", "c", None]), [["a|b"], ["c"], []])
    same(Corpus.of(TEXTS, ["a|b", "c", ""], label_separator="|"), [["a", "b"], ["c"], []])


@pytest.mark.parametrize(
    "labels",
    [
        TAGS,
        tuple(map(tuple, TAGS)),
        [np.array(tags) for tags in TAGS],
        np.array([*map(np.array, TAGS), None], object)[:3],
        HOT.tolist(),
        HOT,
        HOT.astype(bool),
        HOT.astype(float),
        csr_array(HOT),
        csr_matrix(HOT),
        coo_array(HOT),
        [[0, 1], [2], [2, 3]],
        [np.array([0, 1]), 2, (np.int64(2), 3)],
    ],
    ids=str,
)
def test_labels_as_lists_arrays_matrices_and_numbers_with_names(labels: Any) -> None:
    words = isinstance(labels[0] if not hasattr(labels, "tocsr") else 0, (list, tuple, np.ndarray))
    words = words and isinstance(labels[0][0], str)
    same(Corpus.of(TEXTS, labels, label_names=None if words else NAMES))


def test_the_columns_of_a_matrix_may_be_named_by_the_label_set_or_by_an_array() -> None:
    labels = LabelSet.of(NAMES, names=["Apple", "Food", "Weather", "Water"])
    assert Corpus.of(TEXTS, HOT, labels).labels.name(3) == "Water"
    same(Corpus.of(TEXTS, csr_array(HOT), label_names=np.array(NAMES)))
    same(Corpus.of(TEXTS, HOT, label_names=range(4)), [["0", "1"], ["2"], ["2", "3"]])
    other = Corpus.of(TEXTS, HOT, LabelSet.of(["water", "fire"]), label_names=NAMES)
    assert list(other.labels.keys) == ["water", "fire", "apple", "food", "weather"]
    assert sorted(tags_of(other)[2]) == ["water", "weather"]


def test_whole_numbers_are_keys_as_in_files() -> None:
    same(Corpus.of(TEXTS, [[12, 7], [np.int64(12)], []]), [["12", "7"], ["12"], []])
    same(Corpus.of(TEXTS, [3, 4, 3]), [["3"], ["4"], ["3"]])


@pytest.mark.parametrize(
    "texts",
    [TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object), Strings.of(TEXTS), dict.fromkeys(TEXTS).keys()],
    ids=lambda texts: type(texts).__name__,
)
def test_texts_of_many_kinds(texts: Any) -> None:
    same(Corpus.of(texts, TAGS))
    same(Corpus.of(texts), [[], [], []])


def test_iterators_of_texts_labels_and_records() -> None:
    same(Corpus.of(iter(TEXTS), (tags for tags in TAGS)))
    same(Corpus.of(iter(RECORDS)))
    same(Corpus.of(RECORDS))
    same(Corpus.of({"text": TEXTS, "labels": TAGS}))
    same(Corpus.of([{"text": text} for text in TEXTS], TAGS))
    assert len(Corpus.of(iter([]))) == 0
    corpus = Corpus.of(TEXTS, TAGS)
    assert Corpus.of(corpus) is corpus


def test_missing_labels_are_no_labels() -> None:
    same(Corpus.of(TEXTS, [["apple"], None, NAN]), [["apple"], [], []])
    same(Corpus.of(TEXTS, HOT[:, :1].tolist(), label_names=["apple"]), [["apple"], [], []])


@pytest.mark.needs("pandas")
class TestPandas:
    def test_a_frame_with_text_and_labels(self) -> None:
        same(Corpus.of(frame()))
        same(Corpus.from_frame(frame()))
        assert Corpus.of(frame()).ids is None

    @pytest.mark.parametrize(
        "cells",
        [
            TAGS,
            [tuple(tags) for tags in TAGS],
            [np.array(tags) for tags in TAGS],
            ["apple|food", "weather", "weather|water"],
            ["apple;food", "weather", "weather; water"],
            ['["apple", "food"]', "weather", '["weather", "water"]'],
        ],
        ids=str,
    )
    def test_cells_of_labels(self, cells: Any) -> None:
        same(Corpus.of(frame(text=TEXTS, labels=cells)))
        same(Corpus.of(frame(text=TEXTS, labels=cells)["text"], frame(text=TEXTS, labels=cells)["labels"]))
        same(Corpus.of(frame(text=TEXTS), frame(labels=cells)))

    def test_empty_cells_and_a_separator(self) -> None:
        corpus = Corpus.from_frame(frame(text=TEXTS, tags=["a, b", None, NAN]), labels="tags", label_separator=",")
        same(corpus, [["a", "b"], [], []])
        same(Corpus.of(frame(text=TEXTS, labels=["Austen, Jane", "", "b"])), [["Austen, Jane"], [], ["b"]])

    def test_columns_by_name(self) -> None:
        data = frame(title=["red", "", None], body=["fruit", "sky", "sea"], key=[7, 8, 9], labels=TAGS, year=[1, 2, 3])
        corpus = Corpus.from_frame(data, text=["title", "body"], id="key", keep=["year"], name="shop")
        assert list(corpus.texts or []) == ["red\n\nfruit", "\n\nsky", "\n\nsea"]
        assert list(corpus.ids or []) == ["7", "8", "9"]
        assert list(corpus.fields["year"]) == ["1", "2", "3"]
        assert corpus.name == "shop"
        assert not Corpus.from_frame(data, text="body", labels=None).targets.nnz

    def test_columns_of_zeros_and_ones(self) -> None:
        data = frame(text=TEXTS, **dict(zip(NAMES, HOT.T.tolist(), strict=True)))
        same(Corpus.from_frame(data, labels=NAMES))
        same(Corpus.of(data["text"], data[NAMES]))

    def test_the_index_is_kept_as_ids_unless_it_only_numbers_the_rows(self, model: Model) -> None:
        data = frame()
        assert Corpus.of(data[1:]).ids is not None
        assert list(Corpus.of(data.iloc[::-1]).ids or []) == ["2", "1", "0"]
        assert Corpus.of(data["text"]).ids is None
        assert model.predict(data["text"]).documents is None
        for documents in (data[1:], data[1:]["text"], data[1:][["text"]]):
            assert list(model.predict(documents).documents or []) == ["1", "2"]
        assert list(model.predict(data[1:], k=2)[1:].top(1).threshold(0.0).documents or []) == ["2"]

    def test_there_and_back(self) -> None:
        corpus = xmtc.read(demo_folder())[:20]
        back = Corpus.of(corpus.to_frame())
        assert [*map(sorted, tags_of(back))] == [*map(sorted, tags_of(corpus))]
        assert list(back.texts or []) == list(corpus.texts or [])
        assert list(back.ids or []) == list(corpus.ids or [])

    def test_every_call_takes_frames(self) -> None:
        data = frame(text=TEXTS * 10, labels=["apple|food", "weather", "weather|water"] * 10)
        fitted = xmtc.make("knn").fit(data, valid=data)
        fitted.calibrate(data, "platt").tune(data).partial_fit(data)
        assert xmtc.evaluate(fitted, data, k=1).values["P@1"] == 100
        for documents in (data, data[["text"]], data["text"], RECORDS, iter(TEXTS), np.array(TEXTS)):
            assert fitted.predict(documents, NUMPY_ONE).names()[1][0][0] == "weather"

    def test_predicting_does_not_read_the_labels(self, model: Model) -> None:
        assert len(model.predict(frame(text=TEXTS, labels=[2.5, object(), b"x"]))) == 3

    def test_pandas_own_strings_and_categories(self) -> None:
        import pandas as pd

        data = frame()
        data["text"] = data["text"].astype("string")
        data["labels"] = pd.Categorical(["apple|food", "weather", "weather|water"])
        same(Corpus.of(data))


@pytest.mark.needs("datasets")
class TestDatasets:
    def test_lists_of_strings(self) -> None:
        same(Corpus.of(dataset({"text": TEXTS, "labels": TAGS})))

    def test_classes_have_names(self) -> None:
        import datasets

        classes = datasets.ClassLabel(names=NAMES)
        many = dataset({"text": TEXTS, "labels": [[0, 1], [2], [2, 3]]}, labels=datasets.Sequence(classes))
        same(Corpus.of(many))
        one = dataset({"text": TEXTS, "label": [0, 2, -1]}, label=classes)
        same(Corpus.from_frame(one, labels="label"), [["apple"], ["weather"], []])

    def test_several_splits_are_an_error_that_names_them(self) -> None:
        import datasets

        splits = datasets.DatasetDict({"train": dataset({"text": TEXTS}), "test": dataset({"text": TEXTS})})
        with pytest.raises(XmtcError, match=r"several splits \('train', 'test'\); take one of them: data\['train'\]$"):
            Corpus.of(splits)
        with pytest.raises(XmtcError, match="a stream"):
            Corpus.of(dataset({"text": TEXTS}).to_iterable_dataset())


def test_arrow_tables() -> None:
    import pyarrow as pa

    table = pa.table({"text": TEXTS, "labels": TAGS})
    same(Corpus.of(table))
    same(Corpus.of(table["text"], table["labels"]))
    same(Corpus.of(table.to_batches()[0]))


def test_sets_are_taken_in_sorted_order_whatever_the_hash_seed() -> None:
    code = "from xmtc import Corpus; c = Corpus.of(['a'] * 2, [{'x', 'y', 'z', 'w'}, frozenset('qrst')])"
    code += "; print(*c.labels.keys, c.fingerprint())"
    found = set()
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        found.add(run.stdout)
    assert len(found) == 1
    assert found.pop().startswith("w x y z q r s t ")


# What is not


def ints() -> Iterator[Any]:
    yield from (1, 2, 3)


BAD_CORPORA: dict[str, tuple[Callable[[], Any], str]] = {
    "a string": (lambda: Loose.of("hello"), "not one string"),
    "a string with labels": (lambda: Loose.of("hello", ["a"]), "not one string"),
    "a path": (lambda: Loose.of("docs.csv"), "xmtc.read"),
    "bytes": (lambda: Loose.of(b"hello"), "not the bytes b'hello'"),
    "None": (lambda: Loose.of(None), "not None"),
    "a number": (lambda: Loose.of(3), "not the int 3"),
    "a set of texts": (lambda: Loose.of({"a", "b"}), "no order"),
    "None among texts": (lambda: Loose.of(["a", None]), r"texts\[1\] is None, not a string; leave"),
    "NaN among texts": (lambda: Loose.of(["a", NAN], [["x"], ["y"]]), r"texts\[1\] is NaN"),
    "an int among texts": (lambda: Loose.of(["a", 5]), r"texts\[1\] is the int 5, not a string; str"),
    "bytes among texts": (lambda: Loose.of([b"a"]), "decode it"),
    "a first None of an iterator": (lambda: Loose.of(iter([None, "a"])), r"texts\[0\] is None"),
    "an iterator of ints": (lambda: Loose.of(ints()), r"texts\[0\] is the int 1"),
    "a late int": (lambda: Loose.of(["a"] * 50 + [7]), r"texts\[50\] is the int 7"),
    "swapped": (lambda: Loose.of(TAGS, TEXTS), "texts come first"),
    "pairs": (lambda: Loose.of(list(zip(TEXTS, TAGS, strict=True))), r"zip\(\*pairs\)"),
    "an array of two columns": (lambda: Loose.of(np.array([["a", "b"]])), r"shape \(1, 2\)"),
    "an array of numbers": (lambda: Loose.of(np.zeros(2)), r"texts\[0\] is the float 0.0"),
    "an array of bytes": (lambda: Loose.of(np.array([b"a"])), "decode it"),
    "a sparse matrix": (lambda: Loose.of(csr_array(HOT)), r"an array of shape \(3, 4\)"),
    "a model": (lambda: Loose.of(xmtc.make("prior")), "not a Prior"),
    "a corpus and labels": (lambda: Loose.of(Loose.of(TEXTS), TAGS), "corpus.texts"),
    "too few labels": (lambda: Loose.of(TEXTS, ["a", "b"]), "3 texts but 2 lists of labels"),
    "too many lists": (lambda: Loose.of(TEXTS, [*TAGS, []]), "3 texts but 4 lists of labels"),
    "mixed labels": (lambda: Loose.of(TEXTS, ["a", ["b"], ["c"]]), r"labels\[0\] is one label and labels\[1\] a list"),
    "labels as a string": (lambda: Loose.of(["a", "b"], "xy"), "the labels are the str 'xy'"),
    "labels as bytes": (lambda: Loose.of(["a", "b"], b"xy"), "the labels are the bytes"),
    "labels as a number": (lambda: Loose.of(["a"], 1), "the labels are the int 1"),
    "labels as a set": (lambda: Loose.of(["a", "b"], {"x", "y"}), "in the order of the texts"),
    "labels as a dict": (lambda: Loose.of(["a"], {"x": 1}), "in the order of the texts"),
    "labels as dicts": (lambda: Loose.of(["a"], [{"x": 1}]), r"labels\[0\] is a dict"),
    "a float": (lambda: Loose.of(TEXTS, [1.0, 2.0, 1.0]), r"labels\[0\] is the float 1.0"),
    "a float in a list": (lambda: Loose.of(["a"], [[1.5]]), r"labels\[0\] has the label the float 1.5"),
    "a bool": (lambda: Loose.of(["a"], [True]), r"labels\[0\] is the bool True"),
    "None in a list": (lambda: Loose.of(["a"], [["x", None]]), r"labels\[0\] has the label None"),
    "lists in lists": (lambda: Loose.of(["a"], [[["x"]]]), r"labels\[0\] has the label a list"),
    "bytes as a label": (lambda: Loose.of(["a"], [[b"x"]]), "the bytes b'x'"),
    "an empty label": (lambda: Loose.of(["a"], [["x", ""]]), r"labels\[0\] has an empty label"),
    "a matrix without names": (lambda: Loose.of(TEXTS, HOT), r"label_names=\[...\].*range\(4\)"),
    "a sparse one without names": (lambda: Loose.of(TEXTS, csr_array(HOT)), "without names"),
    "rows of 0 and 1": (lambda: Loose.of(TEXTS, HOT.tolist()), "look like rows of 0 and 1"),
    "a matrix of counts": (lambda: Loose.of(TEXTS, HOT * 2, label_names=NAMES), "the value the int 2"),
    "a matrix with NaN": (lambda: Loose.of(TEXTS, HOT * NAN, label_names=NAMES), "the value NaN"),
    "a matrix with other rows": (lambda: Loose.of(TEXTS, HOT[:2], label_names=NAMES), "3 texts but 2 rows"),
    "too few names": (lambda: Loose.of(TEXTS, HOT, label_names=["a"]), "4 label columns but 1 label_names"),
    "names as a string": (lambda: Loose.of(TEXTS, HOT, label_names="abcd"), "label_names is the str"),
    "names as True": (lambda: Loose.of(TEXTS, HOT, label_names=True), "label_names is the bool"),
    "a name twice": (lambda: Loose.of(TEXTS, HOT, label_names=[*"abca"]), "a name twice"),
    "a name that is None": (lambda: Loose.of(TEXTS, HOT, label_names=[*"abc", None]), r"label_names\[3\] is None"),
    "names for strings": (lambda: Loose.of(TEXTS, TAGS, label_names=NAMES), "labels given as numbers"),
    "a number without a name": (lambda: Loose.of(["a"], [[4]], label_names=NAMES), "4 label_names"),
    "a cube": (lambda: Loose.of(["a"], np.zeros((1, 2, 2))), "documents x labels"),
    "records without text": (lambda: Loose.of([{"a": "x", "b": "y"}]), "no column 'text' .*: 'a', 'b'"),
    "a record without labels": (lambda: Loose.of([*RECORDS, {"text": "x"}]), r"records\[3\] has no 'labels'"),
    "a record that is none": (lambda: Loose.of([*RECORDS, "x"]), r"records\[3\] is a str"),
    "a dict of texts": (lambda: Loose.of({"a": "hello"}), "'a' is a str"),
    "unequal columns": (lambda: Loose.of({"text": ["a"], "labels": []}), "equally long"),
    "no table": (lambda: Loose.from_frame(TEXTS), "not a list; see Corpus.of"),
    "no text column": (lambda: Loose.from_frame(RECORDS, text=[]), "names no column"),
    "an unknown label column": (lambda: Loose.from_frame(RECORDS, labels="tags"), "no column 'tags'.*labels="),
    "an unknown id column": (lambda: Loose.from_frame(RECORDS, id="key"), "no column 'key'.*id="),
    "an unknown kept column": (lambda: Loose.from_frame(RECORDS, keep=["key"]), "no column 'key'.*keep="),
    "an id that is None": (lambda: Loose.of([{"text": "a", "id": None}]), "row 0 has no id"),
    "one document": (lambda: Loose.of(TEXTS)[0], r"corpus\[0:1\]"),
    "going through it": (lambda: list(Loose.of(TEXTS)), r"corpus\[0:1\]"),
    "a column of it": (lambda: Loose.of(TEXTS)["text"], r"corpus\['text'\]: choose rows"),
    "rows by floats": (lambda: Loose.of(TEXTS)[[0.5]], "whole numbers or by a mask"),
    "rows that are not there": (lambda: Loose.of(TEXTS)[[0, 3]], "no row 3; the corpus has 3"),
    "a short mask": (lambda: Loose.of(TEXTS)[np.array([True])], "the mask has 1 values for 3"),
    "a slice of words": (lambda: Loose.of(TEXTS)["a":"b"], "has whole numbers"),
}  # fmt: skip

BAD_FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "no column of text": (lambda: Loose.of(frame(body=TEXTS, labels=TAGS)), "no column 'text'"),
    "a missing text": (lambda: Loose.of(frame(text=["a", None], labels=["x", "y"])), r"row 1 has no text.*dropna"),
    "all texts missing": (lambda: Loose.from_frame(frame(a=[NAN], b=[None]), ["a", "b"], None), "row 0 has no text"),
    "a number as text": (lambda: Loose.of(frame(text=["a", 3])), "has the int 3 in row 1"),
    "only numbers": (lambda: Loose.of(frame(text=[1.5, 2.5])), "has the float 1.5 in row 0"),
    "two columns text": (lambda: Loose.of(frame(a=["x"], b=["y"]).set_axis(["text"] * 2, axis=1)), "2 columns are"),
    "labels that are floats": (lambda: Loose.of(frame(text=["a"], labels=[1.5])), r"labels\[0\] is the float 1.5"),
    "a one-hot column of words": (lambda: Loose.from_frame(frame(text=["a"], x=["b"]), labels=["x"]), "holds 0 and 1"),
    "a one-hot column of NaN": (lambda: Loose.from_frame(frame(text=["a"], x=[NAN]), labels=["x"]), "NaN in row 0"),
    "other indexes": (lambda: Loose.of(series(TEXTS), series(TAGS, [2, 1, 0])), "the indexes of texts and labels"),
    "None in a series": (lambda: Loose.of(series(["a", None])), r"texts\[1\] is None"),
    "a frame for a name": (lambda: Loose.from_frame(frame(), labels=frame()), "labels= is a DataFrame; give the name"),
}  # fmt: skip

BAD_CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fit(X, y)": (lambda model: model.fit(TEXTS, TAGS), r"fit\(Corpus.of\(texts, labels\)"),
    "fit(X)": (lambda model: model.fit(TEXTS), r"fit takes a corpus, not a list; make one with Corpus.of"),
    "fit(path)": (lambda model: model.fit("docs.csv"), r"fit\(xmtc.read\('docs.csv'\)\)"),
    "fit(None)": (lambda model: model.fit(None), "not None"),
    "fit(records without labels)": (lambda model: model.fit([{"text": "a"}]), "fit: no column 'labels'"),
    "fit(class)": (lambda model: model.fit(Corpus), "fit takes a corpus"),
    "valid=list": (lambda model: model.fit(Loose.of(TEXTS, TAGS), valid=TEXTS), "fit takes one corpus"),
    "partial_fit(texts)": (lambda model: model.partial_fit(TEXTS), "partial_fit takes a corpus"),
    "calibrate(texts)": (lambda model: model.calibrate(TEXTS), "calibrate takes a corpus"),
    "calibrate(method)": (lambda model: model.calibrate(Loose.of(TEXTS, TAGS), "x"), "x"),
    "tune(texts)": (lambda model: model.tune(TEXTS), "tune takes a corpus"),
    "predict(text)": (lambda model: model.predict("a text"), r"put a single text into a list: \[text\]"),
    "predict(bytes)": (lambda model: model.predict(b"a text"), "a list of texts is needed"),
    "predict(None)": (lambda model: model.predict(None), "not None"),
    "predict(None in a list)": (lambda model: model.predict([None]), r"texts\[0\] is None"),
    "predict(ints)": (lambda model: model.predict([1, 2]), r"texts\[0\] is the int 1"),
    "predict(lists)": (lambda model: model.predict([["a"]]), r"texts\[0\] is a list"),
    "predict(wrong columns)": (lambda model: model.predict([{"a": "x", "b": "y"}]), "no column 'text'"),
    "k=0": (lambda model: model.predict(TEXTS, k=0), "k must be at least 1, not 0"),
    "k=2.5": (lambda model: model.predict(TEXTS, k=2.5), "k must be a whole number, not the float 2.5"),
    "k='3'": (lambda model: model.predict(TEXTS, k="3"), "not the str '3'"),
    "k=True": (lambda model: model.predict(TEXTS, k=True), "not the bool True"),
    "k=None": (lambda model: model.predict(TEXTS, k=None), "not None"),
    "k=[1]": (lambda model: model.predict(TEXTS, k=[1]), "not a list"),
    "predictions[0]": (lambda model: model.predict(TEXTS)[0], r"predictions\[0:1\]"),
    "predictions[9]": (lambda model: model.predict(TEXTS)[[9]], "no row 9"),
    "top(1.5)": (lambda model: model.predict(TEXTS).top(1.5), "k must be a whole number"),
    "threshold words": (lambda model: model.predict(TEXTS).threshold("high"), "a threshold is a number"),
    "threshold None": (lambda model: model.predict(TEXTS).threshold(None), "a number"),
    "two thresholds": (lambda model: model.predict(TEXTS).threshold(np.zeros(2)), "2 thresholds for 4 labels"),
    "evaluate(corpus, model)": (lambda model: evaluate(Loose.of(TEXTS, TAGS), model), "evaluate takes"),
    "evaluate(None)": (lambda model: evaluate(None, Loose.of(TEXTS, TAGS)), "in this order"),
    "evaluate on texts": (lambda model: evaluate(model, TEXTS), "evaluate takes a corpus"),
    "evaluate k=0": (lambda model: evaluate(model, Loose.of(TEXTS, TAGS), k=0), "1 or more"),
    "evaluate k words": (lambda model: evaluate(model, Loose.of(TEXTS, TAGS), k="135"), "whole numbers"),
    "evaluate k floats": (lambda model: evaluate(model, Loose.of(TEXTS, TAGS), k=[1.5]), "whole numbers"),
}  # fmt: skip


def check(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(XmtcError, match=message) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 220, said


@pytest.mark.parametrize("case", BAD_CORPORA)
def test_bad_corpora_are_errors_of_one_line(case: str) -> None:
    check(*BAD_CORPORA[case])


@pytest.mark.needs("pandas")
@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_frames_are_errors_of_one_line(case: str) -> None:
    check(*BAD_FRAMES[case])


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_are_errors_of_one_line(case: str, model: Model) -> None:
    call, message = BAD_CALLS[case]
    check(lambda: call(model), message)
    assert model.predict(TEXTS, k=1).names()[0][0][0] in ("apple", "food")  # the model is as it was
