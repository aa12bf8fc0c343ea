"""Finished pieces of a training run, kept on disk so that a killed run can be resumed."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.errors import BadModelFolder

ABOUT = "run.json"
MAKING = threading.Lock()
SHORT = 17  # characters of a value that an error message quotes; fingerprints are longer


class Checkpoints:
    """Named groups of arrays in a folder of their own, written whole or not at all.

    `run` identifies the training (method, settings, documents). A folder with pieces of another run is an error: they
    would not fit. Without a folder nothing is kept. `log_folder` is for the run's TensorBoard curves.

    >>> import tempfile
    >>> kept = Checkpoints(Path(tempfile.mkdtemp()) / "pieces", {"model": "dismec"})
    >>> kept.put("block0", {"weights": np.ones(2, np.float32)})
    >>> kept.get("block0")["weights"].tolist(), kept.get("block1")
    ([1.0, 1.0], None)
    """

    def __init__(self, folder: str | Path | None, run: Mapping[str, Any], log_folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else None
        self.log_folder = Path(log_folder) if log_folder is not None else None
        self._run = json.loads(json.dumps(run))
        if self.folder is None or not self.folder.exists():
            return
        try:
            found = json.loads((self.folder / ABOUT).read_text("utf-8"))
            different = differences(found, self._run)
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise BadModelFolder(f"{self.folder}: no readable checkpoints: {error}; remove it to begin anew") from error
        if different:
            raise BadModelFolder(
                f"{self.folder}: pieces of another run (different: {', '.join(different)}); "
                "train with the same settings and documents to go on; to begin anew remove it, or leave --resume out"
            )

    def put(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep arrays under a name, replacing older ones."""
        from safetensors.numpy import save

        if self.folder is not None:
            # Not np.ascontiguousarray, which turns a scalar into an array of one dimension.
            contiguous = {key: np.asarray(value, order="C") for key, value in arrays.items()}
            try:
                self._make_folder(self.folder)
                _write(self.folder / f"{name}.safetensors", save(contiguous))
            except OSError as error:
                raise BadModelFolder(f"{self.folder}: cannot write a checkpoint: {error.strerror}") from error

    def _make_folder(self, folder: Path) -> None:
        """Make the folder, which says whose pieces it holds from the moment it exists; several threads may put."""
        with MAKING:
            if not folder.exists():
                partial = folder.with_name(f"{folder.name}.{os.getpid()}.part")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                _write(partial / ABOUT, json.dumps(self._run, ensure_ascii=False, indent=1).encode())
                partial.rename(folder)

    def drop(self, name: str) -> None:
        """Remove the arrays kept under a name, if any."""
        if self.folder is not None:
            (self.folder / f"{name}.safetensors").unlink(missing_ok=True)

    def get(self, name: str) -> dict[str, NDArray[Any]] | None:
        """The arrays kept under a name, or None."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if self.folder is None:
            return None
        file = self.folder / f"{name}.safetensors"
        try:
            return dict(load(file.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, SafetensorError, ValueError) as error:
            raise BadModelFolder(f"{file}: a damaged checkpoint: {error}; remove it to do this piece again") from error


def differences(there: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What differs between two runs, groups as `group.key`, with both values where they are short.

    >>> differences({"seed": 0, "tfidf": {"min_df": 1}}, {"seed": 0, "tfidf": {"min_df": 2}})
    ['tfidf.min_df (1 there, 2 now)']
    """
    found = []
    for key in [*there, *(key for key in now if key not in there)]:
        old, new = there.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            shown = [json.dumps(value, ensure_ascii=False) for value in (old, new)]
            short = max(map(len, shown)) <= SHORT
            found.append(f"{prefix}{key}" + (f" ({shown[0]} there, {shown[1]} now)" if short else ""))
    return found


def _write(file: Path, content: bytes) -> None:
    """Write a file so that it is whole whenever it exists."""
    partial = file.with_name(f"{file.name}.{os.getpid()}.part")
    with open(partial, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)
