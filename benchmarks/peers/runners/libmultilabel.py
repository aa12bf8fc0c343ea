"""LibMultiLabel: its linear tree with its defaults (k-means with 100 clusters, one tree, LIBLINEAR's squared hinge)."""

from __future__ import annotations

from typing import Any

import libmultilabel.linear as linear  # type: ignore[import-not-found]
import numpy as np

from benchmarks.peers.runners.measured import THREADS, K, Tool, run

BATCH = 256  # of its command line: it makes a dense matrix of documents x labels


class LibMultiLabel(Tool):
    """It gives scores of all labels, from which the best are picked here."""

    def fit(self) -> None:
        """One tree."""
        np.random.seed(0)  # noqa: NPY002 - that is where it takes its random numbers from
        self.model = linear.train_tree(self.y, self.x, options=f"-m {THREADS}", verbose=False)

    def finish(self) -> None:
        """It saves a pickle."""
        linear.save_pipeline(str(self.out / "model"), None, self.model)

    def predict(self, documents: Any) -> Any:
        """(labels, scores) of each batch."""
        numbers = np.arange(self.y.shape[1])
        found = []
        for start in range(0, documents.shape[0], BATCH):
            scores = linear.predict_values(self.model, documents[start : start + BATCH])
            found.append(linear.get_topk_labels(scores, numbers, top_k=K))
        return found

    def answers(self, found: Any) -> tuple[Any, Any]:
        """The batches joined."""
        return np.concatenate([ids for ids, _ in found]), np.concatenate([scores for _, scores in found])


if __name__ == "__main__":
    run(LibMultiLabel)
