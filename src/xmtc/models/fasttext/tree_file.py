"""A label tree from a file, in the form of the extremeText program: `parent node` or, for a leaf, `parent node label`.

A line for each node, its parts separated by spaces or tabs; nodes are called by any words, and a label by its key,
which is the rest of the line. The root has no line, or one with the parent -1. Blank lines do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import BadLine, Source, decode
from xmtc.errors import BadInput
from xmtc.labelspace.tree import LabelTree, tree_of_paths

NO_PARENT = "-1"
FORM = "each line is: parent node, or for a leaf: parent node label"
LISTED = 3  # labels that an error names


def read_tree_file(path: str | Path, labels: LabelSet) -> LabelTree:
    """The tree in a file, whose leaves must be exactly these labels.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    ...     lines = file.write("0 1 a\\n0 2\\n2 3 b\\n2 4 c\\n")
    ...     file.flush()
    ...     tree = read_tree_file(file.name, LabelSet.of(["a", "b", "c"]))
    >>> [[tree.children(depth, node).tolist() for node in range(2)] for depth in (1,)], tree.depth
    ([[[0], [1, 2]]], 2)
    """
    parents, lines, leaves = _read(path, labels)
    missing = [labels.key(at) for at in range(len(labels)) if at not in leaves]
    if missing:
        more = f" and {len(missing) - LISTED:,} more" if len(missing) > LISTED else ""
        listed = ", ".join(map(repr, missing[:LISTED])) + more
        raise BadInput(path, None, f"the tree has no leaf for {listed}", "each label of the corpus needs one")
    inner = set(parents.values())
    for at, node in leaves.items():
        if node in inner:
            problem = f"the label {labels.key(at)!r} has nodes below it"
            raise BadInput(path, lines[node], problem, "give it a leaf of its own under this node")
    roots = sorted(inner - parents.keys())
    if len(roots) != 1:
        problem = f"{len(roots)} nodes without a parent have others below them {roots[:LISTED]}"
        raise BadInput(path, None, problem, "a tree has one root")
    paths = [_path(leaves[at], parents) for at in range(len(labels))]
    for nodes in paths:
        if len(nodes) > len(parents):
            raise BadInput(path, lines[nodes[0]], f"node {nodes[0]} is below itself", "mend its parent")
    reached = {node for nodes in paths for node in nodes}
    lost = [node for node in parents if node not in reached]
    if lost:
        raise BadInput(path, lines[lost[0]], f"node {lost[0]} has no label below it", FORM)
    depth = max(map(len, paths))
    # A leaf that lies higher than others is carried down by nodes of its own.
    return tree_of_paths([tuple(nodes[:-1] + nodes[-1:] * (depth - len(nodes))) for nodes in paths])


def _read(path: str | Path, labels: LabelSet) -> tuple[dict[str, str], dict[str, int], dict[int, str]]:
    """(the parent of each node, its line, the node of each label)."""
    parents: dict[str, str] = {}
    lines: dict[str, int] = {}
    leaves: dict[int, str] = {}
    source = Source(path)
    for number, raw in source.lines():
        try:
            parts = decode(raw).split(maxsplit=2)
            if not parts:
                continue
            if len(parts) < 2:
                raise BadLine(f"one word, {parts[0]!r}", FORM)
            parent, node = parts[:2]
            if node in lines:
                raise BadLine(f"node {node} is there twice, first in line {lines[node]}", "a node has one parent")
            lines[node] = number
            if parent != NO_PARENT:
                parents[node] = parent
            if len(parts) == 3:
                key = parts[2].strip()
                at = labels.index(key)
                if at < 0:
                    raise BadLine(f"{key!r} is not a label of the corpus", "take the line out, or mend the key")
                if at in leaves:
                    raise BadLine(f"the label {key!r} has two leaves, {leaves[at]} and {node}", "keep one")
                leaves[at] = node
        except BadLine as error:
            raise BadInput(source.path, number, error.problem, error.remedy) from error
    return parents, lines, leaves


def _path(node: str, parents: Mapping[str, str]) -> list[str]:
    """The nodes from below the root down to this one; of a circle, each node once."""
    found: list[str] = []
    while node in parents and len(found) <= len(parents):
        found.append(node)
        node = parents[node]
    return found[::-1]
