"""Whether a long training keeps the cores busy and its memory flat: one line for each epoch, of each network.

    python -m benchmarks.scale.long_training [--data DIR] [--corpus eurlex57k] [--model attentionxml]
        [--set key=value ...]

Documents are cut to 500 words, `training.epochs` is 3 unless it is set. "cores busy" is the processor time of the whole
process in an epoch, evaluation and checkpoint included, divided by the epoch's duration; memory is what the process
holds at the end of the epoch, and the most that it held within it, read twice a second.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments
from xmtc.corpus.io import read
from xmtc.models.registry import make
from xmtc.nn.trainer import Trainer
from xmtc.recipes import put


def resident() -> float:
    """GiB that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**30


class Epochs:
    """Prints a line whenever an epoch ends."""

    def __init__(self) -> None:
        self.start, self.cpu, self.most, self.network = time.perf_counter(), time.process_time(), 0.0, ""
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self) -> None:
        """Remember the most memory, until the process ends."""
        while True:
            self.most = max(self.most, resident())
            time.sleep(0.5)

    def begin(self) -> None:
        """An epoch begins now."""
        self.start, self.cpu, self.most = time.perf_counter(), time.process_time(), resident()

    def end(self, trainer: Trainer) -> None:
        """It has ended, and the next one begins."""
        spent, cpu = time.perf_counter() - self.start, time.process_time() - self.cpu
        documents = len(trainer.learner.lengths)
        print(
            f"{trainer.name:>12}  epoch {trainer.epoch}  {spent:6.0f} s  {documents / spent:6.1f} documents/s  "
            f"cores busy {cpu / spent:.2f}  memory {resident():.2f} GiB, at most {self.most:.2f}",
            flush=True,
        )
        self.begin()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="eurlex57k")
    parser.add_argument("--model", default="attentionxml")
    parser.add_argument("--set", action="append", default=[], metavar="key=value")
    options = parser.parse_args()
    settings: dict[str, Any] = {
        "words": {"max_tokens": 500, "vectors": str(options.data / "vectors" / "glove.100d.txt.gz")},
        "training": {"epochs": 3, "batch_size": 40, "evaluate_every": 500},
    }
    for pair in options.set:
        put(settings, pair)
    train = read(options.data / options.corpus, part="train")
    epochs, fit, save = Epochs(), Trainer.fit, Trainer.save

    def watched_fit(self: Trainer) -> None:
        epochs.begin()
        fit(self)

    def watched_save(self: Trainer, ended: bool) -> None:
        save(self, ended)
        epochs.end(self)

    Trainer.fit, Trainer.save = watched_fit, watched_save  # type: ignore[method-assign]
    print(f"{options.model} on {options.corpus}: {len(train):,} documents, {len(train.labels):,} labels", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make(options.model, **settings).fit(train, checkpoints=Path(folder) / "pieces")


if __name__ == "__main__":
    main()
