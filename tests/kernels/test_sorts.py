"""Kernels sort in two ways only; see `xmtc.kernels` for why."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import xmtc.kernels

KERNELS = sorted(Path(xmtc.kernels.__file__).parent.glob("[!_]*.py"))  # the package itself compiles, it sorts nothing


def sorts(source: str) -> list[tuple[str, dict[str, str]]]:
    """(function, its keywords) of all calls that sort."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    named = [(getattr(call.func, "attr", getattr(call.func, "id", "")), call) for call in calls]
    return [
        (name, {word.arg or "": ast.unparse(word.value) for word in call.keywords})
        for name, call in named
        if name in ("sort", "argsort", "sorted", "unique", "lexsort")
    ]


def test_finds_sorts() -> None:
    assert sorts("np.argsort(a, kind='mergesort')\nb.sort()") == [("argsort", {"kind": "'mergesort'"}), ("sort", {})]


@pytest.mark.parametrize("file", KERNELS, ids=lambda file: file.stem)
def test_no_two_quicksorts(file: Path) -> None:
    for name, keywords in sorts(file.read_text(encoding="utf-8")):
        assert (name, keywords) in [("sort", {}), ("argsort", {"kind": "'mergesort'"})]
