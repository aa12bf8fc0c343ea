"""Calls from Python with what they cannot take: an XmtcError of one line that says what is wrong, and nothing happens.

What documents and labels may be is in `tests/corpus/test_inputs.py`; here are all other arguments of the six calls.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError
from xmtc.models.base import Model

TEXTS = ["red apple", "blue sky"] * 5
CORPUS = Corpus.of(TEXTS, [["fruit"], ["weather"]] * 5)
FEATURES = Corpus(CORPUS.targets, CORPUS.labels, features=csr_array(np.eye(10, dtype=np.float32)), name="numbers")
RECORDS = [{"text": "red apple", "labels": "fruit"}]
NAN = float("nan")

# As a caller without types sees them.
read, write, make, load = (getattr(xmtc, name) for name in ("read", "write", "make", "load"))
Loose: Any = Corpus
Labels: Any = LabelSet
Case = tuple[Callable[[Any], Any], str]

FILES: dict[str, Case] = {
    "read(None)": (lambda _: read(None), r"read takes the name of a file or folder .*, not None"),
    "read(number)": (lambda _: read(5), "not the int 5"),
    "read(list)": (lambda _: read(["docs.csv"]), "not a list"),
    "read(table)": (lambda _: read(RECORDS), r"Corpus\.of"),
    "read('')": (lambda _: read(""), "no file is named"),
    "read(nothing)": (lambda _: read("nowhere.csv"), "no such file; check the name"),
    "read(model)": (lambda _: read("model"), "no train file"),
    "read(part of a model)": (lambda _: read("model/labels.safetensors"), "binary file"),
    "read(unknown format)": (lambda _: read("docs.csv", format="docx"), "unknown format 'docx'"),
    "read(unknown part)": (lambda _: read("model", part="dev"), "no dev file"),
    "read(index_base)": (lambda _: read("docs.csv", index_base=7), "it must be 0 or 1"),
    "read(label set)": (lambda _: read("docs.csv", label_set="nowhere.tsv"), "nowhere.tsv: no such file"),
    "write(list)": (lambda _: write(TEXTS, "x.csv"), "write takes a corpus and then a path, not a list"),
    "write(swapped)": (lambda _: write("x.csv", CORPUS), "not the str 'x.csv'"),
    "write to None": (lambda _: write(CORPUS, None), "the name of a file or folder, not None"),
    "write to ''": (lambda _: write(CORPUS, ""), "no folder is named"),
    "write to no folder": (lambda _: write(CORPUS, "no/x.csv"), "its folder does not exist"),
    "write to no format": (lambda _: write(CORPUS, "x.docx"), "the suffix says no format"),
    "write over a manifest": (lambda _: write(CORPUS, "model/manifest.json"), "is part of a model"),
    "write over an array": (lambda _: write(CORPUS, "model/labels.safetensors", "jsonl"), "is part of a model"),
    "write into a model": (lambda _: write(CORPUS, "model"), "model: is a model folder"),
    "write with a slash": (lambda _: write(CORPUS, "x.csv/"), "is a folder, a file was expected"),
    "load(None)": (lambda _: load(None), "load takes the name of a model folder, not None"),
    "load(number)": (lambda _: load(5), "not the int 5"),
    "load(model)": (lambda model: load(model), "not a NearestNeighbours"),
    "load('')": (lambda _: load(""), "no model folder is named"),
    "load(nothing)": (lambda _: load("nowhere"), "no such model folder"),
    "load(file)": (lambda _: load("docs.csv"), "is a file, not a model folder"),
    "load(no address)": (lambda _: load("hf://me"), "write hf://user/name"),
    "load to a device": (lambda _: load("model", device="tpu"), "computes on a CPU"),
    "load to no device": (lambda _: load("model", device=None), "computes on a CPU"),
    "save(None)": (lambda model: model.save(None), "save takes the name of a folder, not None"),
    "save(number)": (lambda model: model.save(5), "not the int 5"),
    "save('')": (lambda model: model.save(""), "no name for a folder"),
    "save to a file": (lambda model: model.save("docs.csv"), "there is a file of this name"),
    "save here": (lambda model: model.save("."), "name a folder in it"),
    "save to the Hub": (lambda model: model.save("hf://me/tagger"), "push_to_hub"),
    "push_to_hub(None)": (lambda model: model.push_to_hub(None), "write user/name"),
    "push_to_hub(name)": (lambda model: model.push_to_hub("tagger"), "write user/name"),
    "push_to_hub(address)": (lambda model: model.push_to_hub("hf://me/tagger"), "write user/name"),
}

MODELS: dict[str, Case] = {
    "make(None)": (lambda _: make(None), "by its name, such as 'knn', not None"),
    "make(class)": (lambda _: make(xmtc.Corpus), "by its name"),
    "make('')": (lambda _: make(""), "there is no model ''; `xmtc models` lists the"),
    "make(KNN)": (lambda _: make("KNN"), "did you mean 'knn'"),
    "an unknown setting": (lambda _: make("knn", neighbors=3), "did you mean 'neighbours'"),
    "an unknown setting of a group": (lambda _: make("knn", tfidf={"min_dff": 1}), "did you mean 'tfidf.min_df'"),
    "a group that is none": (lambda _: make("knn", tfidf=5), "knn: tfidf=5"),
    "a setting out of range": (lambda _: make("knn", neighbours=0), "neighbours=0"),
    "a setting of words": (lambda _: make("knn", neighbours="many"), "neighbours='many'"),
    "a setting that is NaN": (lambda _: make("dismec", cost=NAN), "cost=nan"),
    "a negative seed": (lambda _: make("knn", seed=-1), "seed=-1"),
    "no members": (lambda _: make("blend", members=[]), "members="),
    "a member that is no name": (lambda _: make("blend", members=[5]), r"blend: members.0=5: "),
    "an unknown member": (lambda _: make("blend", members=["nope"]), "no model 'nope'"),
    "no duration": (lambda _: make("auto", budget="soon"), "is no duration"),
    "valid=share": (lambda _: make("knn").fit(CORPUS, valid=0.1), r"corpus\.split\(0\.1\)"),
    "valid with features": (lambda _: make("knn").fit(CORPUS, valid=FEATURES), "numbers has features for validation"),
    "valid with texts": (lambda _: make("knn").fit(FEATURES, valid=CORPUS), "corpus has texts for validation"),
    "checkpoints=number": (lambda _: make("knn").fit(CORPUS, checkpoints=5), "checkpoints= takes the name of a folder"),
    "checkpoints=model": (lambda _: make("knn").fit(CORPUS, checkpoints="model"), "no readable checkpoints"),
    "log=number": (lambda _: make("knn").fit(CORPUS, log=5), "log= takes the name of a folder"),
    "nothing to fit on": (lambda _: make("knn").fit(Loose.of([])), "no documents to train on"),
    "no label to fit on": (lambda _: make("knn").fit(Loose.of(["a"])), "no document has a label"),
    "not fitted": (lambda _: make("knn").predict(TEXTS), "call fit"),
    "not fitted to save": (lambda _: make("knn").save("x"), "call fit"),
    "not fitted to push": (lambda _: make("knn").push_to_hub("me/tagger"), "call fit"),
    "partial_fit of a method that cannot": (lambda _: make("rocchio").fit(CORPUS).partial_fit(CORPUS), "cannot learn"),
    "partial_fit on features": (lambda model: model.partial_fit(FEATURES), "trained on texts"),
    "partial_fit on nothing": (lambda model: model.partial_fit(Loose.of([])), "nothing to learn"),
    "predict features": (lambda model: model.predict(FEATURES), "trained on texts"),
    "only=string": (lambda model: model.predict(TEXTS, only="fruit"), "put a single label into a list"),
    "only=number": (lambda model: model.predict(TEXTS, only=5), "only takes a list of labels, not the int 5"),
    "only=[number]": (lambda model: model.predict(TEXTS, only=[5]), "a string, not the int 5"),
    "only=[None, label]": (lambda model: model.predict(TEXTS, only=[None, "fruit"]), "a string, not None"),
    "only=[list]": (lambda model: model.predict(TEXTS, only=[["fruit"]]), "a string, not a list"),
    "exclude=unknown": (
        lambda model: model.predict(TEXTS, exclude=["nut"]),
        "no label 'nut'; give the key or the name",
    ),
    "exclude=all": (lambda model: model.predict(TEXTS, exclude=["fruit", "weather"]), "no label is left"),
    "explain an unknown label": (lambda model: model.explain("red", "friut"), "did you mean 'fruit'"),
    "explain a number": (lambda model: model.explain("red", 0), "a string, not the int 0"),
    "explain no text": (lambda model: model.explain(None, "fruit"), "explain takes one text, not None"),
    "measure(top=number)": (lambda model: model.measure(CORPUS, top=5), "for these 10 documents"),
    "measure(top of others)": (lambda model: model.measure(CORPUS, top=model.predict(["red"])), "these 10 documents"),
    "not measured": (lambda model: model.threshold_for(precision=0.5), "measure"),
    "precision=words": (lambda model: measured(model).threshold_for(precision="high"), "precision high: a share"),
    "precision=True": (lambda model: measured(model).threshold_for(precision=True), "precision True: a share"),
    "precision=NaN": (lambda model: measured(model).threshold_for(precision=NAN), "precision nan: a share"),
    "precision=80": (lambda model: measured(model).threshold_for(precision=80), "precision 80: a share"),
    "neither": (lambda model: measured(model).threshold_for(), "either a precision or a recall"),
    "smoothing=words": (lambda model: model.tune(CORPUS, smoothing="much"), "smoothing must be above 0"),
    "smoothing=NaN": (lambda model: model.tune(CORPUS, smoothing=NAN), "smoothing must be above 0"),
    "calibrate(None)": (lambda model: model.calibrate(CORPUS, None), "no calibration None"),
    "to(None)": (lambda model: model.to(None), "computes on a CPU"),
}

CORPORA: dict[str, Case] = {
    "split(words)": (lambda _: Loose.split(CORPUS, "x"), "test='x' is no fraction"),
    "split(None)": (lambda _: Loose.split(CORPUS, None), "test=None is no fraction"),
    "split(1.0)": (lambda _: Loose.split(CORPUS, 1.0), "test=1.0 is no fraction"),
    "split(all)": (lambda _: Loose.split(CORPUS, 10), "a number from 1 to 9"),
    "split(NaN)": (lambda _: Loose.split(CORPUS, NAN), "test=nan is no fraction"),
    "seed=words": (lambda _: Loose.split(CORPUS, 0.5, seed="x"), "seed='x': a seed is a whole number"),
    "seed=1.5": (lambda _: Loose.split(CORPUS, 0.5, seed=1.5), "seed=1.5: a seed is a whole number"),
    "seed=-1": (lambda _: Loose.split(CORPUS, 0.5, seed=-1), "seed=-1"),
    "an unknown method": (lambda _: Loose.split(CORPUS, 0.5, method="magic"), "unknown split method 'magic'"),
    "folds(1)": (lambda _: Loose.folds(CORPUS, 1), "10 documents cannot make 1 folds"),
    "folds(words)": (lambda _: Loose.folds(CORPUS, "x"), "cannot make 'x' folds"),
    "folds(2.5)": (lambda _: Loose.folds(CORPUS, 2.5), "cannot make 2.5 folds"),
    "label_set=list": (lambda _: Loose.of(TEXTS, label_set=["fruit"]), r"label_set is a list; .*LabelSet\.of"),
    "label_set=path": (lambda _: Loose.of(["a"], [["x"]], "labels.tsv"), "label_set is the str 'labels.tsv'"),
    "label_separator=''": (lambda _: Loose.of(["a"], ["x;y"], label_separator=""), "such as ';'"),
    "label_separator=5": (lambda _: Loose.of(["a"], ["x;y"], label_separator=5), "label_separator is the int 5"),
    "an empty label": (lambda _: Loose.of(["a"], [[""]]), r"labels\[0\] has an empty label"),
    "keep=string": (lambda _: Loose.from_frame(RECORDS, keep="text"), r"keep is the str 'text'; give a list"),
    "keep=number": (lambda _: Loose.from_frame(RECORDS, keep=5), "keep is the int 5"),
    "labels=[]": (lambda _: Loose.from_frame(RECORDS, labels=[]), r"labels=\[\] names no column"),
    "LabelSet.of(None)": (lambda _: Labels.of(None), "the keys of a label set are None"),
    "LabelSet.of(string)": (lambda _: Labels.of("abc"), "the keys of a label set are the str 'abc'"),
    "LabelSet.of(numbers)": (lambda _: Labels.of([1, 2]), r"keys\[0\] of a label set is the int 1"),
    "LabelSet.of('')": (lambda _: Labels.of(["a", ""]), "label 1 of the label set is empty"),
    "LabelSet.of(twice)": (lambda _: Labels.of(["a", "a"]), "'a' occurs twice"),
    "too many names": (lambda _: Labels.of(["a"], names=["x", "y"]), "1 labels but 2 names"),
    "a name that is None": (lambda _: Labels.of(["a"], names=[None]), r"names\[0\] of a label set is None"),
    "too few descriptions": (lambda _: Labels.of(["a", "b"], descriptions=["x"]), "2 labels but 1 descriptions"),
    "find(number)": (lambda _: Loose.of(["a"], [["x"]]).labels.find(5), "a string, not the int 5"),
}


def measured(_: Model) -> Any:
    return load("model").measure(CORPUS)


@pytest.fixture(scope="module")
def model() -> Model:
    return xmtc.make("knn").fit(CORPUS)


@pytest.mark.parametrize("case", [*FILES, *MODELS, *CORPORA])
def test_it_is_one_line_and_nothing_is_written(
    case: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, message = (FILES | MODELS | CORPORA)[case]
    monkeypatch.chdir(tmp_path)
    model.save("model")
    xmtc.write(CORPUS, "docs.csv")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(XmtcError, match=message) as caught:
        call(model)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 300, said
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    assert model.predict(["red apple"], k=1).names()[0][0][0] == "fruit", "the model is as it was"


def test_no_case_is_there_twice() -> None:
    assert len(FILES | MODELS | CORPORA) == len(FILES) + len(MODELS) + len(CORPORA)
