"""The memory that this process can still take; a run that needs more is refused before it starts."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that this process can still take: the minimum of what the machine, its container and its limits allow.

    >>> available_memory() > 0
    True
    """
    return max(0, min([_free(), *_container_room(), *_process_room()]))


def peak_memory() -> int:
    """The peak memory of this process so far, in bytes.

    >>> peak_memory() > 0
    True
    """
    # `ru_maxrss` also counts the memory of the process that started this one.
    facts = _numbers(PROC / "self" / "status")
    if "VmHWM" in facts:
        return facts["VmHWM"] * 1024
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _free() -> int:
    """The free memory of the machine; unlimited where no system call tells."""
    facts = _numbers(PROC / "meminfo")
    if "MemAvailable" in facts:
        return facts["MemAvailable"] * 1024
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):  # macOS knows only the second, Windows neither
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
        except (AttributeError, ValueError, OSError):
            continue
    return sys.maxsize


def _container_room() -> Iterator[int]:
    """What each control group of this process leaves it (version 2, or the memory controller of version 1)."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, inside = line.split(":", 2)
        if controllers == "":
            top, most, used, cache = CGROUPS, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top = CGROUPS / "memory"
            most, used, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        group = top / inside.strip("/")
        # In a container the path may be the host's, of which only the top is visible.
        for folder in {group, *group.parents, top} - {*top.parents}:
            limit, now = _number(folder / most), _number(folder / used)
            if limit is not None and now is not None:
                # Cached files count as used, but the system frees them when it needs memory.
                yield limit - now + _numbers(folder / "memory.stat").get(cache, 0)


def _process_room() -> Iterator[int]:
    """What `ulimit` leaves, of the address space and of data."""
    try:
        import resource
    except ImportError:  # Windows
        return
    facts = _numbers(PROC / "self" / "status")
    for kind, used in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        soft, _ = resource.getrlimit(kind)
        if soft != resource.RLIM_INFINITY:
            yield soft - facts.get(used, 0) * 1024


def _number(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max": no limit


def _numbers(file: Path) -> dict[str, int]:
    """The lines `name number` or `name: number kB` of a system file; empty if there is no such file."""
    try:
        lines = [line.replace(":", " ").split() for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}


def written_size(size: float) -> str:
    """Bytes as people write them.

    >>> written_size(3 << 30), written_size(5 << 20)
    ('3.0 GiB', '5 MiB')
    """
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"


def give_back_memory() -> None:
    """Return freed memory to the system, where the C library can: threads leave it in many small pieces.

    >>> give_back_memory()
    """
    with suppress(OSError, AttributeError):  # another C library, which does it by itself
        ctypes.CDLL("libc.so.6").malloc_trim(0)
