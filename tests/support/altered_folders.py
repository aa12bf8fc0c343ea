"""Model folders that were altered on purpose, with checksums that are correct again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xmtc import storage
from xmtc.storage import FolderWriter

Array = np.ndarray[Any, Any]


def change_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest and renew its checksum."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    change(manifest)
    manifest["checksum"] = storage._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def renew_checksum(folder: Path, file: str) -> None:
    """Put the checksum of a file that was changed into the manifest."""
    change_manifest(folder, lambda manifest: manifest["files"].update({file: storage._facts(folder / file)}))


def change_arrays(folder: Path, file: str, change: Callable[[dict[str, Array]], None]) -> None:
    """Change the arrays of a file and renew its checksum."""
    arrays = {key: np.array(array) for key, array in storage.read_arrays(folder / file).items()}
    change(arrays)
    FolderWriter(folder).arrays(file.removesuffix(".safetensors"), arrays)
    renew_checksum(folder, file)
