"""A model of ours, measured as `fasttext_cpp.py` and `libmultilabel_nn.py` measure the other programs.

python -m benchmarks.peers.runners.ours_texts FOLDER OUT
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import xmtc
from benchmarks.peers.runners.measured import K, peak_bytes, save_answers
from benchmarks.timing import corpus
from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError


def measure(
    name: str, settings: dict[str, Any], train: Corpus, test: Corpus
) -> tuple[dict[str, float], xmtc.Predictions]:
    model = xmtc.make(name, **settings)
    start = time.perf_counter()
    model.fit(train)
    trained = time.perf_counter()
    found = model.predict(test, k=K)
    return {"train s": trained - start, "predict s": time.perf_counter() - trained}, found


def main() -> None:
    folder, out = map(Path, sys.argv[1:])
    job = json.loads((folder / "job.json").read_text())
    train, test = corpus(Path(job["data"]), job["corpus"])
    train, few = train[: job["documents"]], job["warm_up"]
    measure(job["model"], {**job["ours"], **job["shorter"]}, train[:few], test[:few])
    costs, found = measure(job["model"], job["ours"], train, test)
    save_answers(out / "answers.npz", found.ids, found.scores)
    print(f"\n{json.dumps({**costs, 'peak MB': peak_bytes() / 1e6})}")


if __name__ == "__main__":
    try:
        main()
    except XmtcError as error:
        sys.exit(str(error))
