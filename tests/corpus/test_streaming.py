"""Reading needs little more memory than the corpus that it makes, whatever the size of the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import resource, sys
from xmtc.corpus.io import read
import xmtc.corpus.formats.{format}

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

open("{warm}", "w").write(open("{path}").readline() + open("{path}").readlines(4000)[-1])
read("{warm}", format="{format}")
before = peak()
corpus = read("{path}", format="{format}")
after = peak()
matrices = [m for m in (corpus.targets, corpus.features) if m is not None]
size = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices)
for column in (corpus.texts, corpus.ids):
    if column is not None:
        size += column.nbytes + 8 * (len(column) + 1)
print(len(corpus), size, after - before)
"""
LINES = 300_000
CONSTANT = 12_000_000  # blocks, batches and the dictionary of labels


def line(format: str, at: int) -> str:
    words = f"document {at} " + "word " * 20
    return {
        "jsonl": f'{{"id": "{at}", "text": "{words}", "labels": ["l{at % 999}", "l{at % 77}"]}}\n',
        "table": f"{at},{words},l{at % 999}|l{at % 77}\n",
        "fasttext": f"__label__l{at % 999} __label__l{at % 77} {words}\n",
        "xmc": f"{at % 999},{at % 77} {at % 9}:0.5 {at % 999 + 10}:1.25 2000:3\n",
    }[format]


@pytest.mark.parametrize("format", ["jsonl", "table", "fasttext", "xmc"])
def test_memory(format: str, tmp_path: Path) -> None:
    path, warm = tmp_path / "docs", tmp_path / "warm"
    lines = LINES if format == "jsonl" else LINES // 3
    with path.open("w") as out:
        out.write("id,text,labels\n" if format == "table" else "")
        out.writelines(line(format, at) for at in range(lines))
    code = CHILD.format(format=format, path=path, warm=warm)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    documents, size, used = map(int, done.stdout.split())
    assert documents == lines
    assert used < 1.5 * size + CONSTANT
