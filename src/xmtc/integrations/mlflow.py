"""MLflow: models of xmtc in its tracking and its registry, as the files of a model folder rather than a pickle.

What `save_model` and `log_model` write has the flavour `python_function`, so `mlflow.pyfunc.load_model`, `mlflow models
serve` and whatever else takes MLflow's models can predict with it: a table with a column `text` in, a table with a row
for each document out (see `Tagger.predict`). `load_model` gives the model itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from xmtc import __version__
from xmtc.corpus.frames import described, is_a
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.evaluation.evaluate import THRESHOLD_DEPTH
from xmtc.extras import require
from xmtc.models.base import Model
from xmtc.models.registry import load
from xmtc.storage import library_versions

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    from mlflow.models import ModelSignature
    from mlflow.models.model import ModelInfo

LENGTH = 5  # of a list, unless `k` says; with a threshold THRESHOLD_DEPTH
PARAMS = ("k", "threshold")
COLUMNS = ["labels", "names", "scores"]
EXAMPLE = "a text to tag"
#: Of the libraries that a model's results depend on, those that only an extra brings
NEURAL = ("torch", "transformers", "tokenizers")


class Tagger:
    """What `mlflow.pyfunc.load_model` wraps: a model that takes and gives tables."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """A row for each document, in their order and with their index: lists of labels, names and scores, best first.

        `data` is a table with a column `text`, or a list of texts. `params`: `k`, the number of labels (5, or up to 100
        with a threshold), and `threshold`, below which labels are left out.
        """
        given = dict(params or {})
        if unknown := sorted(set(given) - set(PARAMS)):
            raise XmtcError(f"there is no parameter {unknown[0]!r}; there are: {', '.join(PARAMS)}")
        k, threshold = given.get("k"), given.get("threshold")
        length = (LENGTH if threshold is None else THRESHOLD_DEPTH) if k is None else k
        top = self.model.predict(data, length)
        answer = (top if threshold is None else top.threshold(threshold)).to_frame(wide=True)[COLUMNS]
        return answer.set_index(data.index) if is_a(data, "pandas", "DataFrame", "Series") else answer

    def get_raw_model(self) -> Model:
        """The model itself, for `PyFuncModel.get_raw_model`."""
        return self.model


def save_model(model: Model, path: str | Path) -> None:
    """Write a fitted model to a new folder in MLflow's form."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise XmtcError(f"save_model takes the name of a new folder, not {described(path)}")
    if Path(path).exists() and (not Path(path).is_dir() or any(Path(path).iterdir())):
        raise XmtcError(f"{path}: exists already, and MLflow replaces no model; name a new folder")
    with _model_folder(model) as kept, _explained(path):
        _mlflow().pyfunc.save_model(path=str(path), **kept)


def log_model(model: Model, name: str, *, registered_model_name: str | None = None) -> ModelInfo:
    """Log a fitted model to the current run, if there is one; `.model_uri` of the answer is what `load_model` takes.

    `registered_model_name` also makes it a new version of this model in the registry.
    """
    if not isinstance(name, str) or not name:
        raise XmtcError(f"log_model takes a name for the model, such as 'tagger', not {described(name)}")
    with _model_folder(model) as kept, _explained(name):
        info: ModelInfo = _mlflow().pyfunc.log_model(name=name, registered_model_name=registered_model_name, **kept)
        return info


def load_model(uri: str | Path) -> Model:
    """The model at `models:/NAME/VERSION`, `runs:/RUN/NAME` or any other address of MLflow, or in a folder of its form.

    No code from there is run: it is checked like every model folder.
    """
    mlflow = _mlflow()
    if not isinstance(uri, (str, Path)) or not str(uri):
        raise XmtcError(f"load_model takes the address of a model, such as models:/tagger/1, not {described(uri)}")
    with _explained(uri):
        folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=str(uri)))
        if not (folder / "MLmodel").is_file():
            raise BadModelFolder(f"{uri}: not a model in MLflow's form; `xmtc.load` loads a model folder of xmtc")
        flavour = mlflow.models.Model.load(str(folder)).flavors.get("python_function", {})
    if flavour.get("loader_module") != __name__ or not isinstance(flavour.get("data"), str):
        raise BadModelFolder(f"{uri}: not a model of xmtc; load it with mlflow.pyfunc.load_model")
    return load(folder / flavour["data"])


