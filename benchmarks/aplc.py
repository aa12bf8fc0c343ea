"""A training step of adaptive label clusters against that of a flat linear layer, and their share of prediction time.

    python benchmarks/aplc.py [--labels 13330,131073,670091] [--width 768] [--steps 5] [--rounds 3] [--threads 2]

Both layers score labels from the same hidden states, both lack biases and have the same loss, `binary_loss`, that makes
no matrix of targets. The optimiser is plain SGD without momentum for both, so that weights and gradients are all
that is in memory: at 670,091 labels and width 768, 4.1 GB for the flat layer and half of that for ours. A step is the
loss, all gradients and SGD. Labels follow Zipf's law, five for each of 32 documents; both layers get the same batches
and take turns.

Clusters are the paper's: two halves up to 31K labels (AmazonCat-13k, Wiki10-31k), thirds up to 501K (Wiki-500k), and
quarters above (Amazon-670k); the dimension of tails is halved each time. To the parameters of equation 6 the layer adds
those of its layer normalisation. Equation 14 counts multiplications alone.

Prediction: top 5 of 32 documents, beside a transformer of XLNet-base's size (`--layers`, `--tokens`) with random
weights. How many tails are pruned depends on what was learned, so the layer's time is given for both ends: "pruned",
where no document needs a tail, and "unpruned", where each needs all of them. A trained model is between the two.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from synthetic import zipf_draws
from timing import seconds, side_by_side
from xmtc.corpus.sparse import Csr, make_csr
from xmtc.labelspace.cluster_costs import (
    access_probabilities,
    approximate_batch_cost,
    approximate_parameter_count,
    parameter_count,
)
from xmtc.labelspace.frequency import FrequencyClusters
from xmtc.nn.adaptive_clusters import AdaptiveClusters, binary_loss

BATCH, LABELS_A_DOCUMENT, DECAY, TOP, RATE = 32, 5, 2, 5, 0.1
HEAD_WIDTH = 64  # of the transformer's attention
SURE = 50.0  # a logit whose probability is 1 for single precision


def paper_proportions(labels: int) -> list[float]:
    """Table 2 of the paper, for the nearest number of labels."""
    if labels <= 31_000:
        return [0.5, 0.5]
    return [0.33, 0.33, 0.34] if labels <= 502_000 else [0.25] * 4


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
        sums = binary_loss(flat(hidden), torch.from_numpy(rows), torch.from_numpy(targets.indices.astype(np.int64)))
        return (sums / labels).mean()

    our_steps, flat_steps = steps(ours, ours, batches), steps(flat, flat_loss, batches)
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


def time_prediction(clusters: FrequencyClusters, width: int, layers: int, tokens: int, rounds: int) -> None:
    """Print the time of top-k and its share of prediction."""
    block = nn.TransformerEncoderLayer(width, max(1, width // HEAD_WIDTH), 4 * width, batch_first=True)
    encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False).eval()
    words, hidden = torch.randn(BATCH, tokens, width), torch.randn(BATCH, width)
    layer = AdaptiveClusters(clusters, width, DECAY)
    hidden[:, 0] = 1.0  # so that the first weight of each root sets its logit
    with torch.inference_mode():
        encoding = min(seconds(lambda: encoder(words)) for _ in range(rounds))
    for name, logit in (("pruned", -SURE), ("unpruned", SURE)):
        with torch.no_grad():
            layer.root.weight[:, 0] = logit
        layer.top_k(hidden, TOP)  # compiles
        spent = min(seconds(lambda: layer.top_k(hidden, TOP)) for _ in range(rounds))
        share = spent / (spent + encoding)
        print(f"top {TOP}, {name}: {1000 * spent / BATCH:.3f} ms a document, {share:.1%} of prediction")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="13330,131073,670091")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=5, help="a round")
    parser.add_argument("--rounds", type=int, default=3, help="the best of them counts")
    parser.add_argument("--layers", type=int, default=12, help="of the transformer")
    parser.add_argument("--tokens", type=int, default=128, help="a document")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(f"width {options.width}, batch {BATCH}, {options.threads} threads, a transformer of {options.layers} layers")
    for labels in map(int, options.labels.split(",")):
        clusters = FrequencyClusters.by_proportions(-np.arange(labels), paper_proportions(labels))
        print(f"\n{labels:,} labels in {', '.join(f'{size:,}' for size in clusters.sizes)}", flush=True)
        print_sizes(clusters, options.width)
        compare_training(clusters, options.width, options.steps, options.rounds)
        time_prediction(clusters, options.width, options.layers, options.tokens, options.rounds)


if __name__ == "__main__":
    main()
