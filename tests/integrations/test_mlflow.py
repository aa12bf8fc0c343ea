from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus
from scipy.sparse import csr_array

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import MissingExtra, NotFitted, XmtcError
from xmtc.integrations.mlflow import Tagger, load_model, log_model, requirements, save_model
from xmtc.models.base import Model
from xmtc.models.ensemble.blend import Blend
from xmtc.models.knn import NearestNeighbours

pd: Any = pytest.importorskip("pandas")
TEXTS = ["red apple", "green apple", "blue sky", "grey sky"]
TAGS = [["f", "r"], ["f"], ["w"], ["w", "g"]]
LABELS = LabelSet.of(["f", "r", "w", "g"], names=["Fruit", "Red", "Weather", "Grey"])

# MLflow's own code, with new versions of pandas and Python
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:mlflow"),
    pytest.mark.filterwarnings("ignore:unclosed scandir iterator:ResourceWarning"),
]


@pytest.fixture(scope="module")
def model() -> Model:
    return xmtc.make("knn").fit(Corpus.of(TEXTS, TAGS, LABELS))


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow with a tracking folder of its own; nothing goes over the network."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    from xmtc.integrations.mlflow import _mlflow

    library = _mlflow()
    library.set_tracking_uri((tmp_path / "runs").as_uri())
    library.set_registry_uri((tmp_path / "runs").as_uri())
    yield library
    while library.active_run() is not None:
        library.end_run()
    library.set_tracking_uri(None)
    library.set_registry_uri(None)


