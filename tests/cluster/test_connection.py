"""Ways to a cluster, and the commands that take `--cluster`; a mistake is one line and leaves nothing behind."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import ray

import xmtc
from xmtc.cli import main
from xmtc.cluster import connect
from xmtc.corpus.corpus import Corpus
from xmtc.errors import ClusterError, ConfigError


@pytest.mark.parametrize(
    "address", ["local", "local[0]", "local[-1]", "10.0.0.1", "http://host:1", "ray://", "ray://h:x"]
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match=r"^cluster "), connect(address):
        pass


def test_nobody_at_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"ray://127.0.0.1:{port}"
    with pytest.raises(ClusterError) as error, connect(address):
        pass
    assert str(error.value).startswith(f"cluster {address}: nobody answers at 127.0.0.1:{port} (")


def test_no_cluster_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_found(**_: object) -> None:
        raise ConnectionError("Could not find any running Ray instance.\n Please ...")

    monkeypatch.setattr(ray, "init", none_found)
    with pytest.raises(ClusterError) as error, connect("auto"):
        pass
    assert str(error.value) == "cluster auto: none found; start one with `ray start --head`, or take local[N]"


def test_another_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1")

    monkeypatch.setattr(ray, "init", other)
    with pytest.raises(ClusterError) as error, connect("auto"):
        pass
    assert str(error.value) == "cluster auto: Version mismatch: The cluster was started with: Ray: 2.1"


def test_a_command_with_a_bad_address_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "model"
    assert main(["train", "none.csv", "--model", "dismec", "--out", str(out), "--cluster", "local[0]"]) == 2
    assert capsys.readouterr().err == "error: cluster local[0]: it needs one core at least\n"
    assert list(tmp_path.iterdir()) == []


def test_commands_on_a_cluster(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [" ".join(f"w{word}" for word in corpus.features[[row]].indices) for row in range(len(corpus))]  # type: ignore[index]
    tags = [[corpus.labels.key(label) for label in corpus.labels_of(row)] for row in range(len(corpus))]
    made = Corpus.of(texts, tags)
    (tmp_path / "docs").mkdir()
    for name, part in (("a", made[:100]), ("b", made[100:])):
        xmtc.write(part, tmp_path / "docs" / f"{name}.jsonl")
    (tmp_path / "docs" / "bad.jsonl").write_text("not JSON\n")
    xmtc.write(made, tmp_path / "all.jsonl")
    model = str(tmp_path / "model")
    assert (
        main(["train", str(tmp_path / "all.jsonl"), "--model", "dismec", "--out", model, "--cluster", "local[1]"]) == 0
    )
    said = capsys.readouterr().err
    assert "cluster local[1]: 1 node, 1 cores" in said
    assert "tasks, none done again" in said

    pattern, answers = str(tmp_path / "docs" / "*.jsonl"), tmp_path / "tags"
    command = ["predict", model, pattern, "--out", str(answers / "*.parquet"), "--cluster", "local[2]"]
    assert main(command) == 2, "one file is bad"
    said = capsys.readouterr().err
    assert "bad.jsonl:1: not JSON" in said
    assert "tagged 300 documents of 2 files" in said
    assert sorted(file.name for file in answers.iterdir()) == ["a.parquet", "b.parquet"]
    (tmp_path / "docs" / "bad.jsonl").unlink()
    (answers / "b.parquet").unlink()
    before = (answers / "a.parquet").stat().st_mtime_ns
    assert main(command) == 0
    assert "1 of 2 files are answered already" in capsys.readouterr().err
    assert (answers / "a.parquet").stat().st_mtime_ns == before

    results = tmp_path / "here.json", tmp_path / "there.json"
    assert (
        main(["evaluate", str(answers / "b.parquet"), str(tmp_path / "docs" / "b.jsonl"), "--json", str(results[0])])
        == 0
    )
    assert main(["evaluate", model, str(tmp_path / "docs" / "b.jsonl"), "--json", str(results[1])]) == 0
    here, there = (json.loads(file.read_text())["P@1"] for file in results)
    assert here == there
