"""Whether all of a training step stays on the network's device, on a machine that has a CPU alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from xmtc.nn.devices import place
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.learner import Learner
from xmtc.nn.parallel import Worker


def assert_stays_on_the_device(learner: Learner[Any], documents: NDArray[np.int64] | Sequence[int]) -> None:
    """Compute a loss and its gradients on torch's device "meta"; the network has no weights any more after that.

    Tensors have no numbers there: whatever asks for one fails, and so do operations with a tensor on the CPU.
    """
    batch = learner.batch(np.asarray(documents, np.int64), np.random.default_rng(0))
    place(learner.network, torch.device("meta"))
    loss = learner.loss(batch.to(torch.device("meta")), Worker(len(documents), DropoutRng(0)))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.shape == ()
    gradients = [weight.grad for weight in learner.network.parameters() if weight.grad is not None]
    assert gradients
    assert {gradient.device.type for gradient in gradients} == {"meta"}
