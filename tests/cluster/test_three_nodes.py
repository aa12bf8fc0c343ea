"""Three nodes: blocks come back in their places, what is lost is done again, and models are the same to the bit."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmtc
from xmtc.cli import main
from xmtc.cluster import RayExecutor, nodes
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadInput, ClusterError, OutOfMemory
from xmtc.executor import using
from xmtc.models import shared_prediction
from xmtc.models.registry import make
from xmtc.storage import read_arrays

# What workers run is written within tests: it is sent as a whole, for they cannot import this file.

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # logs that Ray's test helper opens

MODELS: list[tuple[str, dict[str, Any]]] = [
    ("dismec", {}),
    ("ppd_sparse", {}),
    ("proxml", {}),
    ("parabel", {"trees": 2, "max_leaf": 8}),
    ("bonsai", {"trees": 1, "arity": 4, "max_leaf": 4}),
    ("fastxml", {"trees": 4}),
    ("craftml", {"trees": 4}),
    ("slice", {"dimensions": 20}),
]


class Killing(RayExecutor):
    """Calls `kill` when the first block is done."""

    def __init__(self, kill: Callable[[], None]) -> None:
        super().__init__()
        self._kill: Callable[[], None] | None = kill

    def map(self, task: Any, blocks: Any, done: Any, *, memory: int = 0) -> None:
        def kill_then_done(at: int, result: Any) -> None:
            if self._kill is not None:
                self._kill()
                self._kill = None
            done(at, result)

        super().map(task, blocks, kill_then_done, memory=memory)


def arrays_of(name: str, settings: dict[str, Any], corpus: Corpus, folder: Path) -> str:
    """A hash of all arrays that the trained model saves."""
    make(name, **settings).fit(corpus).save(folder)
    return arrays_in(folder)


def arrays_in(folder: Path) -> str:
    """A hash of all arrays of a model."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        for key, array in sorted(read_arrays(file).items()):
            found.update(
                f"{file.name} {key} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes()
            )
    return found.hexdigest()


