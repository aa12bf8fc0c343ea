"""Compiled kernels are found again where nothing can be written, and what is said about it is true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

MODULE = """
import numpy as np
from xmtc.kernels import compiled

@compiled()
def doubled(values):
    return 2 * values

@compiled()
def tripled(values):
    return 3 * values
"""
CALL = """
import sys
import numpy as np
import xmtc.kernels
xmtc.kernels.SLOW_SECONDS = 0
import two_kernels
for kind in sys.argv[1:]:
    two_kernels.doubled(np.zeros(2, kind))
    two_kernels.tripled(np.zeros(2, kind))
kernels = [two_kernels.doubled.versions[0], two_kernels.tripled.versions[0]]
print([(sum(k.stats.cache_hits.values()), sum(k.stats.cache_misses.values())) for k in kernels])
"""
#: As root, who may write everywhere, a folder is only read-only if the system says so.
UNWRITABLE = """
import tempfile
def refuse(*_, **__):
    raise PermissionError(13, "Permission denied")
tempfile.TemporaryFile = refuse
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "two_kernels.py").write_text(MODULE)
    return tmp_path


def called(
    place: Path, *kinds: str, before: str = "", cache: str = "cache", wrapper: tuple[str, ...] = ()
) -> tuple[str, str]:
    """What a process that calls both kernels prints, on standard output and standard error."""
    path = os.pathsep.join([str(place / "code"), os.environ.get("PYTHONPATH", "")])
    home = str(place / "home")
    environment = {**os.environ, "PYTHONPATH": path, "HOME": home, "XDG_CACHE_HOME": home}
    environment["NUMBA_CACHE_DIR"] = str(place / cache) if cache else ""
    command = [*wrapper, sys.executable, "-c", before + CALL, *kinds]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout.strip(), run.stderr


def test_a_warm_cache_is_read_where_nothing_can_be_written(place: Path) -> None:
    _, said = called(place, "int64")
    folder = next((place / "cache").iterdir())
    assert said.count(f"(once; cached in {folder})") == 1, "said once, not for each kernel"
    assert said.count("compiled ") == 2
    out, said = called(place, "int64", before=UNWRITABLE)
    assert out == "[(1, 0), (1, 0)]"
    assert said == ""


def test_that_nothing_can_be_kept_is_said_once_before_anything_is_compiled(place: Path) -> None:
    called(place, "int64")
    folder = next((place / "cache").iterdir())
    out, said = called(place, "int64", "float32", before=UNWRITABLE)
    assert out == "[(1, 1), (1, 1)]"
    first, *rest = said.splitlines()
    assert first.startswith(f"compiling loops, some 15 s at every start: {folder} cannot be written. ")
    assert "`xmtc warm --cache DIR`" in first
    assert [line.split(" in ")[0] for line in rest] == ["compiled doubled", "compiled tripled"]
    assert "cached" not in "".join(rest)


def test_without_any_folder_the_one_beside_the_source_is_named(place: Path) -> None:
    out, said = called(place, "int64", before=UNWRITABLE, cache="")
    assert out == "[(0, 1), (0, 1)]"
    assert f"at every start: {place / 'code' / '__pycache__'} cannot be written" in said


def mounted_read_only(folder: Path) -> tuple[str, ...]:
    """A command that runs another one for which this folder is read-only, also for root; () if that is not allowed."""
    script = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}" && exec "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", script, "sh")
    try:
        run = subprocess.run([*wrapper, "true"], capture_output=True, check=False)
    except OSError:
        return ()
    return () if run.returncode else wrapper


@pytest.mark.parametrize("cache", ["cache", ""], ids=["NUMBA_CACHE_DIR", "beside the source"])
def test_a_warm_cache_on_a_read_only_file_system(place: Path, cache: str) -> None:
    wrapper = mounted_read_only(place)
    if not wrapper:
        pytest.skip("this system does not let a test mount")
    called(place, "int64", cache=cache)
    out, said = called(place, "int64", cache=cache, wrapper=wrapper)
    assert (out, said) == ("[(1, 0), (1, 0)]", "")


def test_a_cold_start_on_a_read_only_file_system_says_so(place: Path) -> None:
    wrapper = mounted_read_only(place)
    if not wrapper:
        pytest.skip("this system does not let a test mount")
    (place / "code" / "__pycache__").mkdir()  # can be read, and has nothing
    out, said = called(place, "int64", wrapper=wrapper)
    assert out == "[(0, 1), (0, 1)]"
    assert said.startswith(f"compiling loops, some 15 s at every start: {place / 'cache'} cannot be written. ")
    assert said.count("cannot be written") == 1


def test_a_warm_cache_beside_the_source_is_read_though_the_home_could_be_written(place: Path) -> None:
    """An installation of root's, used by somebody else."""
    wrapper = mounted_read_only(place / "code")
    if not wrapper:
        pytest.skip("this system does not let a test mount")
    called(place, "int64", cache="")
    out, said = called(place, "int64", "float32", cache="", wrapper=wrapper)
    assert out == "[(1, 1), (1, 1)]", "the new version is compiled"
    assert f"(once; cached in {place / 'home'}" in said, "and kept for this user"
    out, _ = called(place, "int64", "float32", cache="", wrapper=wrapper)
    assert out == "[(2, 0), (2, 0)]"


@pytest.mark.parametrize("content", [b"", b"no pickle", b"\x80\x04N."], ids=["empty", "text", "None"])
def test_a_damaged_index_is_written_anew(place: Path, content: bytes) -> None:
    called(place, "int64")
    for index in (place / "cache").rglob("*.nbi"):
        index.write_bytes(content)
    assert called(place, "int64")[0] == "[(0, 1), (0, 1)]"
    assert called(place, "int64")[0] == "[(1, 0), (1, 0)]"


def test_a_full_disk_does_not_stop_a_kernel(place: Path) -> None:
    full = """
from numba.core.caching import IndexDataCacheFile
def full(*_):
    raise OSError(28, "No space left on device")
IndexDataCacheFile.save = full
"""
    out, said = called(place, "int64", before=full)
    assert out == "[(0, 1), (0, 1)]"
    assert "not cached" in said


def test_two_processes_that_keep_different_versions_at_once(place: Path) -> None:
    """Numba would give both versions the same file."""
    slow = """
import time
from numba.core.caching import IndexDataCacheFile as File
original = File._save_index
def slowly(self, overloads):
    time.sleep(0.3)
    original(self, overloads)
File._save_index = slowly
"""
    path = os.pathsep.join([str(place / "code"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(place / "cache")}
    kinds = ["int64", "float32", "int8"]
    runs = [subprocess.Popen([sys.executable, "-c", slow + CALL, kind], env=environment) for kind in kinds]
    assert [run.wait(120) for run in runs] == [0, 0, 0]
    assert called(place, *kinds)[0] == "[(3, 0), (3, 0)]"
