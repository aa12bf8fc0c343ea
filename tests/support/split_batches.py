"""Whether a learner's loss and gradients are the same however a batch is split over threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmtc.nn.batching import Batch
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Worker, torch_threads

SEED, THREADS = 7, (1, 2, 4)


def assert_same_in_threads(
    learner: Learner[Any], documents: NDArray[np.int64] | Sequence[int], tolerance: float = 1e-6
) -> None:
    """Compare 1, 2 and 4 threads, as `Trainer.backward` has them; there may be fewer cores."""
    chosen = np.asarray(documents, np.int64)
    batch = learner.batch(chosen, np.random.default_rng(0))
    expected = loss_and_gradients(learner, batch, len(chosen), THREADS[0])
    assert expected["the loss"] != 0, "no loss"
    assert any(bool(each.any()) for name, each in expected.items() if name != "the loss"), "no gradient"
    for threads in THREADS[1:]:
        found = loss_and_gradients(learner, batch, len(chosen), threads)
        message = f"{threads} threads: {{}}".format  # torch says which weight it is
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance, msg=message)


def loss_and_gradients(learner: Learner[Any], batch: Batch, documents: int, threads: int) -> dict[str, Tensor]:
    """Those of a whole batch, by the names of the weights; zeros for weights that had nothing to do."""
    weights = {name: weight for name, weight in learner.network.named_parameters() if weight.requires_grad}
    threads, before = min(threads, documents), torch.get_num_threads()
    torch.set_num_threads(threads)
    learner.network.zero_grad()
    try:
        with torch_threads() as cores:
            if threads > 1:
                loss = cores.backward(
                    lambda part, worker: learner.loss(batch.part(part), worker),
                    list(weights.values()),
                    documents,
                    threads,
                    SEED,
                )
            else:
                loss = learner.loss(batch, Worker(documents, DropoutRng(SEED)))
                loss.backward()  # type: ignore[no-untyped-call]
    finally:
        torch.set_num_threads(before)
    gradients = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad for name, weight in weights.items()
    }
    learner.network.zero_grad()
    dense = {name: gradient.to_dense() if gradient.is_sparse else gradient for name, gradient in gradients.items()}
    return {"the loss": loss.detach()} | dense
