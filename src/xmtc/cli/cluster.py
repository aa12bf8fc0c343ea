"""`--cluster`: what a command computes is done by several machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Share the work: auto (this machine's Ray cluster), ray://host:10001, local[4].",
    ),
]


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Hand what models in the block can share to a cluster; None: to nobody."""
    if address is None:
        yield
        return
    from xmtc.cluster import connect

    with connect(address):
        yield
