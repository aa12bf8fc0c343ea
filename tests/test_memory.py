"""How much memory is free: on this machine, in containers of both kinds, and where the system does not say."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from xmtc import memory
from xmtc.memory import available_memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine, whose files the tests write."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    (tmp_path / "proc/self").mkdir(parents=True)
    put(tmp_path / "proc/meminfo", f"MemTotal: 99 kB\nMemAvailable: {64 * GIB // 1024} kB\n")
    return tmp_path


def put(file: Path, text: object) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def test_is_plausible_here() -> None:
    assert 50 << 20 < available_memory() < 1 << 50


def test_machine_without_limits(machine: Path) -> None:
    assert available_memory() == 64 * GIB


def test_container_of_version_2(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/pod/app")
    put(machine / "cgroup/pod/app/memory.max", "max")
    put(machine / "cgroup/pod/app/memory.current", 3 * GIB)
    put(machine / "cgroup/pod/memory.max", 8 * GIB)
    put(machine / "cgroup/pod/memory.current", 6 * GIB)
    put(machine / "cgroup/pod/memory.stat", f"anon 1\ninactive_file {4 * GIB}")
    assert available_memory() == 6 * GIB, "a limit of the group above counts, and its file cache does not"


def test_container_that_sees_only_its_own_top(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/a/path/of/the/host")
    put(machine / "cgroup/memory.max", 2 * GIB)
    put(machine / "cgroup/memory.current", GIB)
    assert available_memory() == GIB


def test_container_of_version_1(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "9:cpu:/x\n4:cpuset,memory:/docker/1\n1:name=systemd:/x")
    put(machine / "cgroup/memory/docker/1/memory.limit_in_bytes", 4 * GIB)
    put(machine / "cgroup/memory/docker/1/memory.usage_in_bytes", 3 * GIB)
    put(machine / "cgroup/memory/docker/1/memory.stat", f"total_inactive_file {GIB}")
    assert available_memory() == 2 * GIB


def test_full_container_has_nothing(machine: Path) -> None:
    put(machine / "proc/self/cgroup", "0::/")
    put(machine / "cgroup/memory.max", GIB)
    put(machine / "cgroup/memory.current", 2 * GIB)
    assert available_memory() == 0


def test_mac(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc, and sysconf does not know the free pages."""
    (machine / "proc/meminfo").unlink()
    known = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1000}

    def sysconf(name: str) -> int:
        if name not in known:
            raise ValueError("unrecognized configuration name")
        return known[name]

    monkeypatch.setattr("os.sysconf", sysconf)
    assert available_memory() == 4096 * 1000


def test_windows(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc, no sysconf, no module `resource`: nothing is known, so nothing is refused."""
    (machine / "proc/meminfo").unlink()
    monkeypatch.delattr("os.sysconf")
    original = builtins.__import__

    def without_resource(name: str, *rest: Any) -> Any:
        if name == "resource":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_resource)
    assert available_memory() == sys.maxsize
