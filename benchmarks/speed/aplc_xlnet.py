"""A training step of adaptive label clusters against that of a flat linear layer; and how fast APLC-MiniLM predicts.

    python -m benchmarks.speed.aplc_xlnet [--labels 13330,131073,670091] [--steps 5] [--rounds 3] [--threads 2]
        [--documents 512]

Training: both layers score labels from the same hidden states, both lack biases and have the same loss, `binary_loss`,
that makes no matrix of targets, and multiply in the same way. The optimiser is plain SGD without momentum for both, so
that weights and gradients are all that is in memory: at 670,091 labels and width 512, 2.7 GB for the flat layer and
half of that for ours. A step is the loss, all gradients and SGD. Labels follow Zipf's law, five for each of 32
documents; both layers get the same batches and take turns.

Clusters are the paper's: two halves up to 31K labels (AmazonCat-13k, Wiki10-31k), thirds up to 501K (Wiki-500k), and
quarters above (Amazon-670k); the dimension of tails is halved each time. The hidden state has 768 numbers, and 512 with
quarters. To the parameters of equation 6 the layer adds those of its layer normalisation. Equation 14 counts
multiplications alone.

Prediction: the whole way from texts to the best 5 labels, for test documents of a corpus (`--corpus`), read by a real
encoder (`--encoder`, cut after `--tokens`). Then the output layer alone with the last of `--labels`, for as many
documents, in the paper's clusters and in the cheapest ones by equation 12 (`partition=auto`). Nothing is trained, which
changes no time but that of tails, since a tail is left out where its root is unlikely. So times are given for documents
that need no tail, all of them, or those of five labels by Zipf's law: the last is a model that knows its tails.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.scale.synthetic import zipf_draws
from benchmarks.timing import arguments, corpus, seconds, side_by_side
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.models.aplc_xlnet.adaptive_clusters import AdaptiveClusters, ClusterTargets, binary_loss, label_logits
from xmtc.models.aplc_xlnet.costs import (
    access_probabilities,
    approximate_batch_cost,
    approximate_parameter_count,
    parameter_count,
)
from xmtc.models.aplc_xlnet.label_clusters import FrequencyClusters
from xmtc.models.aplc_xlnet.model import AplcConfig
from xmtc.models.aplc_xlnet.network import AplcNetwork, best_labels, labels_of
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts
from xmtc.nn.encoders.pretrained import encoder_size, load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.nn.parallel import torch_threads

BATCH, LABELS_A_DOCUMENT, DECAY, TOP, RATE = 32, 5, 2, 5, 0.1
DOCUMENTS = 490_449  # of Amazon-670k
SURE = 50.0  # a logit whose probability is 1 for single precision


def paper_proportions(labels: int) -> list[float]:
    """Table 2 of the paper, for the nearest number of labels."""
    if labels <= 31_000:
        return [0.5, 0.5]
    return [0.33, 0.33, 0.34] if labels <= 502_000 else [0.25] * 4


def paper_width(labels: int) -> int:
    """The hidden states of these data sets, Table 3."""
    return 768 if labels <= 502_000 else 512


def zipf_targets(rng: np.random.Generator, labels: int) -> Csr:
    """One batch; a label's number is its rank."""
    rows = [np.unique(row) for row in zipf_draws(rng, labels, (BATCH, LABELS_A_DOCUMENT))]
    ends = np.cumsum([0, *map(len, rows)])
    return make_csr(np.ones(ends[-1], np.float32), np.concatenate(rows), ends, (BATCH, labels))


def zipf_frequencies(labels: int) -> NDArray[np.float64]:
    """The share of documents that has each label, if `zipf_draws` draws them."""
    ranks = np.arange(1, labels + 1)
    shares: NDArray[np.float64] = -np.expm1(LABELS_A_DOCUMENT * np.log1p(-np.log1p(1 / ranks) / np.log(labels + 1)))
    return shares


def steps(
    layer: nn.Module, loss: Callable[[Tensor, Csr], Tensor], batches: Sequence[tuple[Tensor, Csr]]
) -> Callable[[], None]:
    """Work that takes one training step with each batch."""
    optimiser = torch.optim.SGD(layer.parameters(), RATE)

    def work() -> None:
        for hidden, targets in batches:
            optimiser.zero_grad()
            loss(hidden, targets).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return work


def compare_training(clusters: FrequencyClusters, width: int, count: int, rounds: int) -> None:
    """Print the times of both layers."""
    rng, labels = np.random.default_rng(0), clusters.labels
    # The hidden state needs a gradient, too: there is an encoder below.
    batches = [(torch.randn(BATCH, width, requires_grad=True), zipf_targets(rng, labels)) for _ in range(count)]
    flat, ours = nn.Linear(width, labels, bias=False), AdaptiveClusters(clusters, width, DECAY)

    def flat_loss(hidden: Tensor, targets: Csr) -> Tensor:
        rows = np.repeat(np.arange(BATCH), np.diff(targets.indptr))
        logits = label_logits(hidden, flat.weight)
        sums = binary_loss(logits, torch.from_numpy(rows), torch.from_numpy(targets.indices.astype(np.int64)))
        return (sums / labels).mean()

    def our_loss(hidden: Tensor, targets: Csr) -> Tensor:
        losses: Tensor = ours(hidden, ClusterTargets.of(targets, clusters))
        return losses.mean()

    our_steps, flat_steps = steps(ours, our_loss, batches), steps(flat, flat_loss, batches)
    side_by_side(f"{count} training steps", our_steps, "flat layer", flat_steps, rounds)


