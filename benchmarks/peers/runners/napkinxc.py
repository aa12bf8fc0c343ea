"""napkinXC: a probabilistic label tree (PLT) with its defaults: logistic loss, one tree, exact search."""

from __future__ import annotations

from typing import Any

from napkinxc.models import PLT  # type: ignore[import-not-found]

from benchmarks.peers.runners.measured import THREADS, K, Tool, run, unzipped


class NapkinXC(Tool):
    """It writes the model to disk while training, and reads it back for prediction."""

    def fit(self) -> None:
        """Training, with writing."""
        self.model = PLT(str(self.out / "model"), threads=THREADS, seed=0)
        self.model.fit(self.x, self.y)

    def finish(self) -> None:
        """Read the model back."""
        self.model.load()

    def predict(self, documents: Any) -> Any:
        """A list of (label, probability) for each document."""
        return self.model.predict_proba(documents, top_k=K)

    def answers(self, found: Any) -> tuple[Any, Any]:
        """From lists of pairs."""
        return unzipped(found)


if __name__ == "__main__":
    run(NapkinXC)
