"""Time of a training step and peak memory of AttentionXML's last level, for more and more labels.

    python -m benchmarks.scale.attentionxml [--labels 10000,100000,1000000,3000000] [--hidden 128] [--steps 200]

A step must cost the same whatever the number of labels: the table of labels and its optimiser state are only touched
at the rows that a batch needs. Documents are made up (150 words, Zipf-distributed, five labels each), every one has
`--parents` followed nodes of 32 labels; each size has a process of its own. The run is the real training task: row-wise
Adam, clipping, weight averaging from the first epoch on and an evaluation with keeping of the best weights every 100
steps, so that all five copies of the table exist; before the first step the optimiser's state is written once from end
to end, so that all of it counts as used. The time of a step is the median; `with averaging` is the mean of all.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.sparse import make_csr

WORDS, TOKENS, DIMENSIONS, LABELS_A_DOCUMENT, LEAF = 50_000, 150, 100, 5, 32
BATCH, VALID = 32, 200


def measured(labels: int, hidden: int, steps: int, parents: int) -> tuple[float, float, float]:
    """(median milliseconds a step, mean with averaging and evaluation, peak GiB)."""
    import torch

    from xmtc.models.attentionxml.model import AttentionXmlConfig
    from xmtc.models.attentionxml.network import AttentionXmlNetwork
    from xmtc.nn.datasets import Documents
    from xmtc.nn.layers import seeded
    from xmtc.nn.level import Beam, LevelLearner
    from xmtc.nn.settings import TrainingSettings
    from xmtc.nn.trainer import Trainer, make_fabric
    from xmtc.text.token_store import TokenStore

    rng = np.random.default_rng(0)
    documents = BATCH * steps
    total = documents + VALID
    ids = np.minimum(rng.zipf(1.3, total * TOKENS), WORDS - 1).astype(np.int32)
    tokens = TokenStore(ids, np.arange(total + 1, dtype=np.int64) * TOKENS)
    nodes = -(-labels // LEAF)
    ends = np.minimum(np.arange(nodes + 1) * LEAF, labels)
    level = make_csr(np.ones(labels, np.float32), np.arange(labels), ends, (nodes, labels))
    followed = rng.integers(0, nodes, (total, parents)).astype(np.int32)
    relevant = np.minimum(
        followed[:, :LABELS_A_DOCUMENT] * LEAF + rng.integers(0, LEAF, (total, LABELS_A_DOCUMENT)), labels - 1
    )
    targets = make_csr(
        np.ones(relevant.size, np.float32),
        np.sort(relevant, 1).ravel(),
        np.arange(total + 1) * LABELS_A_DOCUMENT,
        (total, labels),
    )
    parts = []
    for rows in (np.arange(documents), np.arange(documents, total)):
        beam = Beam(followed[rows], np.zeros((len(rows), parents), np.float32))
        parts.append((Documents(tokens.take(rows), targets[rows]), beam))
    table = torch.from_numpy(rng.normal(0, 0.4, (WORDS, DIMENSIONS)).astype(np.float32))
    config = AttentionXmlConfig(hidden=hidden, layers=(hidden,), word_skip=False, logsumexp_score=False)
    with seeded(0):
        network = AttentionXmlNetwork(table, labels, config)
    learner = LevelLearner(network, level, *parts[0], *parts[1])
    settings = TrainingSettings(epochs=1, batch_size=BATCH, swa_start_epoch=0, evaluate_every=100, device="cpu")
    run = (learner, settings, 0, Checkpoints(None, {}), f"{labels:,}")
    task = Trainer(make_fabric(learner, settings, run[3], run[4]), *run)
    for weight in task.weights.values():
        moments = {key: torch.full_like(weight, 1e-12) for key in ("exp_avg", "exp_avg_sq")}
        task.optimiser.state[weight] = {"step": torch.tensor(0.0), **moments}
    del table
    times: list[float] = []
    backward, step = Trainer.backward, Trainer.step

    def timed_backward(self: Trainer, *batch: Any) -> Any:
        times.append(-time.perf_counter())
        return backward(self, *batch)

    def timed_step(self: Trainer, batches: int) -> None:
        step(self, batches)
        times[-1] += time.perf_counter()

    Trainer.backward, Trainer.step = timed_backward, timed_step  # type: ignore[assignment, method-assign]
    task.fit()
    assert task.best is not None
    assert torch.isfinite(task.best["head.rows.weight"][:1000]).all()
    settled = times[5:]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return 1000 * float(np.median(settled)), 1000 * float(np.mean(settled)), peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="10000,100000,1000000,3000000")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--parents", type=int, default=16)
    options = parser.parse_args()
    print(f"hidden {options.hidden}, batch {BATCH}, {options.parents * LEAF} candidates, {TOKENS} tokens a document")
    print(f"{'labels':>10}  {'ms a step':>9}  {'with averaging':>14}  {'of the smallest':>15}  {'peak GiB':>8}")
    first = None
    for labels in map(int, options.labels.split(",")):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            step, mean, peak = pool.submit(measured, labels, options.hidden, options.steps, options.parents).result()
        first = first or mean
        print(f"{labels:>10,}  {step:>9.0f}  {mean:>14.0f}  {mean / first:>14.2f}x  {peak:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
