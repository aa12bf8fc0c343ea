"""`xmtc plan`: what a training would take on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from xmtc.cli.read_options import Reading, with_reading


@with_reading
def plan(
    corpus: Annotated[str, typer.Argument(help="File, or folder with train.*.")],
    model: Annotated[str, typer.Option("--model", help="Method, such as dismec.")] = "dismec",
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Machines of the cluster.")] = 4,
    cores: Annotated[int, typer.Option("--cores", min=1, help="Cores of a machine.")] = 8,
    memory: Annotated[str, typer.Option("--memory", help="Memory of a machine: 64G.")] = "64G",
    set_: Annotated[list[str] | None, typer.Option("--set", help="Hyper-parameter key=value; may be repeated.")] = None,
    recipe: Annotated[str | None, typer.Option(help="YAML file with `model` and `set`, or a name.")] = None,
    reading: Reading = Reading(),
) -> None:
    """Estimate time, memory and traffic of a training on a cluster.

    Makes the features and trains a few blocks here, on one core, so that the figures are of this corpus and this
    machine.

    Example: xmtc plan corpus --model dismec --nodes 4 --cores 16 --memory 64G
    """
    from xmtc.cli.train import settings
    from xmtc.cluster.planning import plan as planned
    from xmtc.memory import written_size
    from xmtc.models.registry import make
    from xmtc.progress import clock

    size = bytes_in(memory)
    name, hyper_parameters = settings(None if recipe else model, set_ or [], recipe, None)
    found = planned(make(name or model, **hyper_parameters), reading.read(corpus))
    at_once, spent = found.at_once(cores, size), found.on(nodes, cores, size)
    needed = found.sent + at_once * found.memory
    machines = f"{nodes} {'node' if nodes == 1 else 'nodes'} of {at_once} {'core' if at_once == 1 else 'cores'}"
    for what, value in (
        ("features", f"{clock(found.before)}, on one machine"),
        ("blocks", f"{found.blocks:,}, together {clock(found.seconds)} on one core"),
        ("time", f"{clock(spent)} on {machines}"),
        (
            "memory",
            f"{written_size(needed)} a node: {written_size(found.sent)} shared, {written_size(found.memory)} a core",
        ),
        ("traffic", f"{written_size(found.sent)} to each node, {written_size(found.returned)} back from all"),
    ):
        print(f"{what:<9} {value}")


def bytes_in(text: str) -> int:
    """The bytes in a size such as 64G or 512M.

    >>> bytes_in("64G") == 64 << 30, bytes_in("1.5g") == 3 << 29
    (True, True)
    """
    import re

    from xmtc.errors import ConfigError

    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([MGT])(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None or not float(found[1]):
        raise ConfigError(f"--memory {text}: a size was expected, such as 64G or 512M")
    return int(float(found[1]) * (1 << {"M": 20, "G": 30, "T": 40}[found[2].upper()]))
