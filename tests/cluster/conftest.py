"""A cluster of three nodes, as processes of this machine, and a corpus with enough labels for several blocks."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.executor import LocalExecutor, using

#: Three nodes on two cores beside other tests answer too late now and then: `make test-cluster` runs these alone.
collect_ignore = [] if os.environ.get("XMTC_CLUSTER_TESTS") else ["test_three_nodes.py"]

NODE = {"num_cpus": 1, "memory": 2 << 30, "object_store_memory": 80 << 20, "include_dashboard": False}


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """300 documents, 60 labels, as features."""
    rng = np.random.default_rng(0)
    owned = np.sort(np.array([rng.choice(60, 3, replace=False) for _ in range(300)]), axis=1)
    targets = label_matrix(owned.ravel(), np.arange(0, 901, 3), 60)
    words = rng.random((60, 400)) * (rng.random((60, 400)) < 0.05)
    features = targets.toarray() @ words + 0.1 * rng.random((300, 400)) * (rng.random((300, 400)) < 0.05)
    labels = LabelSet.of([f"label {at}" for at in range(60)])
    return Corpus(targets, labels, features=csr_array(features.astype(np.float32)), name="made")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The machines; a test that removes one adds another."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}  # also in those that tests start
    from ray.cluster_utils import Cluster

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        door = free.getsockname()[1]
    made = Cluster(initialize_head=True, head_node_args={**NODE, "ray_client_server_port": door})
    made.door = f"ray://127.0.0.1:{door}"
    try:
        for _ in range(2):
            made.add_node(**NODE)
        yield made
    finally:
        made.shutdown()


@pytest.fixture(scope="session")
def node() -> dict[str, Any]:
    """What each machine has."""
    return NODE


@pytest.fixture(scope="module")
def executor(cluster: Any) -> Iterator[Any]:
    """The work of models goes to three nodes only where a test says `using(executor)`."""
    from xmtc.cluster import connect

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", cluster.address)
        with connect("auto") as found, using(LocalExecutor()):
            yield found
