"""Pieces of a run on disk: kept whole, not mixed up with another run's, damaged ones named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

from xmtc.checkpoints import Checkpoints
from xmtc.errors import BadModelFolder

RUN = {"model": "dismec", "settings": {"cost": 1.0}}


def test_pieces_come_back(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "pieces", RUN)
    assert kept.get("a") is None
    assert not (tmp_path / "pieces").exists(), "nothing is made before there is something to keep"
    kept.put("a", {"x": np.arange(6).reshape(2, 3)[:, ::2], "single": np.array(0.5)})
    found = Checkpoints(tmp_path / "pieces", RUN).get("a")
    assert found is not None
    np.testing.assert_array_equal(found["x"], [[0, 2], [3, 5]])
    assert found["single"].shape == ()
    assert sorted(file.name for file in (tmp_path / "pieces").iterdir()) == ["a.safetensors", "run.json"]


def test_threads_may_put_at_the_same_time(tmp_path: Path) -> None:
    for turn in range(20):
        folder, meeting = tmp_path / f"pieces{turn}", Barrier(4)
        kept = Checkpoints(folder, RUN)

        def put(at: int, kept: Checkpoints = kept, meeting: Barrier = meeting) -> None:
            meeting.wait()
            kept.put(f"block{at}", {"x": np.full(1, at)})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(put, range(4)))
        found = [Checkpoints(folder, RUN).get(f"block{at}") for at in range(4)]
        assert [piece and piece["x"].tolist() for piece in found] == [[at] for at in range(4)]
        assert [file.name for file in tmp_path.iterdir() if "part" in file.name] == []


def test_without_a_folder_nothing_is_kept() -> None:
    kept = Checkpoints(None, RUN)
    kept.put("a", {"x": np.ones(1)})
    assert kept.get("a") is None


def test_another_run(tmp_path: Path) -> None:
    Checkpoints(tmp_path / "pieces", RUN).put("a", {"x": np.ones(1)})
    with pytest.raises(
        BadModelFolder, match=r"different: settings\.cost \(1\.0 there, 2\.0 now\)\); train with the same"
    ):
        Checkpoints(tmp_path / "pieces", {**RUN, "settings": {"cost": 2.0}})


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_damaged(tmp_path: Path, content: bytes) -> None:
    kept = Checkpoints(tmp_path / "pieces", RUN)
    kept.put("a", {"x": np.ones(1)})
    (tmp_path / "pieces" / "a.safetensors").write_bytes(content)
    with pytest.raises(BadModelFolder, match=r"a\.safetensors: a damaged checkpoint"):
        kept.get("a")
    (tmp_path / "pieces" / "run.json").write_bytes(content)
    with pytest.raises(BadModelFolder, match="no readable checkpoints"):
        Checkpoints(tmp_path / "pieces", RUN)


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = Checkpoints(tmp_path / "file" / "pieces", RUN)
    with pytest.raises(BadModelFolder, match="cannot write a checkpoint"):
        kept.put("a", {"x": np.ones(1)})
