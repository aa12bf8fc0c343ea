"""omikuji: Parabel (its defaults) and Bonsai (as its README has it: unbalanced, 100 clusters, depth 3)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import omikuji  # type: ignore[import-not-found]
from omikuji._libomikuji import ffi, lib  # type: ignore[import-not-found]
from scipy.sparse import csr_matrix

from benchmarks.peers.runners.measured import THREADS, K, Tool, run, unzipped


class Omikuji(Tool):
    """It reads a text file, which `benchmarks/peers/linear.py` has written; reading is not timed."""

    def read(self, features: Path) -> None:
        """As the first half of omikuji.Model.train_on_data."""
        self.pool = omikuji._ThreadPoolHandle(THREADS)
        path = ffi.new("char[]", str(features / "train.txt").encode())
        data = lib.load_omikuji_data_set(path, self.pool.ptr)
        if data == ffi.NULL:
            sys.exit(f"omikuji could not read {features / 'train.txt'}")
        self.data = ffi.gc(data, lib.free_omikuji_data_set)

    def fit(self) -> None:
        """As the second half of omikuji.Model.train_on_data."""
        settings = omikuji.Model.default_hyper_param()
        if self.method == "bonsai":
            settings.cluster_balanced = False
            settings.cluster_k = 100
            settings.max_depth = 3
        self.model = omikuji.Model(lib.train_omikuji_model(self.data, settings, self.pool.ptr))

    def finish(self) -> None:
        """Save, and set the threads of prediction."""
        self.model.save(str(self.out / "model"))
        self.model.init_prediction_thread_pool(THREADS)

    def ready(self, rows: csr_matrix) -> Any:
        """Lists of (feature, value)."""
        return [list(zip(row.indices.tolist(), row.data.tolist(), strict=True)) for row in rows]

    def predict(self, documents: Any) -> Any:
        """It takes one document at a time."""
        return [self.model.predict(document, top_k=K) for document in documents]

    def answers(self, found: Any) -> tuple[Any, Any]:
        """From lists of pairs."""
        return unzipped(found)


if __name__ == "__main__":
    run(Omikuji)
