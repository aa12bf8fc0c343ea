"""A lock beside a model folder while a training writes to it, so that a second one is refused.

The lock is one of the operating system on an open file: it ends with its process, however that ends, so there are no
stale ones. The file says who holds it. Nobody needs it for reading: a model folder is always whole.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from xmtc.errors import XmtcError

try:
    import fcntl

    CAN_LOCK = True
except ImportError:  # Windows: trainings are not kept apart there
    CAN_LOCK = False


@contextmanager
def folder_lock(target: Path) -> Iterator[None]:
    """Keep other trainings away from a model folder during the block; an XmtcError names the one that is there."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    file = target.with_name(f".{target.name}.lock")
    stream = _locked(file, target)
    try:
        yield
    finally:
        if stream is not None:
            file.unlink(missing_ok=True)  # while it is locked: a process that waits for it sees that it is gone
            stream.close()
        for folder in missing:
            with suppress(OSError):  # if it holds something now, it stays
                folder.rmdir()


def _locked(file: Path, target: Path) -> IO[str] | None:
    """The lock's open file; None where the system, or this disk, has no locks."""
    while CAN_LOCK:
        stream = open(file, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as the lock is held
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(stream.fileno()).st_ino == file.stat().st_ino:
                stream.truncate(0)
                json.dump(_myself(), stream)
                stream.flush()
                return stream
        except FileNotFoundError:
            pass  # its holder has ended and removed it between our two steps: once more
        except BlockingIOError:
            holder = _holder(stream)
            stream.close()
            raise XmtcError(
                f"{target}: another training writes to this folder ({holder}); wait for it, or give another --out"
            ) from None
        except OSError:  # a network disk without locks
            stream.close()
            file.unlink(missing_ok=True)
            return None
        stream.close()
    return None


def _myself() -> dict[str, Any]:
    return {"process": os.getpid(), "host": os.uname().nodename, "since": time.strftime("%Y-%m-%d %H:%M:%S")}


def _holder(stream: IO[str]) -> str:
    """Who holds the lock, as its file says; it may just be writing that."""
    try:
        stream.seek(0)
        found = json.load(stream)
        return f"process {found['process']} on {found['host']}, since {found['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "process unknown"
