"""Our own models, on the same matrices and measured in the same way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

import xmtc
from benchmarks.peers.runners.measured import K, Tool, run
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.errors import XmtcError


class Ours(Tool):
    """A model of the catalogue with its defaults, or as in `parabel:trees=1`."""

    def read(self, features: Path) -> None:
        """As a corpus with features instead of texts."""
        super().read(features)
        labels = LabelSet.of(map(str, range(self.y.shape[1])))
        targets = label_matrix(self.y.indices, self.y.indptr, len(labels))
        self.corpus = Corpus(targets, labels, features=csr_array(self.x), name=str(features))

    def fit(self) -> None:
        """All defaults but those that are named, seed 0."""
        name, _, settings = self.method.partition(":")
        changed = {key: int(value) for key, value in (pair.split("=") for pair in settings.split(",") if pair)}
        self.model = xmtc.make(name, **changed).fit(self.corpus)

    def finish(self) -> None:
        """Save the model."""
        self.model.save(self.out / "model")

    def load(self) -> None:
        """As users do."""
        self.model = xmtc.load(self.out / "model")

    def ready(self, rows: csr_matrix) -> Any:
        """A corpus without labels."""
        none = label_matrix([], np.zeros(rows.shape[0] + 1, np.int64), len(self.corpus.labels))
        return Corpus(none, self.corpus.labels, features=csr_array(rows))

    def predict(self, documents: Any) -> Any:
        """As users call it."""
        return self.model.predict(documents, k=K)

    def answers(self, found: Any) -> tuple[Any, Any]:
        """They are arrays already."""
        return found.ids, found.scores


if __name__ == "__main__":
    try:
        run(Ours)
    except XmtcError as error:
        sys.exit(str(error))
