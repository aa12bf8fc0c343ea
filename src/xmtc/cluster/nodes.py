"""The machines of a cluster: which there are, what they have, and whether they have the same programs as this one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xmtc.errors import ClusterError

#: What a model's numbers depend on; other versions might compute others.
PROGRAMS = ("python", "xmtc", "numpy", "scipy", "numba")
SECONDS = 60  # that a node has to say what it has; its first process has to start for that


class Node(NamedTuple):
    """A machine that is alive."""

    id: str
    address: str
    cores: int
    memory: int  # bytes that its tasks may take together


def alive() -> list[Node]:
    """The machines of the cluster now."""
    import ray

    return [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            int(node["Resources"].get("CPU", 0)),
            int(node["Resources"].get("memory", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def check_nodes(nodes: list[Node]) -> None:
    """A ClusterError that says what differs unless all nodes have the versions of this process."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    # Made here, so that it is sent as a whole: a node without xmtc must be able to say so.
    def versions(programs: tuple[str, ...]) -> dict[str, str | None]:
        import importlib
        import platform

        found: dict[str, str | None] = {"python": platform.python_version()}
        for name in programs[1:]:
            try:
                found[name] = importlib.import_module(name).__version__
            except ImportError:
                found[name] = None
        return found

    here = versions(PROGRAMS)
    asked = {
        node: ray.remote(versions)
        .options(num_cpus=0, max_retries=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
        .remote(PROGRAMS)
        for node in nodes
    }
    for node, answer in asked.items():
        try:
            there = ray.get(answer, timeout=SECONDS)
        except GetTimeoutError:
            raise ClusterError(f"node {node.address}: no answer in {SECONDS} s; is it overloaded?") from None
        except RayError as error:  # it has gone, or cannot start a process
            first = str(error).splitlines()[0]
            raise ClusterError(f"node {node.address}: it does not answer: {first}") from error
        if different := differences(here, there):
            raise ClusterError(f"node {node.address}: {different}")


def check_shared(nodes: list[Node], paths: Sequence[str]) -> None:
    """A ClusterError that names a path which a node does not see: files are read and written where the work is done."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def unseen(paths: list[str]) -> list[str]:
        from pathlib import Path

        return [path for path in paths if not Path(path).exists()]

    for node in nodes:
        where = NodeAffinitySchedulingStrategy(node.id, soft=False)
        lost = ray.get(ray.remote(unseen).options(num_cpus=0, scheduling_strategy=where).remote(list(paths)))
        if lost:
            raise ClusterError(f"node {node.address} does not see {lost[0]}; put it where all nodes can, such as NFS")


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """What to say of a node's versions, and what to do; "" if they are those of this process.

    >>> differences({"xmtc": "0.1.0", "numpy": "2.4.6"}, {"xmtc": "0.1.0", "numpy": "2.4.5"})
    'numpy 2.4.5 there, 2.4.6 here; install the same versions on every node'
    >>> differences({"xmtc": "0.1.0"}, {"xmtc": None})
    "xmtc is not installed there; install it with: pip install 'xmtc[cluster]'"
    """
    if there["xmtc"] is None:
        return "xmtc is not installed there; install it with: pip install 'xmtc[cluster]'"
    found = [
        f"{name} {there[name] or 'missing'} there, {here[name]} here" for name in here if there[name] != here[name]
    ]
    return f"{', '.join(found)}; install the same versions on every node" if found else ""
