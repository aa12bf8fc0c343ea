"""Ways to a cluster, and the commands that take `--cluster`; a mistake is one line and leaves nothing behind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import ray

from xmtc.cli import main
from xmtc.cluster import connect
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
    said = "cluster auto: none found; start one with `ray start --head`, or take local[N]; one with a token needs "
    assert str(error.value) == said + "RAY_AUTH_MODE=token and the same token here"


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