def requirements(model: Model) -> list[str]:
    """What must be installed to use a model, with the versions of here: for pip.

    >>> from xmtc.corpus.corpus import Corpus
    >>> from xmtc.models.prior import Prior
    >>> [line.split("==")[0] for line in requirements(Prior().fit(Corpus.of(["a text"], [["a label"]])))][:3]
    ['xmtc[mlflow]', 'numpy', 'scipy']
    """
    neural = _is_neural(model)
    kept = [library for library in library_versions() if library != "xmtc" and (neural or library not in NEURAL)]
    mlflow = "mlflow" if any(metadata.distributions(name="mlflow")) else "mlflow-skinny"
    # Without what a builder appended to a version: 2.6.0+cpu is found nowhere under this name.
    pinned = [f"{library}=={metadata.version(library).partition('+')[0]}" for library in (*kept, mlflow, "pandas")]
    return [f"xmtc[{'mlflow,neural' if neural else 'mlflow'}]=={__version__}", *pinned]


def _load_pyfunc(path: str) -> Tagger:
    """The model in a folder, for `mlflow.pyfunc.load_model`."""
    return Tagger(load(path))


@contextmanager
def _model_folder(model: Any) -> Iterator[dict[str, Any]]:
    """The model as a folder, and what `mlflow.pyfunc` is to write beside it."""
    _mlflow()
    if not isinstance(model, Model):
        inside = "; give classifier.model_" if hasattr(model, "model_") else ""
        raise XmtcError(f"a fitted model of xmtc is needed, not {described(model)}{inside}")
    model._fitted()
    if model.training_.get("input") == "features":
        raise XmtcError(f"this {model.name} model was trained on features, but MLflow hands over texts; use model.save")
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        yield {
            "loader_module": __name__,
            "data_path": str(Path(folder) / "model"),
            "signature": _signature(),
            "input_example": [{"text": EXAMPLE}],
            "pip_requirements": requirements(model),
            "metadata": {"xmtc": {"method": model.name, "scores": str(model.score_kind)}},
        }


def _signature() -> ModelSignature:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema
    from mlflow.types.schema import Array

    kinds = (DataType.string, DataType.string, DataType.double)
    return ModelSignature(
        inputs=Schema([ColSpec(DataType.string, "text")]),
        outputs=Schema([ColSpec(Array(kind), name) for name, kind in zip(COLUMNS, kinds, strict=True)]),
        params=ParamSchema([ParamSpec("k", DataType.long, None), ParamSpec("threshold", DataType.double, None)]),
    )


def _mlflow() -> Any:
    require("xmtc.integrations.mlflow", "mlflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mlflow about a type hint of its own
        import mlflow
        import mlflow.artifacts
        import mlflow.pyfunc
    return mlflow


@contextmanager
def _explained(where: str | Path) -> Iterator[None]:
    """What MLflow, its server or the disk refuses, as an error of one line."""
    try:
        yield
    except XmtcError:
        raise
    except Exception as error:
        reason = getattr(error, "message", None) or getattr(error, "strerror", None) or error
        raise XmtcError(f"{where}: MLflow refuses: {' '.join(str(reason).split())}") from error


def _is_neural(model: Model) -> bool:
    """Whether predicting needs the extra `neural`: for the method, its vectors or a member of an ensemble."""
    members = [member for member in getattr(model, "members_", ()) if isinstance(member, Model)]
    vectors = getattr(getattr(model.config, "search", None), "vectors", "tfidf")
    return model.capabilities.extra == "neural" or vectors != "tfidf" or any(map(_is_neural, members))
