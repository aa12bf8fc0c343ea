"""`xmtc plan`: what a training would take on a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from contract_corpus import small_corpus

import xmtc
from xmtc.cli import main
from xmtc.cluster.planning import Plan, moved_size, plan
from xmtc.errors import OutOfMemory
from xmtc.models.registry import make


@pytest.mark.parametrize("name", ["dismec", "ppd_sparse", "proxml", "slice", "fastxml", "craftml"])
def test_a_plan_is_of_the_own_blocks(name: str) -> None:
    found = plan(make(name, **({"dimensions": 5} if name == "slice" else {})), small_corpus())
    assert found.blocks == (50 if name in ("fastxml", "craftml") else 1)
    assert found.seconds > 0
    assert found.sent > 8 * small_corpus().targets.nnz
    assert found.memory > 256 << 20


def test_memory_limits_how_many_work_at_once() -> None:
    one = Plan(blocks=10, seconds=100.0, before=0.0, sent=1 << 30, returned=0, memory=1 << 30)
    assert one.at_once(cores=8, memory=16 << 30) == 8
    assert one.at_once(cores=8, memory=4 << 30) == 3
    assert one.on(nodes=1, cores=8, memory=4 << 30) == 40.0
    assert one.on(nodes=2, cores=8, memory=16 << 30) == 10.0
    with pytest.raises(OutOfMemory, match=r"^a node needs 2.0 GiB at least"):
        one.at_once(cores=8, memory=1 << 30)


def test_the_size_of_what_moves_is_that_of_its_arrays() -> None:
    corpus = small_corpus()
    assert corpus.texts is not None
    assert moved_size(corpus.texts[:10]) < moved_size(corpus.texts) / 5, "a view moves only its own strings"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xmtc.write(small_corpus(), tmp_path / "docs.jsonl")
    assert main(["plan", str(tmp_path / "docs.jsonl"), "--nodes", "2", "--memory", "8G"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["features", "blocks", "time", "memory", "traffic"]
    assert re.search("on 2 nodes of 8 cores$", lines[2])
    assert main(["plan", str(tmp_path / "docs.jsonl"), "--model", "knn"]) == 2
    assert "knn cannot be planned; these can: dismec" in capsys.readouterr().err
    assert main(["plan", str(tmp_path / "docs.jsonl"), "--memory", "much"]) == 2
    assert "--memory much: a size was expected, such as 64G" in capsys.readouterr().err
