"""Another process compiles the kernels that `xmtc demo` needs later, while the demo does what comes first.

Numba compiles one kernel at a time in a process, and takes a core for it. So a first demo would wait for one kernel
after the other while a second core has nothing to do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

#: What `auto` tries, and the demo not before it.
METHODS = ("dismec", "fasttext", "bonsai", "parabel", "rocchio")


@contextmanager
def early_compiling() -> Iterator[None]:
    """In this block the kernels are compiled, unless some were before, or none can be kept."""
    from xmtc import kernels

    if not kernels.nothing_compiled() or kernels.cores() < 2:
        yield
        return
    nowhere = subprocess.DEVNULL
    child = subprocess.Popen([sys.executable, "-m", __name__], stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        yield
    finally:
        child.terminate()
        child.wait()


def main() -> None:
    """Train and ask each method."""
    from xmtc.cli.warm_worker import SETTINGS, documents
    from xmtc.models.registry import make

    warnings.simplefilter("ignore")
    if hasattr(os, "nice"):
        os.nice(5)
    train, test = documents(texts=True)
    make("knn").fit(train[:2]).predict(
        test[:1]
    )  # with the versions for little work, which the demo needs a little later
    for name in METHODS:
        make(name, **SETTINGS.get(name, {})).fit(train).predict(test, k=100)


if __name__ == "__main__":
    main()
