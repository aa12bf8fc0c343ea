"""`slice` beside `dismec` on the same dense vectors: quality and time; and time of `sleec` and `annexml`.

    python -m benchmarks.speed.slice [--data DIR] [--corpus tibkat] [--documents N] [--methods slice,dismec]

Documents become unit vectors of 300 numbers (`xmtc.models.slice.projected_vectors`, fitted on the training documents),
which both methods get as features. To reach: P@1 within a point of `dismec`, a fifth of its training time on `tibkat`,
less than 1 ms for a prediction. `--methods sleec,annexml` are trained on the texts (`sleec` on `eurlex57k`: under 20
minutes on two cores). `--documents` takes only so many training documents.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sparse import dense_csr
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import make
from xmtc.models.slice.projected_vectors import ProjectedVectors
from xmtc.text.tfidf import TfIdfSettings

SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")
DIMENSIONS = 300


def dense(train: Corpus, test: Corpus) -> tuple[Corpus, Corpus]:
    """The corpora with dense vectors in place of texts."""
    vectors, matrix = ProjectedVectors.fit(TfIdfSettings(min_chars=1), train, DIMENSIONS, seed=0)
    given = [dense_csr(np.ascontiguousarray(each)) for each in (matrix, vectors.transform(test))]
    return replace(train, texts=None, features=given[0]), replace(test, texts=None, features=given[1])


def main() -> None:
    """Train, predict and print."""
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--documents", type=int)
    parser.add_argument("--methods", default="slice,dismec")
    parser.add_argument("--held-out", action="store_true", help="a tenth of the training documents in place of test")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    if options.held_out:
        train, test = train.split(test=0.1, seed=0)
    if options.documents is not None:
        train = train[np.sort(np.random.default_rng(0).permutation(len(train))[: options.documents])]
    vectors = dense(train, test)
    for name in options.methods.split(","):
        own_train, own_test = vectors if name in ("slice", "dismec") else (train, test)
        make(name).fit(own_train[:50]).predict(own_test[:50])  # kernels are compiled
        model = make(name)
        fitting = seconds(lambda model=model, documents=own_train: model.fit(documents))  # type: ignore[misc]
        asking = seconds(lambda model=model, documents=own_test: model.predict(documents, k=5))  # type: ignore[misc]
        values = evaluate(model, own_test).values
        figures = ", ".join(f"{metric} {values[metric]:.2f}" for metric in SHOWN)
        each = 1000 * asking / len(own_test)
        print(f"{options.corpus} {name}: {figures}; training {fitting:.1f} s, {each:.3f} ms a document", flush=True)


if __name__ == "__main__":
    main()
