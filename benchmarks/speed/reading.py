"""`xmtc.read` of gzipped JSON lines beside plain `orjson` over `gzip`.

    python -m benchmarks.speed.reading [--data DIR]

The peer only parses; we also check every document, count and index labels, and make the compact corpus. At most 1.3
times its time is allowed.
"""

from __future__ import annotations

import gzip

import orjson

from benchmarks.timing import arguments, side_by_side
from xmtc.corpus.io import read

ROUNDS = 5


def main() -> None:
    path = arguments(__doc__).parse_args().data / "tibkat" / "train.jsonl.gz"

    def peer() -> object:
        with gzip.open(path) as lines:
            return [orjson.loads(line) for line in lines]

    ratio = side_by_side(f"reading {path.name}", lambda: read(path), "orjson over gzip", peer, ROUNDS)
    print(f"that is {1 / ratio:.2f} times the peer's time")


if __name__ == "__main__":
    main()
