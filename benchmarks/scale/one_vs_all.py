"""How long `dismec` trains on a corpus of many short texts: every label on all documents, and as it does by itself.

    python -m benchmarks.scale.one_vs_all [--data DIR] [--documents 500000] [--labels 25000] [--sample 2048]

The corpus is `gnd` repeated with noise: each copy of a document has some 18 of its words drawn at random, of which one
in ten is replaced by any word, and those of its labels that are among the most frequent ones. Held-out documents are
made the same way from its test documents. Tf-idf is not part of the times.

The time of all documents is that of --sample labels, drawn evenly from all frequencies and trained in eights of about
equal frequency as always, times the number of labels over the sample; --sample 0 trains all of them. nDCG@5 is of both,
with the same labels trained: on held-out documents that have one of the sample's labels, ranking only these. Prints
both times, their ratio (below 1: faster) and both nDCG@5. With --sampled-only the ratio is that of the sample, in which
the new form copies the documents too often. A first training on few documents compiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import arguments, corpus, seconds
from xmtc.corpus.corpus import Corpus, take_rows
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sparse import Csr, make_csr, unit_rows
from xmtc.corpus.strings import Strings
from xmtc.evaluation.evaluate import evaluate
from xmtc.kernels import cores
from xmtc.models import dismec
from xmtc.models.dismec import Dismec
from xmtc.search.label_blocks import BLOCKS
from xmtc.text.tfidf import TfIdf, TfIdfSettings
from xmtc.text.token_store import offsets_of

WORDS, FEWEST_WORDS, NOISE = 15, 3, 0.1  # a document's words on average, beside the fewest; share of noise
HELD_OUT = 5000
EIGHT = 8


def shortened(features: Csr, rows: NDArray[np.int64], idf: NDArray[np.float64], rng: np.random.Generator) -> Csr:
    """Unit rows of words drawn from rows of a matrix that are not empty, and a few from anywhere."""
    sizes = FEWEST_WORDS + rng.poisson(WORDS, len(rows))
    of_row = np.repeat(rows, sizes)
    places = features.indptr[of_row] + (rng.random(len(of_row)) * np.diff(features.indptr)[of_row]).astype(np.int64)
    anywhere = rng.random(len(places)) < NOISE
    places[anywhere] = rng.integers(0, features.nnz, int(anywhere.sum()))
    words = features.indices[places]
    counts = make_csr(np.ones(len(words), np.float32), words, offsets_of(sizes), (len(rows), features.shape[1]))
    counts.sum_duplicates()
    weights = ((1 + np.log(counts.data)) * idf[counts.indices]).astype(np.float32)
    return unit_rows(make_csr(weights, counts.indices, counts.indptr, counts.shape))


def noisy_copies(train: Corpus, test: Corpus, documents: int, labels: int, seed: int) -> tuple[Corpus, Corpus]:
    """(training corpus, held-out corpus), with features."""
    rng, tfidf = np.random.default_rng(seed), TfIdf(TfIdfSettings(min_chars=1))
    frequent = np.sort(np.argsort(-train.label_counts, kind="stable")[:labels])
    names = LabelSet(Strings.of(map(str, range(len(frequent)))))
    made = []
    test = test.with_labels(train.labels)
    for part, count in ((train, documents), (test, min(HELD_OUT, len(test)))):
        assert part.texts is not None
        features = tfidf.fit_transform(part.texts) if part is train else tfidf.transform(part.texts)
        full = np.flatnonzero(np.diff(features.indptr))
        rows = np.concatenate([rng.permutation(full) for _ in range(-(-count // len(full)))])[:count]
        targets = part.targets[:, frequent][rows]
        targets = make_csr(targets.data, targets.indices, targets.indptr, targets.shape)
        made.append(Corpus(targets, names, features=shortened(features, rows, tfidf.idf, rng), name="noisy copies"))
    return made[0], made[1]


def only_labels(whole: Corpus, labels: NDArray[np.int64], filled: bool = False) -> Corpus:
    """The corpus with some of its labels; with all documents, or only those that have one."""
    targets = whole.targets[:, labels]
    targets = make_csr(targets.data, targets.indices, targets.indptr, targets.shape)
    rows = np.flatnonzero(np.diff(targets.indptr)) if filled else slice(0, len(whole))
    assert whole.features is not None
    names = LabelSet(Strings.of(map(str, labels)))
    return Corpus(take_rows(targets, rows), names, features=take_rows(whole.features, rows), name=whole.name)


@contextmanager
def all_documents() -> Iterator[None]:
    """In this block every label is trained on all documents."""
    with patch("xmtc.models.dismec.most_positives", return_value=0):
        yield


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--labels", type=int, default=25_000)
    parser.add_argument("--sample", type=int, default=2048, help="labels trained on all documents; 0: every one")
    parser.add_argument("--sampled-only", action="store_true", help="train only the sample in the new form, too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    train, test = noisy_copies(*corpus(options.data, "gnd"), options.documents, options.labels, options.seed)
    assert train.features is not None
    counts = train.label_counts
    words = train.features.nnz / len(train)
    quartiles = np.percentile(counts, [10, 50, 90, 99])
    print(f"{train}: {words:.1f} words a document, documents a label (10, 50, 90, 99 %): {quartiles.round(0).tolist()}")

    by_frequency = np.argsort(-counts, kind="stable")
    by_frequency = by_frequency[counts[by_frequency] > 0]
    sample = by_frequency
    if options.sample and options.sample < len(by_frequency):
        eights = len(by_frequency) // EIGHT
        chosen = np.linspace(0, eights - 1, options.sample // EIGHT).astype(np.int64)
        sample = (chosen[:, None] * EIGHT + np.arange(EIGHT)).ravel()
        sample = by_frequency[sample]
    few, held_out = only_labels(train, sample), only_labels(test, sample, filled=True)
    whole = len(sample) == len(by_frequency)

    Dismec().fit(only_labels(train, sample)[:300])
    with patch("xmtc.models.dismec.most_positives", return_value=len(train)):
        Dismec().fit(only_labels(train, sample)[:300])
    dismec.LEAST_WORK = 0  # a sample of the labels is trained as all would be
    models = Dismec(), Dismec()
    # Each block copies the documents: as often for each label of the sample as in a training of all labels.
    blocks = BLOCKS if whole else max(2 * cores(), BLOCKS * len(sample) // len(by_frequency))
    with all_documents(), patch("xmtc.search.label_blocks.BLOCKS", blocks):
        old = seconds(lambda: models[0].fit(few))
    new = seconds(lambda: models[1].fit(few))
    print(f"{len(sample):,} labels: all documents {old:.1f} s, by itself {new:.1f} s, ratio {new / old:.3f}")
    ndcg = [evaluate(model, held_out).values["nDCG@5"] for model in models]
    print(f"nDCG@5 of {len(held_out):,} held-out documents: {ndcg[0]:.2f}, {ndcg[1]:.2f}, {ndcg[1] - ndcg[0]:+.2f}")
    if whole:
        return
    old_all = old * len(by_frequency) / len(sample)
    print(f"all documents, {len(by_frequency):,} labels: {old_all:.0f} s, from the sample")
    if not options.sampled_only:
        model = Dismec()
        new_all = seconds(lambda: model.fit(train))
        print(f"by itself, {len(by_frequency):,} labels: {new_all:.0f} s, ratio {new_all / old_all:.3f}")
        print(f"nDCG@5 of all labels: {evaluate(model, test).values['nDCG@5']:.2f}")


if __name__ == "__main__":
    main()
