"""xmtc tags texts with the right few labels out of thousands or millions.

Six calls: `read`, `Corpus.split`, `make` and `fit`, `predict`, `evaluate`, `save` and `load`; `models()` lists the
methods. Everything loads on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xmtc.corpus.corpus import Corpus as Corpus
    from xmtc.corpus.io import read as read
    from xmtc.corpus.io import write as write
    from xmtc.corpus.labels import LabelSet as LabelSet
    from xmtc.errors import XmtcError as XmtcError
    from xmtc.evaluation.compare import compare as compare
    from xmtc.evaluation.evaluate import evaluate as evaluate
    from xmtc.evaluation.shrinking import shrink as shrink
    from xmtc.models import CallablePackage
    from xmtc.models.registry import load as load
    from xmtc.models.registry import make as make
    from xmtc.predictions import Predictions as Predictions

    models: CallablePackage

__version__ = "0.1.0"

_HOME = {
    "Corpus": "xmtc.corpus.corpus",
    "LabelSet": "xmtc.corpus.labels",
    "Predictions": "xmtc.predictions",
    "XmtcError": "xmtc.errors",
    "compare": "xmtc.evaluation.compare",
    "evaluate": "xmtc.evaluation.evaluate",
    "load": "xmtc.models.registry",
    "make": "xmtc.models.registry",
    "models": "xmtc.models",
    "read": "xmtc.corpus.io",
    "shrink": "xmtc.evaluation.shrinking",
    "write": "xmtc.corpus.io",
}
__all__ = [
    "Corpus",
    "LabelSet",
    "Predictions",
    "XmtcError",
    "compare",
    "evaluate",
    "load",
    "make",
    "models",
    "read",
    "shrink",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'xmtc' has no attribute {name!r}")
    module = importlib.import_module(_HOME[name])
    return module if name == "models" else getattr(module, name)  # that package can be called


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
