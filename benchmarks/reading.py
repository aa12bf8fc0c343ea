"""How long `xmtc.read` takes beside plain `orjson` over `gzip`: best of five, interleaved.

    python benchmarks/reading.py [FILE.jsonl.gz]

The peer only parses; we also check every document and make the compact corpus. At most 1.3 times its time is allowed.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from xmtc.corpus.formats import read

DEFAULT = Path(__file__).parents[2] / "shared" / "data" / "tibkat" / "train.jsonl.gz"
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    result = work()
    spent = time.perf_counter() - start
    del result  # freeing the documents is not reading
    return spent


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT

    def peer() -> object:
        with gzip.open(path) as lines:
            return [orjson.loads(line) for line in lines]

    pairs = [(seconds(lambda: read(path)), seconds(peer)) for _ in range(ROUNDS)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    print(f"{path.name}: xmtc {ours:.3f} s, orjson over gzip {theirs:.3f} s, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
