"""How long the sparse classifiers train beside `dismec` on the same vectors, and how good they are on test documents.

    python -m benchmarks.speed.sparse_ovr [--data DIR] [--corpus tibkat] [--methods ppd_sparse,proxml,pd_sparse]

Each method has its defaults, and all cores (NUMBA_NUM_THREADS=1: one). Tf-idf is computed before. A first training
on few documents compiles. Prints the time of `dismec`, that of each method, and the ratio: above 1 is faster.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus
from xmtc.evaluation.evaluate import evaluate
from xmtc.models.registry import make
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

SHOWN = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5")


def trained(name: str, train: Corpus, test: Corpus) -> float:
    """Seconds of training; prints them with the quality."""
    make(name).fit(train[:200])
    model = make(name)
    spent = seconds(lambda: model.fit(train))
    values = evaluate(model, test).values
    figures = "  ".join(f"{metric} {values[metric]:.2f}" for metric in SHOWN)
    print(f"{name}: {spent:.1f} s  {figures}", flush=True)
    return spent


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--corpus", default="tibkat")
    parser.add_argument("--methods", default="ppd_sparse,proxml,pd_sparse")
    options = parser.parse_args()
    train, test = corpus(options.data, options.corpus)
    vectors = DocumentVectors(TfIdfSettings(min_chars=1))
    train = replace(train, texts=None, features=vectors.fit_transform(train))
    test = replace(test, texts=None, features=vectors.transform(test))
    peer = trained("dismec", train, test)
    for name in options.methods.split(","):
        ours = trained(name, train, test)
        print(f"{name}: {peer / ours:.2f} times as fast as dismec", flush=True)


if __name__ == "__main__":
    main()
