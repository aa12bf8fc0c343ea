"""Where compiled kernels are kept: numba's cache, read also where it cannot be written.

Numba looks for a folder in three places: NUMBA_CACHE_DIR, `__pycache__` beside the source, the user's cache folder. It
takes the first that it can write and passes over a warm one that it can only read, as in a container image or for
another user's installation. Here every folder up to the one that is written is read too, or all of them if none can be
written.

Numba's own writing is not safe if two processes keep different versions of one kernel at the same moment: both take
the same number for their file. A lock lets one write at a time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

LOCK = "xmtc-kernels.lock"


class KernelCache:
    """The cache of one kernel, in place of numba's own `FunctionCache`.

    `place` is the folder that is written, or should be; `written` says whether the last version went there; `used` are
    the folders in which versions were found or to which they were written.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._layers: list[Any] = []
        self._writer: Any = None
        self.written = False
        self.used: set[str] = set()
        for read, write in _locators():
            self._writer = _opened(write, function)
            if self._writer is not None:
                self._layers.append(self._writer)
                break
            reader = _opened(read, function)
            if reader is not None:
                self._layers.append(reader)
        self.place = self._wanted(function) if self.unwritable else self._writer.cache_path

    @property
    def unwritable(self) -> bool:
        """Whether there is no folder at all into which a compiled version could go."""
        return self._writer is None

    @property
    def cache_path(self) -> str:
        """The folder, as numba's statistics show it."""
        return self.place

    def _wanted(self, function: Callable[..., Any]) -> str:
        """The folder that a user would expect to be written: the one that was named, or the one beside the source."""
        wanted = numba.config.CACHE_DIR or str(Path(function.__code__.co_filename).parent / "__pycache__")
        return next((layer.cache_path for layer in self._layers if layer.cache_path.startswith(wanted)), wanted)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled version for these types, or None."""
        for layer in self._layers:
            try:
                found = layer.load_overload(signature, target)
            except Exception:  # a folder of somebody else, a damaged file, another version's pickle: compiled anew
                continue
            if found is not None:
                self.used.add(layer.cache_path)
                return found
        if self.unwritable:
            _say_that_nothing_is_kept(self.place)
        return None

    def save_overload(self, signature: Any, version: Any) -> None:
        """Keep a compiled version; a full disk is no reason not to run it."""
        self.written = False
        if self._writer is None:
            return
        try:
            with _one_writer(Path(self._writer.cache_path)):
                self._save(signature, version)
            self.written = True
            self.used.add(self._writer.cache_path)
        except OSError:
            return

    def _save(self, signature: Any, version: Any) -> None:
        try:
            self._writer.save_overload(signature, version)
        except OSError:
            raise
        except Exception:  # an index that is damaged: begun anew
            self._writer.flush()
            self._writer.save_overload(signature, version)

    def enable(self) -> None:
        """Part of numba's protocol: this cache is always on."""

    def disable(self) -> None:
        """Part of numba's protocol: this cache is always on."""

    def flush(self) -> None:
        """Forget all versions in the folder that is written."""
        if self._writer is not None:
            self._writer.flush()


@cache
def _say_that_nothing_is_kept(place: str) -> None:
    """Before the first version is compiled that the next start will compile again: else people wait and wonder."""
    print(
        f"compiling loops, some 15 s at every start: {place} cannot be written. Compile them beforehand: "
        "`xmtc warm --cache DIR`, then NUMBA_CACHE_DIR=DIR",
        file=sys.stderr,
        flush=True,
    )


@cache
def _locators() -> list[tuple[type[Any], type[Any]]]:
    """For each place where numba looks, in its order, a class of caches that only reads and one that writes."""
    if getattr(numba.config, "CACHE_LOCATOR_CLASSES", ""):  # the user has chosen
        return [(caching.FunctionCache, caching.FunctionCache)]
    return [
        (_cache_class(_readable(locator)), _cache_class(locator))
        for locator in caching.CompileResultCacheImpl._locator_classes
    ]


def _cache_class(locator: type[Any]) -> type[Any]:
    """Numba's cache of functions, in one place only."""
    implementation = type("OnePlace", (caching.CompileResultCacheImpl,), {"_locator_classes": [locator]})
    return type("CacheInOnePlace", (caching.FunctionCache,), {"_impl_class": implementation})


def _readable(locator: type[Any]) -> type[Any]:
    """The same place without the demand that a file can be made there."""

    def ensure_cache_path(self: Any) -> None:
        if not os.access(self.get_cache_path(), os.R_OK | os.X_OK):
            raise PermissionError(self.get_cache_path())

    return type(f"Readable{locator.__name__}", (locator,), {"ensure_cache_path": ensure_cache_path})


def _opened(kind: type[Any], function: Callable[..., Any]) -> Any:
    """A cache of this kind, or None if it has no folder here."""
    try:
        return kind(function)
    except (RuntimeError, OSError):  # "no locator available"; the source cannot be read
        return None


@contextmanager
def _one_writer(folder: Path) -> Iterator[None]:
    """Wait until no other process writes into this folder."""
    try:
        import fcntl
    except ImportError:  # Windows: numba alone
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed, also if the process dies
        yield
