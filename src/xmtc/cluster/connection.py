"""Ways to a cluster: one that runs, or processes of this machine that stand for one. Its nodes are checked first."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from xmtc.cluster.nodes import alive, check_nodes
from xmtc.cluster.ray_executor import RayExecutor
from xmtc.errors import ClusterError, ConfigError
from xmtc.extras import require
from xmtc.memory import written_size

PORT = 10001  # of Ray's door for other machines
SECONDS = 5  # that a host has to open it


@contextmanager
def connect(address: str = "auto") -> Iterator[RayExecutor]:
    """Hand the work of models in the block to a cluster.

    `auto` is the cluster that this machine belongs to (by `ray start`), `ray://host:10001` another one, `local[4]` four
    processes of this machine. A ClusterError says why there is no connection.

        with xmtc.cluster.connect("auto"):
            model = xmtc.make("dismec").fit(corpus)
    """
    require("--cluster", "cluster")
    with _session(address):
        nodes = alive()
        check_nodes(nodes)
        cores, memory = sum(node.cores for node in nodes), sum(node.memory for node in nodes)
        size = f"{_some(len(nodes), 'node')}, {_some(cores, 'core')}, {written_size(memory)} for tasks"
        print(f"cluster {address}: {size}", file=sys.stderr)
        from xmtc.executor import using  # not before: it imports what reads the number of threads

        executor = RayExecutor()
        try:
            with using(executor):
                yield executor
        finally:
            executor.close()
        print(f"cluster {address}: {executor.report}", file=sys.stderr)


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@contextmanager
def _session(address: str) -> Iterator[None]:
    """Ray, connected; what it says on the way is left out."""
    how = _how(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when Ray is imported
    import ray
    from ray.exceptions import RayError

    try:
        with _own_sigterm():
            ray.init(**how, logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, TimeoutError) as error:
        remedy = (
            "start one with `ray start --head`, or take local[N]" if address == "auto" else "is `ray start` running?"
        )
        token = "; one with a token needs RAY_AUTH_MODE=token and the same token here"
        raise ClusterError(f"cluster {address}: none found; {remedy}{token}") from error
    except (RuntimeError, RayError) as error:  # such as another version of Ray or Python, or a wrong token
        raise ClusterError(f"cluster {address}: {' '.join(str(error).split())}") from error
    try:
        with _without_notices():
            yield
    finally:
        ray.shutdown()


@contextmanager
def _without_notices() -> Iterator[None]:
    """Ray prints the log of a lost node to standard output, which is for results; why a task is done again we say."""
    from ray._private import worker

    shown = worker.print_to_stdstream
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = shown


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep what SIGTERM does: Ray would end the process at once, without keeping what can be resumed."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _how(address: str) -> dict[str, Any]:
    """What Ray is to be told of an address; an error if it is none, or nobody answers there."""
    if address == "auto":
        return {"address": "auto"}
    if found := re.fullmatch(r"local\[(\d+)\]", address):
        if not int(found[1]):
            raise ConfigError(f"cluster {address}: it needs one core at least")
        return {"address": "local", "num_cpus": int(found[1]), "include_dashboard": False}
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host = None
    if host is None or parts.scheme != "ray":
        raise ConfigError(f"cluster {address!r}: give auto, ray://host:{PORT} or local[4]")
    try:
        socket.create_connection((host, port), SECONDS).close()
    except OSError as error:
        raise ClusterError(f"cluster {address}: nobody answers at {host}:{port} ({error.strerror or error})") from error
    return {"address": address}
