"""How small the folder of a model becomes, and at what loss: `xmtc.shrink` on documents held out of training.

    python -m benchmarks.scale.size [--data DIR] [--corpus tibkat] [--methods parabel,bonsai,dismec,ppd_sparse]
        [--limits loss=0.1,loss=0.2,mb=50] [--models DIR]

Each method has its defaults and learns nine tenths of the training documents; the last tenth is for the choice, the
test documents are looked at once for the folder that each limit leads to. Trained models are kept in --models, where
an earlier run's are used again. Then opening a packed and an unpacked folder is timed in turns, up to the first answer,
with and without the checks of all files, on the clock and as processor time: unpacked / packed, above 1 is faster.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.timing import arguments, corpus
from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.shrinking import shrink
from xmtc.models.base import Model
from xmtc.models.registry import load, make

SHOWN = ("P@1", "nDCG@5", "PSP@5")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--methods", default="parabel,bonsai,dismec,ppd_sparse")
    parser.add_argument("--limits", default="loss=0.1,loss=0.2,mb=50")
    parser.add_argument("--models", help="folder for the trained models")
    parser.add_argument("--turns", type=int, default=5, help="openings of each folder")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    train, valid = train.split(test=0.1, seed=0)
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.methods.split(","):
            folder = Path(options.models or scratch) / name
            if not folder.is_dir():
                make(name).fit(train).save(folder)
            model = load(folder)
            shown(name, "full", folder, model, test)
            for limit in options.limits.split(","):
                kind, value = limit.split("=")
                limits: dict[str, Any] = {kind: float(value)}
                found = shrink(model, Path(scratch) / f"{name}-{limit}", valid, **limits)
                print(found, flush=True)
                what = f"{limit}: {found.chosen.weights}, {found.chosen.share:.1%} kept"
                shown(name, what, found.path, found.model, test)
            opening_times(name, model, Path(scratch), test, options.turns)


def shown(name: str, what: str, folder: Path, model: Model, test: Corpus) -> None:
    """Print the size of a folder and the quality of its model on test documents."""
    values = evaluate(model, test).values
    figures = "  ".join(f"{metric} {values[metric]:.2f}" for metric in SHOWN)
    print(f"{name}, {what}: {size(folder):.1f} MB  test {figures}", flush=True)


def size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6


def opening_times(name: str, model: Model, scratch: Path, test: Corpus, turns: int) -> None:
    """Print how long packed and unpacked folders take from the file to the first answer, in turns."""
    packed, plain = scratch / f"{name}-packed", scratch / f"{name}-plain"
    model.save(packed)
    with patch.object(storage, "pack", lambda arrays, *_: (arrays, {})):
        model.save(plain)
    for verify in (True, False):
        times: dict[Path, list[tuple[float, float]]] = {plain: [], packed: []}
        for _ in range(turns):
            for folder, spent in times.items():
                start, busy = time.perf_counter(), time.process_time()
                load(folder, verify).predict(test[:1])
                spent.append((time.perf_counter() - start, time.process_time() - busy))
        old, new = ([median(column) for column in zip(*times[folder], strict=True)] for folder in times)
        checks = "with checks" if verify else "without checks"
        print(
            f"{name}, first answer {checks}: unpacked {size(plain):.1f} MB {old[0]:.3f} s ({old[1]:.3f} busy), "
            f"packed {size(packed):.1f} MB {new[0]:.3f} s ({new[1]:.3f} busy), "
            f"unpacked / packed {old[0] / new[0]:.2f} ({old[1] / new[1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
