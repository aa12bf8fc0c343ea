"""fastText itself, the C++ program, measured as `ours_texts.py` measures ours.

python -m benchmarks.peers.runners.fasttext_cpp FOLDER OUT

It trains on a file, so that its time includes reading it; ours includes finding the words of texts in memory.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.runners.measured import THREADS, K, peak_bytes, save_answers

PREFIX = "__label__"


def measure(settings: dict[str, Any], train: Path, lines: list[str]) -> tuple[dict[str, float], Any]:
    fasttext = importlib.import_module("fasttext")
    start = time.perf_counter()
    model = fasttext.train_supervised(str(train), thread=THREADS, verbose=0, **settings)
    trained = time.perf_counter()
    found = model.predict(lines, k=K)
    return {"train s": trained - start, "predict s": time.perf_counter() - trained}, found


def main() -> None:
    folder, out = map(Path, sys.argv[1:])
    sys.path.pop(0)  # this folder's fasttext.py would be found before the program
    job = json.loads((folder / "job.json").read_text())
    lines = (folder / "test.txt").read_text("utf-8").split("\n")[:-1]
    measure(job["peer"], folder / "few.txt", lines[:10])
    costs, (labels, scores) = measure(job["peer"], folder / "train.txt", lines)
    ids = [[int(label.removeprefix(PREFIX)) for label in row] for row in labels]
    save_answers(out / "answers.npz", ids, [list(map(float, row)) for row in scores])
    print(f"\n{json.dumps({**costs, 'peak MB': peak_bytes() / 1e6})}")


if __name__ == "__main__":
    main()