def test_commands_on_a_cluster(
    cluster: Any, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goes first, for a process can have one connection only, and later tests share theirs."""
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    assert corpus.features is not None
    texts = [" ".join(f"w{word}" for word in corpus.features[[row]].indices) for row in range(len(corpus))]
    tags = [[corpus.labels.key(label) for label in corpus.labels_of(row)] for row in range(len(corpus))]
    made = Corpus.of(texts, tags)
    docs, answers, model = tmp_path / "docs", tmp_path / "tags", str(tmp_path / "model")
    docs.mkdir()
    xmtc.write(made, tmp_path / "all.jsonl")
    xmtc.write(made[:100], docs / "a.jsonl")
    xmtc.write(made[100:], docs / "b.jsonl")
    (docs / "bad.jsonl").write_text("not JSON\n")
    train = ["train", str(tmp_path / "all.jsonl"), "--model", "dismec", "--out"]
    # In a process of its own: Ray has this process know one cluster by its token, and the tests have started another.
    command = [sys.executable, "-m", "xmtc", *train, model, "--cluster", "local[1]"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{model}\n", "what Ray has to say does not mix with results"
    assert "cluster local[1]: 1 node, 1 core, " in ran.stderr
    assert "cluster local[1]: 8 tasks, none done again" in ran.stderr
    assert main([*train, str(tmp_path / "here")]) == 0
    assert main([*train, str(tmp_path / "there"), "--cluster", cluster.door]) == 0
    assert arrays_in(tmp_path / "there") == arrays_in(tmp_path / "here") == arrays_in(Path(model))

    command = ["predict", model, str(docs / "*.jsonl"), "--out", str(answers / "*.parquet"), "--cluster", "auto"]
    assert main(command) == 2, "one file is bad"
    said = capsys.readouterr().err
    assert "bad.jsonl:1: not JSON" in said
    assert "tagged 300 documents of 2 files" in said
    assert sorted(file.name for file in answers.iterdir()) == ["a.parquet", "b.parquet"]
    assert main(["predict", model, str(docs / "b.jsonl"), "--out", str(tmp_path / "b.parquet")]) == 0
    assert (tmp_path / "b.parquet").read_bytes() == (answers / "b.parquet").read_bytes()


@pytest.mark.parametrize(("name", "settings"), MODELS, ids=[name for name, _ in MODELS])
def test_the_same_model_as_here(
    executor: RayExecutor, corpus: Corpus, name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    here = arrays_of(name, settings, corpus, tmp_path / "here")
    before = executor.report.tasks
    with using(executor):
        assert arrays_of(name, settings, corpus, tmp_path / "there") == here
    assert executor.report.tasks - before > 1


@pytest.mark.parametrize("name", ["dismec", "parabel", "bonsai", "fastxml"])
def test_the_same_model_when_a_node_is_lost(
    executor: RayExecutor, cluster: Any, node: dict[str, Any], corpus: Corpus, name: str, tmp_path: Path
) -> None:
    settings = dict(MODELS)[name]
    here = arrays_of(name, settings, corpus, tmp_path / "here")
    lost = next(iter(cluster.worker_nodes))
    killing = Killing(lambda: cluster.remove_node(lost, allow_graceful=False))
    try:
        with using(killing):
            assert arrays_of(name, settings, corpus, tmp_path / "there") == here
        assert killing._kill is None
    finally:
        cluster.add_node(**node)
        cluster.wait_for_nodes()  # until the lost one is known to be lost


def test_a_stopped_training_goes_on(executor: RayExecutor, corpus: Corpus, tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    whole = make("dismec").fit(corpus)
    with pytest.raises(KeyboardInterrupt), using(Killing(stop)):
        make("dismec").fit(corpus, checkpoints=tmp_path / "pieces")
    some = make("dismec").fit(corpus, checkpoints=tmp_path / "pieces")
    before = executor.report.tasks
    (tmp_path / "pieces" / "block3.safetensors").unlink()
    with using(executor):
        again = make("dismec").fit(corpus, checkpoints=tmp_path / "pieces")
    assert executor.report.tasks - before == 1
    for model in (some, again):
        np.testing.assert_array_equal(model.index_.columns.data, whole.index_.columns.data)  # type: ignore[attr-defined]


def test_each_block_comes_back_in_its_place(executor: RayExecutor) -> None:
    found: dict[int, Any] = {}
    large = np.arange(100_000)

    def add(block: int) -> tuple[int, bool]:
        return int(large[block] + 1), bool(large.flags.writeable)

    executor.map(add, range(1000), found.__setitem__)
    assert found == {at: (at + 1, False) for at in range(1000)}
    executor.map(add, [], found.__setitem__)


def test_what_blocks_share_is_sent_once(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    sent: list[Any] = []
    put = ray.put

    def counted(value: Any) -> Any:
        sent.append(1)
        return put(value)

    monkeypatch.setattr(ray, "put", counted)

    def double(block: int) -> int:
        return 2 * block

    for _ in range(3):
        executor.map(double, [1, 2], lambda at, result: None)
    assert len(sent) == 1
    kept = len(executor._sent)
    del double
    gc.collect()
    assert len(executor._sent) < kept, "its copy in the object store can go"


def test_an_error_of_a_block_is_raised_here(executor: RayExecutor) -> None:
    def refuse(block: int) -> None:
        raise BadInput("docs.csv", block, "no text", "mend it")

    with pytest.raises(BadInput, match=r"^docs.csv:3: no text; mend it$"):
        executor.map(refuse, [3], lambda at, result: None)


def test_a_block_whose_process_ends_is_done_again(
    executor: RayExecutor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ended"

    def end_once(block: int) -> int:
        if block == 1 and not mark.exists():
            mark.touch()
            os._exit(1)
        return block

    found: dict[int, int] = {}
    executor.map(end_once, range(3), found.__setitem__)
    assert found == {0: 0, 1: 1, 2: 2}
    assert executor.report.again["its process ended"] == 1
    assert "cluster: a task is done again because its process ended\n" in capsys.readouterr().err
    assert "1 because its process ended" in str(executor.report)


def test_a_block_that_always_ends_its_process_is_given_up(executor: RayExecutor) -> None:
    def end(block: int) -> None:
        os._exit(1)

    with pytest.raises(ClusterError) as error:
        executor.map(end, [1], lambda at, result: None)
    assert str(error.value) == "a task was tried 4 times and lost each time, at last because its process ended"


def test_what_ran_on_a_lost_node_is_done_again(
    executor: RayExecutor, cluster: Any, node: dict[str, Any], tmp_path: Path
) -> None:
    def slow(block: int) -> int:
        import ray

        if block:
            (tmp_path / ray.get_runtime_context().get_node_id()).touch()
            time.sleep(2)
        return block

    def kill_one_that_works() -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for lost in cluster.worker_nodes:
                if (tmp_path / lost.node_id).exists():
                    cluster.remove_node(lost, allow_graceful=False)
                    return
            time.sleep(0.05)
        raise AssertionError("no node has begun")

    killing = Killing(kill_one_that_works)
    found: dict[int, int] = {}
    try:
        killing.map(slow, range(6), found.__setitem__)
    finally:
        cluster.add_node(**node)
        cluster.wait_for_nodes()  # until the lost one is known to be lost
    assert found == {at: at for at in range(6)}
    assert killing.report.again.total() == 1


def test_a_block_out_of_memory_gets_more(executor: RayExecutor) -> None:
    def greedy(block: int) -> float:
        import ray

        memory: float = ray.get_runtime_context().get_assigned_resources()["memory"]
        if memory < 1 << 30:
            raise MemoryError
        return memory

    found: dict[int, float] = {}
    executor.map(greedy, [0], found.__setitem__)
    assert found[0] >= 1 << 30


def test_a_block_out_of_all_memory_ends_the_work(executor: RayExecutor) -> None:
    def greedy(block: int) -> None:
        raise MemoryError

    with pytest.raises(OutOfMemory, match=r"^it was out of memory with all of the largest node, 2.0 GiB; take larger"):
        executor.map(greedy, [0], lambda at, result: None, memory=1 << 30)


def test_more_memory_than_any_node_has_is_refused(executor: RayExecutor) -> None:
    with pytest.raises(OutOfMemory, match=r"needs about 3.2 GiB of memory and the largest node has 2.0 GiB for tasks"):
        executor.map(abs, [1], lambda at, result: None, memory=3 << 30)


def test_a_node_with_another_version_is_refused(executor: RayExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.check_nodes(nodes.alive())
    right = np.__version__
    monkeypatch.setattr(np, "__version__", "1.0")
    with pytest.raises(ClusterError, match=rf"^node [\d.]+: numpy {right} there, 1.0 here; install the same versions"):
        nodes.check_nodes(nodes.alive())


def test_a_path_that_a_node_does_not_see_is_named(executor: RayExecutor, tmp_path: Path) -> None:
    nodes.check_shared(nodes.alive(), [str(tmp_path)])
    with pytest.raises(ClusterError, match=r"^node [\d.]+ does not see .*/nowhere; put it where all nodes can"):
        nodes.check_shared(nodes.alive(), [str(tmp_path), str(tmp_path / "nowhere")])


def test_predictions_are_shared_and_the_same(
    executor: RayExecutor, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make("dismec").fit(corpus)
    here = model.predict(corpus, k=7)
    monkeypatch.setattr(shared_prediction, "BLOCK", 70)
    before = executor.report.tasks
    with using(executor):
        there = model.predict(corpus, k=7)
    assert executor.report.tasks - before == 5
    np.testing.assert_array_equal(here.ids, there.ids)
    np.testing.assert_array_equal(here.scores, there.scores)
    assert there.kind == here.kind
