"""Batch tagging: `xmtc predict 'parts/*.jsonl'` with one process and with two, and the memory of a process.

    python -m benchmarks.cluster.tagging [--data DIR] [--corpus gnd] [--model parabel] [--files 8] [--repeat 4]

Trains the model once, writes the test documents, repeated, as several files, and tags them with `--cluster local[1]`
and `local[2]`: documents a second, without the time that the same command takes for a single document.
A process's peak memory stands beside what is asked of Ray for it. Needs an idle machine with two cores.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

from benchmarks.timing import arguments, corpus, seconds
from xmtc.cli import main as xmtc
from xmtc.cli.tagging import memory_of
from xmtc.cluster.ray_executor import PROCESS
from xmtc.corpus.io import write
from xmtc.models.registry import make


class Memory(threading.Thread):
    """The largest resident set of a process of Ray Data's that tags, while the block runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._end = 0, threading.Event()

    def run(self) -> None:
        """Look ten times a second."""
        while not self._end.wait(0.1):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    if not (folder / "cmdline").read_bytes().startswith(b"ray::MapWorker"):
                        continue
                    lines = (folder / "status").read_text().splitlines()
                    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
                    self.peak = max(self.peak, *found, 0)
                except (OSError, ValueError):
                    continue  # it has ended

    def __enter__(self) -> Memory:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()


def tagged(folder: Path, pattern: str, processes: int) -> float:
    """Seconds of the command."""
    shutil.rmtree(folder / "tags", ignore_errors=True)
    files = str(folder / "parts" / pattern), "--out", str(folder / "tags" / "*.jsonl")
    command = ["predict", str(folder / "model"), *files, "--cluster", f"local[{processes}]"]

    def run() -> None:
        if xmtc(command):
            raise SystemExit(f"failed: {command}")

    return seconds(run)


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="gnd")
    parser.add_argument("--model", default="parabel")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=4)
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(options.model).fit(train).save(folder / "model")
        (folder / "parts").mkdir()
        size = -(-len(test) // options.files)
        for at in range(options.files):
            write(test[at * size : (at + 1) * size], folder / "parts" / f"part{at}.jsonl")
            content = (folder / "parts" / f"part{at}.jsonl").read_bytes()
            (folder / "parts" / f"part{at}.jsonl").write_bytes(content * options.repeat)
        write(test[:1], folder / "parts" / "one.jsonl")
        speeds = []
        for processes in (1, 2):
            nothing = tagged(folder, "one*.jsonl", processes)
            with Memory() as memory:
                spent = tagged(folder, "part*.jsonl", processes) - nothing
            speeds.append(options.repeat * len(test) / spent)
            asked = (PROCESS + memory_of(str(folder / "model"))) >> 20
            print(
                f"{processes} processes: {speeds[-1]:,.0f} documents/s; {memory.peak >> 20} MB, asked {asked}",
                flush=True,
            )
        print(f"two are {speeds[1] / speeds[0]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
