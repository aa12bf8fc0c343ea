"""The softmax of label sequences with clusters of rare labels against one over all labels: a training step of each.

    python -m benchmarks.speed.seq2seq [--labels 4193,24473,200000] [--width 256] [--rounds 3] [--threads 1]

A step is the loss of a batch of 32 documents with five labels each and the end, and all gradients, from the same random
states of a decoder; labels follow Zipf's law, none comes twice. Clusters are those of `adaptive_above=10000`, with
fewer than 20,000 labels those of half as many. Both softmaxes take turns.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from benchmarks.scale.synthetic import zipf_draws
from benchmarks.timing import arguments, side_by_side
from xmtc.models.seq2seq.output import ClusteredSoftmax, Targets, cluster_ends

DOCUMENTS, LABELS_A_DOCUMENT, ADAPTIVE_ABOVE = 32, 5, 10_000


def step(layer: ClusteredSoftmax, vectors: torch.Tensor, symbols: torch.Tensor, masked: bool) -> None:
    """The loss of a batch and its gradients."""
    layer.zero_grad()
    targets = Targets.of(symbols, layer.ends)
    layer.losses(vectors, targets, targets.emitted if masked else None).mean().backward()  # type: ignore[no-untyped-call]


def main() -> None:
    """Compare."""
    parser = arguments(__doc__)
    parser.add_argument("--labels", default="4193,24473,200000")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    for labels in map(int, options.labels.split(",")):
        drawn = [np.unique(row) for row in zipf_draws(rng, labels, (DOCUMENTS, LABELS_A_DOCUMENT))]
        rows = [[*row, labels, *[-1] * (LABELS_A_DOCUMENT - len(row))] for row in drawn]
        symbols = torch.tensor(np.array(rows, np.int64))
        vectors = torch.randn(*symbols.shape, options.width)
        clusters = cluster_ends(labels, min(ADAPTIVE_ABOVE, labels // 2))
        ours, whole = ClusteredSoftmax(options.width, clusters), ClusteredSoftmax(options.width, (labels,))
        for masked in (False, True):
            each = [partial(step, layer, vectors, symbols, masked) for layer in (ours, whole)]
            for work in each:
                work()
            what = f"{labels:,} labels, clusters up to {clusters}{', masked' if masked else ''}"
            side_by_side(what, each[0], "one softmax", each[1], options.rounds)


if __name__ == "__main__":
    main()