@pytest.fixture(scope="module")
def saved(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlflow") / "saved"
    save_model(model, folder)
    return folder


def test_a_saved_model_comes_back(model: Model, saved: Path) -> None:
    again = load_model(saved)
    assert type(again) is NearestNeighbours
    np.testing.assert_array_equal(again.predict(TEXTS).scores, model.predict(TEXTS).scores)


def test_the_folder_has_no_pickle_and_says_what_it_needs(saved: Path) -> None:
    files = {path.relative_to(saved).as_posix() for path in saved.rglob("*") if path.is_file()}
    assert "data/model/manifest.json" in files
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    needed = (saved / "requirements.txt").read_text().split()
    assert needed[:2] == [f"xmtc[mlflow]=={xmtc.__version__}", f"numpy=={np.__version__}"]
    assert all("==" in line and "+" not in line for line in needed)
    assert not any(line.startswith(("torch", "transformers")) for line in needed)
    assert json.loads((saved / "input_example.json").read_text()) == [{"text": "a text to tag"}]


def test_what_is_needed_follows_the_model() -> None:
    corpus = small_corpus()
    core = xmtc.make("prior").fit(corpus)
    vectors = xmtc.make("knn", search={"vectors": "mean"}).fit(corpus)
    assert requirements(core)[0] == f"xmtc[mlflow]=={xmtc.__version__}"
    for neural in (vectors, Blend.of([core, vectors], corpus[:5])):
        assert requirements(neural)[0] == f"xmtc[mlflow,neural]=={xmtc.__version__}"
        assert any(line.startswith("torch==") for line in requirements(neural))


def test_the_signature_and_the_example_are_set(saved: Path, mlflow: Any) -> None:
    loaded = mlflow.pyfunc.load_model(str(saved))
    signature = loaded.metadata.signature
    assert signature.inputs.input_names() == ["text"]
    assert signature.outputs.input_names() == ["labels", "names", "scores"]
    assert [param.name for param in signature.params] == ["k", "threshold"]
    assert loaded.metadata.metadata == {"xmtc": {"method": "knn", "scores": "probability"}}
    assert loaded.predict(loaded.input_example).columns.tolist() == ["labels", "names", "scores"]


def test_predictions_have_a_row_for_each_document(saved: Path, mlflow: Any) -> None:
    loaded = mlflow.pyfunc.load_model(str(saved))
    answer = loaded.predict(pd.DataFrame({"text": ["red apple", "sky", "?"]}, index=[7, 3, 9]), params={"k": 1})
    assert answer.index.tolist() == [7, 3, 9]
    assert answer["labels"].tolist() == [["f"], ["w"], []]
    assert answer["names"].tolist() == [["Fruit"], ["Weather"], []]
    assert [len(scores) for scores in answer["scores"]] == [1, 1, 0]
    assert loaded.predict([{"text": "sky"}]).index.tolist() == [0]
    json.dumps(answer.to_dict("records"))  # as a server answers


def test_parameters(saved: Path, mlflow: Any) -> None:
    loaded, frame = mlflow.pyfunc.load_model(str(saved)), pd.DataFrame({"text": ["red apple"]})
    everything = loaded.predict(frame)["scores"][0]
    assert len(everything) == 2
    assert loaded.predict(frame, params={"threshold": (everything[0] + everything[1]) / 2})["names"][0] == ["Fruit"]
    many = Corpus.of(["a b"], [[f"label{at}" for at in range(30)]])
    tagger = Tagger(xmtc.make("prior").fit(many))
    assert len(tagger.predict(["a"])["labels"][0]) == 5
    assert len(tagger.predict(["a"], {"threshold": 0.5})["labels"][0]) == 30
    assert len(tagger.predict(["a"], {"threshold": 0.5, "k": 7})["labels"][0]) == 7


def test_the_wrapped_model_takes_lists_too(model: Model, saved: Path, mlflow: Any) -> None:
    loaded = mlflow.pyfunc.load_model(str(saved))
    assert type(loaded.get_raw_model()) is NearestNeighbours
    assert Tagger(model).predict(["sky"], {"k": 1})["labels"].tolist() == [["w"]]
    assert Tagger(model).predict(pd.Series(["sky"], index=["d1"])).index.tolist() == ["d1"]
    assert len(Tagger(model).predict([])) == 0


def test_a_logged_model_is_found_by_run_and_by_registry(model: Model, mlflow: Any) -> None:
    with mlflow.start_run() as run:
        info = log_model(model, "tagger", registered_model_name="Tagger")
    for uri in (info.model_uri, f"runs:/{run.info.run_id}/tagger", "models:/Tagger/1"):
        assert load_model(uri).predict(["sky"], k=1).names()[0][0][0] == "Weather"
        assert mlflow.pyfunc.load_model(uri).predict([{"text": "sky"}])["labels"][0][0] == "w"
    log_model(model, "tagger", registered_model_name="Tagger")  # without a run
    assert load_model("models:/Tagger/2").train_documents_ == 4


def test_mlflow_is_imported_when_it_is_asked_for() -> None:
    code = "import sys, xmtc.integrations.mlflow; print([name for name in sys.modules if name == 'mlflow'])"
    source = str(Path(xmtc.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("call", [save_model, log_model])
def test_a_missing_extra_is_named(call: Any, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'xmtc\[mlflow\]'"):
        call(model, str(tmp_path / "x"))
    with pytest.raises(MissingExtra, match=r"pip install 'xmtc\[mlflow\]'"):
        load_model("models:/x/1")
    assert list(tmp_path.iterdir()) == []


def test_an_altered_model_is_not_loaded(saved: Path, mlflow: Any, tmp_path: Path) -> None:
    altered = shutil.copytree(saved, tmp_path / "altered")
    (altered / "data" / "model" / "labels.safetensors").write_bytes(b"?")
    for call in (load_model, mlflow.pyfunc.load_model):
        with pytest.raises(XmtcError, match=r"labels\.safetensors: truncated"):
            call(str(altered))


def with_features() -> Model:
    features = csr_array(np.eye(4, dtype=np.float32))
    corpus = Corpus.of(TEXTS, TAGS)
    return xmtc.make("knn").fit(Corpus(corpus.targets, corpus.labels, features=features))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (lambda: "tagger", XmtcError, "a fitted model of xmtc is needed, not the str 'tagger'"),
        (lambda: None, XmtcError, "a fitted model of xmtc is needed, not None"),
        (lambda: xmtc.make("knn"), NotFitted, "call fit"),
        (with_features, XmtcError, "trained on features"),
    ],
    ids=["string", "none", "unfitted", "features"],
)
def test_what_cannot_be_saved(given: Any, error: type[XmtcError], message: str, mlflow: Any, tmp_path: Path) -> None:
    for call in (save_model, log_model):
        with pytest.raises(error, match=message):
            call(given(), str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "name of a new folder, not the str ''"),
        (None, "name of a new folder, not None"),
        ("file", "file: exists already"),
        ("full", "full: exists already"),
        ("file/x", "file/x: MLflow refuses: Not a directory"),
    ],
)
def test_places_that_cannot_be_saved_to(path: Any, message: str, model: Model, mlflow: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(XmtcError, match=message):
        save_model(model, path)
    assert sorted(map(str, tmp_path.rglob("*"))) == before


@pytest.mark.parametrize("name", ["", None, 5, "a/b", "a:b"])
def test_names_that_cannot_be_logged(name: Any, model: Model, mlflow: Any) -> None:
    with pytest.raises(XmtcError, match=r"takes a name|Invalid model name"):
        log_model(model, name)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "not the str ''"),
        (None, "not None"),
        (5, "not the int 5"),
        ("nowhere", "nowhere: MLflow refuses: No such"),
        ("models:/", "Not a proper models:/ URI"),
        ("models:/nobody/1", "nobody not found"),
        ("models:/nobody/first", "models:/nobody/first: "),
        ("runs:/nobody/tagger", "Run 'nobody' not found"),
        ("other://place", "other://place: MLflow refuses: Could not find"),
        ("plain", "plain: not a model in MLflow's form; `xmtc.load`"),
        ("foreign", "foreign: not a model of xmtc; load it with mlflow.pyfunc.load_model"),
        ("broken", "broken: MLflow refuses: "),
    ],
)
def test_addresses_that_cannot_be_loaded(uri: Any, message: str, model: Model, mlflow: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "plain")
    for name, content in (("foreign", "flavors: {python_function: {loader_module: os, data: x}}"), ("broken", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "MLmodel").write_text(content)
    with pytest.raises(XmtcError) as error:
        load_model(uri)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "params", "message"),
    [
        ({"text": ["a", None]}, None, "row 1 has no text"),
        ({"text": ["a"]}, {"k": 0}, "k must be at least 1"),
        ({"text": ["a"]}, {"k": "3"}, "k"),
        ({"text": ["a"]}, {"k": 2.5}, "k"),
        ({"text": ["a"]}, {"threshold": "tuned"}, "threshold"),
        ({"text": ["a"]}, {"threshold": float("nan")}, "NaN"),
        ({"text": ["a"]}, {"threshold": 7.0}, "drops every label"),
        ({"title": ["a"], "body": ["b"]}, None, "missing inputs"),
        ({"text": [1]}, None, "text"),
        ({"text": [["a"]]}, None, "text"),
    ],
    ids=str,
)
def test_documents_and_parameters_that_cannot_be_used(
    data: Any, params: Any, message: str, saved: Path, mlflow: Any
) -> None:
    loaded = mlflow.pyfunc.load_model(str(saved))
    with pytest.raises((XmtcError, mlflow.MlflowException), match=message):
        loaded.predict(pd.DataFrame(data), params=params)
    with pytest.raises(XmtcError):
        Tagger(loaded.get_raw_model()).predict(pd.DataFrame(data), params)


def test_an_unknown_parameter_is_named(model: Model) -> None:
    with pytest.raises(XmtcError, match="there is no parameter 'kk'; there are: k, threshold"):
        Tagger(model).predict(["a"], {"kk": 3})
