"""labels.tsv: what it may look like, that it comes back unchanged, and what is refused."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmtc.corpus import label_file
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput

characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
# Many bars, backslashes and white space, since these are what could go wrong.
text = st.text(st.one_of(st.sampled_from("|\\\t\n\rntab "), characters), max_size=6)
key = text.filter(bool)
alternative = text.filter(lambda t: bool(t) and "\n" not in t)  # LabelSet itself separates them by newlines


@st.composite
def label_sets(draw: st.DrawFn) -> LabelSet:
    keys = draw(st.lists(key, min_size=1, max_size=8, unique=True))
    size = len(keys)
    # Parents stand before their children, so that there is no cycle.
    parents = [
        sorted(draw(st.sets(st.sampled_from(keys[:i]), max_size=3)), key=keys.index) if i else [] for i in range(size)
    ]
    return LabelSet.of(
        keys,
        names=draw(st.lists(text, min_size=size, max_size=size)),
        descriptions=draw(st.lists(text, min_size=size, max_size=size)),
        alternatives=draw(st.lists(st.lists(alternative, max_size=3), min_size=size, max_size=size)),
        parents=parents,
    )


@settings(deadline=None, max_examples=200)
@given(labels=label_sets())
def test_any_label_set_comes_back(labels: LabelSet) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labels.tsv"
        label_file.write(labels, path)
        assert label_file.read(path) == labels


def write(folder: Path, content: str) -> Path:
    path = folder / "labels.tsv"
    path.write_bytes(content.encode())
    return path


def test_only_the_label_column_is_needed_in_any_order(tmp_path: Path) -> None:
    labels = label_file.read(write(tmp_path, "\ufeffcount\tname\tlabel\r\n7\tApples\ta\r\n\r\n8\t\tb\r\n"))
    assert [labels.key(0), labels.name(0), labels.name(1)] == ["a", "Apples", "b"]
    assert len(label_file.read(write(tmp_path, "label\nx\ny"))) == 2


def test_cells_missing_at_the_end_are_empty(tmp_path: Path) -> None:
    labels = label_file.read(write(tmp_path, "label\tname\tparent\na\nb\tB\ta\n"))
    assert [labels.name(0), labels.parents_of(1)] == ["a", [0]]


def test_parents(tmp_path: Path) -> None:
    content = "label\tparent\na\t\nb\t\na|b\t\nc\ta|b\nd\tb|a\ne\ta|b|\n"
    labels = label_file.read(write(tmp_path, content))
    # "a|b" is a label itself; "b|a" is not, so these are two; and a bar at the end makes "a|b" two.
    assert [labels.parents_of(at) for at in (3, 4, 5)] == [[2], [0, 1], [0, 1]]


def test_escapes_and_unknown_escapes(tmp_path: Path) -> None:
    labels = label_file.read(write(tmp_path, "label\tname\talternatives\na\tx\\ty\\\\n\\q\tone|t\\|wo\n"))
    assert labels.name(0) == "x\ty\\n\\q"
    assert labels.alternatives(0) == ["one", "t|wo"]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("label\tparent\na\t\nb\tx\n", 3, "the parent 'x' is not a label of this file; add a line for it"),
        ("label\nA\nb\nA\n", 4, "the label 'A' occurs twice, first on line 2; remove one"),
        ("label\tname\n\tn\n", 2, "the label is empty"),
        (
            "name\tparent\n",
            1,
            "no column 'label' in the header (columns found: 'name', 'parent'); the columns are label",
        ),
        ("", 1, "no column 'label' in the header"),
        ("label\n", None, "there is no label in it"),
        ("label\tparent\na\tb\nb\tc\nc\ta\n", None, "the label hierarchy has a cycle: a > b > c > a"),
    ],
)
def test_bad_label_files(content: str, line: int | None, problem: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        label_file.read(write(tmp_path, content))
    where = f"labels.tsv:{line}: " if line is not None else "labels.tsv: "
    assert where + problem in str(caught.value)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "labels.tsv").write_bytes(b"label\na\n\xff\n")
    with pytest.raises(BadInput, match=r"labels.tsv:3: not UTF-8: byte 0xff"):
        label_file.read(tmp_path / "labels.tsv")


def test_many_labels_are_read_quickly(tmp_path: Path) -> None:
    count = 100_000
    path = write(
        tmp_path, "label\tname\tparent\n" + "".join(f"k{i}\tname {i}\t{f'k{i // 9}' * (i > 0)}\n" for i in range(count))
    )
    start = time.perf_counter()
    assert len(label_file.read(path)) == count
    assert time.perf_counter() - start < 3  # 0.4 s here; a million is to take some seconds


def test_beside(tmp_path: Path) -> None:
    assert label_file.beside(tmp_path / "docs.jsonl") is None
    assert label_file.beside("-") is None
    path = write(tmp_path, "label\na\n")
    assert label_file.beside(tmp_path / "docs.jsonl") == path
