"""The names of all methods; a method's module is imported when it is first used."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import Any

from xmtc.corpus.corpus import WeightKind
from xmtc.corpus.frames import described
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.models.base import Model
from xmtc.storage import opening

#: name -> module and class
CATALOGUE = {
    "prior": "xmtc.models.prior:Prior",
    "knn": "xmtc.models.knn:NearestNeighbours",
    "rocchio": "xmtc.models.rocchio:Rocchio",
    "mllm": "xmtc.models.mllm:Mllm",
    "parabel": "xmtc.models.parabel:Parabel",
    "bonsai": "xmtc.models.bonsai:Bonsai",
    "dismec": "xmtc.models.dismec:Dismec",
    "proxml": "xmtc.models.sparse_ovr:ProXml",
    "ppd_sparse": "xmtc.models.sparse_ovr:PpdSparse",
    "pd_sparse": "xmtc.models.sparse_ovr:PdSparse",
    "fastxml": "xmtc.models.forest:FastXml",
    "pfastrexml": "xmtc.models.forest:PfastreXml",
    "craftml": "xmtc.models.forest:CraftMl",
    "sleec": "xmtc.models.local_embedding:Sleec",
    "annexml": "xmtc.models.local_embedding:AnnexMl",
    "slice": "xmtc.models.slice:Slice",
    "attentionxml": "xmtc.models.attentionxml:AttentionXml",
    "xml_cnn": "xmtc.models.xml_cnn:XmlCnn",
    "bow_cnn": "xmtc.models.xml_cnn:BowCnn",
    "mlc2seq": "xmtc.models.seq2seq:Mlc2Seq",
    "sgm": "xmtc.models.seq2seq:Sgm",
    "su4mlc": "xmtc.models.seq2seq:Su4Mlc",
    "fasttext": "xmtc.models.fasttext:FastText",
    "extremetext": "xmtc.models.fasttext:ExtremeText",
    "c2ae": "xmtc.models.c2ae:C2ae",
    "rank_ae": "xmtc.models.rank_ae:RankAe",
    "treaderxml": "xmtc.models.treaderxml:TReaderXml",
    "aplc_xlnet": "xmtc.models.aplc_xlnet:AplcXlNet",
    "x_transformer": "xmtc.models.x_transformer:XTransformer",
    "lightxml": "xmtc.models.lightxml:LightXml",
    "blend": "xmtc.models.ensemble.blend:Blend",
    "auto": "xmtc.models.ensemble.auto:Auto",
}

#: The method of whoever names none; it has a `budget`, see `default_budget`.
DEFAULT = "auto"


def default_budget(documents: int) -> str:
    """How long the default method may take for a corpus of this size, if nothing is said about it.

    >>> default_budget(3_000), default_budget(300_000)
    ('5m', '30m')
    """
    return "5m" if documents <= 50_000 else "30m" if documents <= 500_000 else "2h"


def model_class(name: str) -> type[Model]:
    """The class of a method by name.

    >>> model_class("prior").name
    'prior'
    """
    if not isinstance(name, str):
        raise ConfigError(f"a model is made by its name, such as 'knn', not {described(name)}")
    if name not in CATALOGUE:
        close = difflib.get_close_matches(name.lower(), CATALOGUE, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"`xmtc models` lists the {len(CATALOGUE)} that there are"
        raise ConfigError(f"there is no model {name!r}; {hint}")
    module, class_name = CATALOGUE[name].split(":")
    found: type[Model] = getattr(importlib.import_module(module), class_name)
    return found


def weighing(kind: WeightKind) -> list[str]:
    """The methods that can be trained with weights of documents, or of labels.

    >>> "dismec" in weighing("labels"), "prior" in weighing("labels")
    (True, False)
    """
    return [name for name in CATALOGUE if kind in model_class(name).capabilities.weights]


def make(name: str, **hyper_parameters: Any) -> Model:
    """A new model by name, with its hyper-parameters; an error that says what to install if its extra is missing.

    >>> make("knn", neighbours=10).config.neighbours
    10
    """
    model = model_class(name)(**hyper_parameters)
    model.check_installed()
    return model


def load(path: str | Path, verify: bool = True, device: str = "cpu") -> Model:
    """The model in a folder, or at `hf://user/name[@revision]`, at once whatever its size, wherever it was trained.

    Small files are checked now, large ones before the first use (`verify=False`: not compared with their checksums).
    It predicts on `device`, see `Model.to`.
    """
    folder = opening(path, verify)
    if folder.kind not in CATALOGUE:
        raise BadModelFolder(f"{path}: a model of kind {folder.kind!r}, which this version of xmtc does not know")
    model = model_class(folder.kind).load(folder)
    return model if device == "cpu" else model.to(device)
