"""What the seam to a cluster costs: `dismec` on `tibkat` by the threads of this process, and by Ray's processes.

    python -m benchmarks.cluster.seam [--data DIR] [--corpus tibkat] [--model dismec] [--rounds 3]

Prints the seconds of `fit` with one thread and with one process (their ratio is the cost of the seam), and with two of
each. Connecting, and the first training, which compiles and loads kernels in each process, are not part of the times:
run it on an idle machine with two cores. Tf-idf is made here in all cases and not part of them either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

from benchmarks.timing import arguments, corpus, seconds
from xmtc import executor
from xmtc.cluster import connect
from xmtc.corpus.corpus import Corpus
from xmtc.models.registry import make
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

SMALL = 2000  # documents of the training that only compiles


@contextmanager
def workers(kind: str, count: int) -> Iterator[None]:
    """So many threads, or processes, for the blocks of a training."""
    with ExitStack() as stack:
        if kind == "processes":
            stack.enter_context(connect(f"local[{count}]"))
        elif count == 1:
            stack.enter_context(
                patch.object(executor, "in_threads", lambda work, items: [work(item) for item in items])
            )
        yield


def best(kind: str, count: int, model: str, train: Corpus, rounds: int) -> float:
    """The shortest time of several."""
    with workers(kind, count):
        make(model).fit(train[:SMALL])
        found = min(seconds(lambda: make(model).fit(train)) for _ in range(rounds))
    print(f"{model}, {count} {kind}: {found:.2f} s", flush=True)
    return found


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--model", default="dismec")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    train, _ = corpus(options.data, options.corpus)
    features = DocumentVectors(TfIdfSettings(min_chars=1)).fit_transform(train)
    train = replace(train, texts=None, features=features)
    times = {
        (kind, count): best(kind, count, options.model, train, options.rounds)
        for count in (1, 2)
        for kind in ("threads", "processes")
    }
    print(f"cost of the seam: {times['processes', 1] / times['threads', 1] - 1:+.1%}")
    print(f"two processes are {times['processes', 1] / times['processes', 2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