def print_sizes(clusters: FrequencyClusters, width: int) -> None:
    """Print what the formulas say beside what is there."""
    with torch.device("meta"):
        layer = AdaptiveClusters(clusters, width, DECAY)
    sizes, flat = clusters.sizes, width * clusters.labels
    there, formula = sum(weight.numel() for weight in layer.parameters()), parameter_count(sizes, width, DECAY)
    short = approximate_parameter_count(sizes, width, DECAY)
    print(f"parameters: {there:,}, by equation 6 {formula:,}, by equation 7 {short:,.0f}")
    print(f"parameters of a flat layer: {flat:,}, {flat / there:.2f} times as many")
    for batch, whose in ((1, "document"), (BATCH, "batch")):
        access = access_probabilities(sizes, zipf_frequencies(clusters.labels), batch).tolist()
        ratio = flat / approximate_batch_cost(sizes, access, width, DECAY, batch=1)
        shares = ", ".join(f"{share:.1%}" for share in access)
        print(f"tails needed by a {whose}: {shares}; so equation 14 expects {ratio:.2f} times as fast")


def time_prediction(options: argparse.Namespace) -> float:
    """Print how many documents a second get their labels; gives the seconds that reading all of them takes."""
    train, test = corpus(options.data, options.corpus)
    texts = test[: options.documents].texts
    assert texts is not None
    settings = EncoderSettings(name=options.encoder, max_tokens=options.tokens)
    pretrained = load_pretrained(options.encoder)
    encoder = Encoder.of(pretrained, settings)
    clusters = FrequencyClusters.by_proportions(train.label_counts[train.label_counts > 0], [0.5, 0.5])
    network = AplcNetwork(encoder, clusters, AplcConfig(decay=DECAY, dropout=0.0)).eval()

    def read() -> None:
        with torch_threads() as cores:
            encoder.vectors(EncoderTexts(pretrained.tokenizer.encode(texts, options.tokens)), cores)

    def predict() -> None:  # all that the model does
        with torch_threads() as cores:
            best_labels(network, EncoderTexts(pretrained.tokenizer.encode(texts, options.tokens)), TOP, cores)

    predict()  # compiles
    whole, reading = (min(seconds(work) for _ in range(options.rounds)) for work in (predict, read))
    print(
        f"APLC-{settings.title}, {len(texts):,} documents of {options.corpus}, {clusters.labels:,} labels: "
        f"{len(texts) / whole:.1f} documents/s; the encoder alone reads {len(texts) / reading:.1f}",
        flush=True,
    )
    return reading


def time_output(options: argparse.Namespace, clusters: FrequencyClusters, whose: str, reading: float) -> None:
    """Print how long the output layer takes beside the encoder that reads the same number of documents.

    The first numbers of a hidden state are 1 or -1 and set the logits of the roots.
    """
    rng, width = np.random.default_rng(0), encoder_size(options.encoder).width
    needed = clusters.cluster_of[zipf_draws(rng, clusters.labels, (options.documents, LABELS_A_DOCUMENT))]
    layer = AdaptiveClusters(clusters, width, DECAY)
    hidden = torch.randn(options.documents, width).tanh_()
    tails = np.arange(1, 1 + clusters.tails)
    with torch.no_grad():
        layer.root.weight.copy_(SURE * torch.eye(clusters.tails, width))

    def score() -> None:
        with torch_threads() as cores:
            labels_of(layer, hidden, TOP, cores)

    print(f"{whose}: {', '.join(f'{size:,}' for size in clusters.sizes)} labels, width {width}", flush=True)
    for name, wanted in (
        ("no tail", np.zeros((options.documents, clusters.tails), bool)),
        ("its own tails", (needed[:, :, None] == tails).any(1)),
        ("all tails", np.ones((options.documents, clusters.tails), bool)),
    ):
        hidden[:, : clusters.tails] = torch.from_numpy(np.where(wanted, 1, -1).astype(np.float32))
        score()  # compiles
        spent = min(seconds(score) for _ in range(options.rounds))
        print(
            f"top {TOP}, a document needs {name}: {1000 * spent / options.documents:.3f} ms a document, "
            f"{spent / (spent + reading):.1%} of prediction",
            flush=True,
        )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--labels", default="13330,131073,670091")
    parser.add_argument("--width", type=int, help="of the hidden state (the paper's)")
    parser.add_argument("--steps", type=int, default=5, help="a round")
    parser.add_argument("--rounds", type=int, default=3, help="the best of them counts")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--corpus", default="debtags")
    parser.add_argument("--documents", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128, help="a document, at the most")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"batch {BATCH}, {options.threads} threads")
    sizes = [int(labels) for labels in options.labels.split(",")]
    for labels in sizes:
        width = options.width or paper_width(labels)
        clusters = FrequencyClusters.by_proportions(-np.arange(labels), paper_proportions(labels))
        print(f"\n{labels:,} labels in {', '.join(f'{size:,}' for size in clusters.sizes)}; width {width}", flush=True)
        print_sizes(clusters, width)
        compare_training(clusters, width, options.steps, options.rounds)
    print()
    reading = time_prediction(options)
    time_output(options, clusters, "the paper's clusters", reading)
    counts = np.rint(DOCUMENTS * zipf_frequencies(clusters.labels)).astype(np.int64)
    cheapest = FrequencyClusters.cheapest(counts, DOCUMENTS, clusters.tails, DECAY)
    time_output(options, cheapest, "the cheapest clusters", reading)


if __name__ == "__main__":
    main()
