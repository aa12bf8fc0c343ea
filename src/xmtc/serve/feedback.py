"""Feedback of people as JSON lines that `xmtc train` reads: `text`, `labels`, and facts beside them."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from xmtc.errors import BadInput


class FeedbackFile:
    """A file that only grows, a whole line at a time, also if several processes write to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise BadInput(path, None, f"cannot be written: {reason}", "name another file with --feedback") from error

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write a line; when this returns, it is on the disk."""
        line = orjson.dumps(entry) + b"\n"
        with self._lock:
            size = os.fstat(self._handle).st_size
            written = os.write(self._handle, line)
            if written < len(line):  # the disk is full: half a line would spoil the file
                os.ftruncate(self._handle, size)
                raise OSError(28, "No space left on device", str(self.path))
            os.fsync(self._handle)
