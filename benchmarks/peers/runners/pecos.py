"""PECOS: XR-Linear with its defaults (labels as sums of their documents, hierarchical k-means, 16 children a node)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pecos.xmc import Indexer, LabelEmbeddingFactory  # type: ignore[import-not-found]
from pecos.xmc.xlinear.model import XLinearModel  # type: ignore[import-not-found]

from benchmarks.peers.runners.measured import THREADS, K, Tool, run


class Pecos(Tool):
    """Clustering is part of the training."""

    def fit(self) -> None:
        """As in the documentation's example."""
        labels = LabelEmbeddingFactory.create(self.y, self.x, method="pifa", threads=THREADS)
        clusters = Indexer.gen(labels, indexer_type="hierarchicalkmeans", threads=THREADS)
        self.model = XLinearModel.train(self.x, self.y.tocsc(), C=clusters, threads=THREADS)

    def finish(self) -> None:
        """Save, and load for prediction only, which PECOS recommends for speed."""
        self.model.save(str(self.out / "model"))
        del self.model  # not twice in memory
        self.load()

    def load(self) -> None:
        """For prediction only."""
        self.model = XLinearModel.load(str(self.out / "model"), is_predict_only=True)

    def predict(self, documents: Any) -> Any:
        """A sparse matrix; a second thread would only get in the way of a single document."""
        threads = min(THREADS, documents.shape[0])
        return self.model.predict(documents, only_topk=K, beam_size=10, threads=threads)

    def answers(self, found: Any) -> tuple[Any, Any]:
        """Rows of the matrix, best first."""
        order = [np.argsort(-row.data, kind="stable") for row in found]
        pairs = list(zip(found, order, strict=True))
        return [row.indices[best] for row, best in pairs], [row.data[best] for row, best in pairs]


if __name__ == "__main__":
    run(Pecos)
