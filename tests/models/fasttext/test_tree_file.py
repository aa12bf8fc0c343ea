"""Label trees from files: any shape comes out as it is, and what is wrong is named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput
from xmtc.models.fasttext.tree_file import read_tree_file

LABELS = LabelSet.of(["a", "b", "two words"])


def ancestors(parents: dict[int, int], node: int) -> list[int]:
    found = []
    while node in parents:
        node = parents[node]
        found.append(node)
    return found


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(1, 8), st.integers(0, 10**6))
def test_two_labels_meet_where_they_meet_in_the_file(
    tmp_path_factory: pytest.TempPathFactory, draws: list[int], count: int, more: int
) -> None:
    """Nodes 1 to n hang below earlier ones; each childless one gets a label, and so do some others."""
    parents = {node: draw % node for node, draw in enumerate(draws, start=1)}
    under = [node for node in range(len(draws) + 1) if node not in parents.values()]
    under += [(more + at) % (len(draws) + 1) for at in range(count)]
    names = [f"label {at}" for at in range(len(under))]
    lines = [f"{parent} {node}" for node, parent in parents.items()]
    lines += [f"{node}\tleaf{at} {names[at]}" for at, node in enumerate(under)]
    file = tmp_path_factory.mktemp("tree") / "tree.txt"
    file.write_text("\n\n".join(reversed(lines)))
    tree = read_tree_file(file, LabelSet.of(names))

    paths = []  # of each label: its nodes on every level
    for at in range(len(names)):
        path, node = [at], at
        for depth in range(tree.depth - 1, -1, -1):
            node = int(tree.parents(depth)[node])
            path.insert(0, node)
        paths.append(path)
    right = [[node, *ancestors(parents, node)][::-1] for node in under]
    for one in range(len(names)):
        for other in range(one):
            shared = sum(a == b for a, b in zip(right[one], right[other], strict=False))
            assert sum(a == b for a, b in zip(paths[one][:-1], paths[other][:-1], strict=True)) == shared


def test_a_root_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "tree.txt"
    file.write_text("-1 r\nr x a\nr y b\nr z two words\n")
    assert read_tree_file(file, LABELS).levels[0].shape == (1, 3)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("r x a\nr y b\n", r"tree\.txt: the tree has no leaf for 'two words'; each label"),
        ("", r"no leaf for 'a', 'b', 'two words'"),
        ("r x a\nr y b\nr z two words\nr u c\n", r"tree\.txt:4: 'c' is not a label of the corpus; take the line out"),
        ("r x a\nr y b\nr z two words\nr u a\n", r"tree\.txt:4: the label 'a' has two leaves, x and u"),
        ("r x a\nr y b\nr z two words\nr x\n", r"tree\.txt:4: node x is there twice, first in line 1"),
        ("r x a\nr y b\nr z two words\nr u\n", r"tree\.txt:4: node u has no label below it"),
        ("r x a\nx y b\nr z two words\n", r"tree\.txt:1: the label 'a' has nodes below it"),
        ("r x a\ns y b\nr z two words\n", r"2 nodes without a parent have others below them \['r', 's'\]"),
        ("r x a\nr y b\nu v\nv u\nu z two words\n", r"tree\.txt:\d: node \w is below itself"),
        ("r x a\nr y b\nr z two words\nu v\nv u\n", r"tree\.txt:4: node v has no label below it"),
        ("r x a\nr y b\nz\n", r"tree\.txt:3: one word, 'z'; each line is: parent node"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "tree.txt"
    file.write_text(lines)
    with pytest.raises(BadInput, match=message):
        read_tree_file(file, LABELS)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        read_tree_file(tmp_path / "none.txt", LABELS)
