"""Model folders appear whole or not at all: a folder is written beside its place and renamed into it.

So a crash, a full disk or Ctrl-C leaves the model that was there before.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xmtc.errors import BadModelFolder

MANIFEST = "manifest.json"  # what makes a folder a model
HUB = "hf:/"  # begins the address of a model on the Hub; a `Path` leaves one of its two slashes
ATTEMPTS = 10
LEFTOVER_SECONDS = 3600


@contextmanager
def replacing_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to write into; it appears at `path` only if the block succeeds, in place of an older model.

    If several processes write to the same path at once, each writes a whole folder and the last one's stays.
    """
    target = check_target(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        yield partial
        for file in partial.iterdir():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        _put_in_place(partial, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadModelFolder(f"{path}: cannot write the model: {reason}; what was there before is untouched") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_target(path: str | Path) -> Path:
    """The place of a model folder; BadModelFolder if it cannot be written or would destroy something.

    Training calls this before it begins: hours later would be too late. A link is followed, so that its target is
    replaced.
    """
    if not str(path) or "\0" in str(path):
        raise BadModelFolder(f"{str(path)!r}: this is no name for a folder")
    if str(path).startswith(HUB):
        raise BadModelFolder(f"{path}: models are saved to a folder; from there `push_to_hub` brings them to the Hub")
    target = Path(path).resolve()
    if target.is_dir() and Path.cwd().is_relative_to(target):
        # Replacing it would pull the floor from under the user's shell; this is also the case of "/".
        raise BadModelFolder(f"{path}: the current folder or one above it cannot become a model; name a folder in it")
    if target.is_dir() and os.path.ismount(target):
        raise BadModelFolder(f"{path}: a mounted disk or volume cannot be replaced; name a folder in it")
    # Checked several times, because another process may be replacing its model there just now.
    if all(_holds_other_things(target) for _ in range(ATTEMPTS)):
        raise BadModelFolder(f"{path}: a folder with other things in it; give the name of a new or a model folder")
    with suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(target.stat().st_mode):
            raise BadModelFolder(f"{path}: there is a file of this name; give the name of a folder")
    parent = next(folder for folder in target.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise BadModelFolder(f"{path}: cannot write the model: {parent} is no folder that you may write into")
    return target


def _holds_other_things(folder: Path) -> bool:
    try:
        names = {file.name for file in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(names) and MANIFEST not in names


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`; an older folder is first moved aside, and comes back if anything fails."""
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    shutil.rmtree(old, ignore_errors=True)
    try:
        for attempt in range(ATTEMPTS):
            with suppress(FileNotFoundError):
                target.rename(old)
            try:
                partial.rename(target)
                break
            except OSError as error:
                # Another process has put its folder there between our two steps: once more.
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == ATTEMPTS - 1:
                    raise
                shutil.rmtree(old, ignore_errors=True)
        _sync_folder(target.parent)
    except BaseException:
        # This fails if another process has put its folder there meanwhile; then the old one is of no more use.
        with suppress(OSError):
            old.rename(target)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    """Write the renaming itself to the disk, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _remove_leftovers(target: Path) -> None:
    """Remove what killed processes left beside the target: half-written folders, and old ones that were replaced."""
    for folder in target.parent.glob(f".{glob.escape(target.name)}.*.*"):
        _, process, kind = folder.name.rsplit(".", 2)
        stale = kind == "part" or (kind == "old" and target.exists())
        if not stale or not process.isdecimal() or _runs(int(process)):
            continue
        # The process may be one of another machine that shares the disk.
        if time.time() - folder.stat().st_mtime > LEFTOVER_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True
