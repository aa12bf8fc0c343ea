"""The model folder: plain files under a manifest with checksums; no pickle anywhere.

    manifest.json          kind, format version, config, library versions, how it was trained, size and SHA-256 of files
    labels.safetensors     the label set
    NAME.safetensors       arrays, read by memory mapping
    NAME.json, tokenizer.json, ...

A folder is written beside its place and renamed into it, so that a crash, a full disk or Ctrl-C leaves the old one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmtc.corpus.labels import Csr, LabelSet
from xmtc.errors import BadModelFolder

FORMAT = 1
MANIFEST = "manifest.json"
LIBRARIES = ("xmtc", "numpy", "scipy", "numba", "tokenizers", "safetensors", "torch", "transformers")
HEADER_LIMIT = 100 << 20
DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip


class FolderWriter:
    """What a model writes its parts with; see `writing`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write named arrays as NAME.safetensors."""
        from safetensors.numpy import save_file

        save_file(
            {key: np.ascontiguousarray(value) for key, value in arrays.items()}, self._path(f"{name}.safetensors")
        )

    def matrix(self, name: str, matrix: Csr) -> None:
        """Write a CSR matrix as NAME.safetensors."""
        shape = np.array(matrix.shape, np.int64)
        self.arrays(name, {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": shape})

    def labels(self, labels: LabelSet) -> None:
        """Write the label set."""
        self.arrays("labels", labels.to_arrays())

    def json(self, name: str, value: Any) -> None:
        """Write JSON data as NAME.json."""
        self.text(f"{name}.json", json.dumps(value, ensure_ascii=False, indent=1))

    def text(self, file_name: str, text: str) -> None:
        """Write a text file under its full name."""
        self._path(file_name).write_text(text, "utf-8")

    def _path(self, file_name: str) -> Path:
        if not _plain(file_name):
            raise ValueError(f"{file_name!r} is not a plain file name")
        return self._folder / file_name


@contextmanager
def writing(path: str | Path, kind: str, config: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[FolderWriter]:
    """Write a model folder; it appears at `path` only when the block ends well, and replaces an older model there.

    `config` are the hyper-parameters that make the model again, `about` is anything worth knowing (training, metrics).
    """
    target = Path(path).absolute()
    _refuse_foreign(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    old = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        yield FolderWriter(partial)
        files = {file.name: _facts(file) for file in sorted(partial.iterdir())}
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "config": dict(config),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "libraries": _library_versions(),
            **about,
            "files": files,
        }
        manifest["checksum"] = _checksum(manifest)
        (partial / MANIFEST).write_text(json.dumps(manifest, ensure_ascii=False, indent=1), "utf-8")
        for file in partial.iterdir():
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        if target.exists():
            target.rename(old)
        partial.rename(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadModelFolder(f"{path}: cannot write the model: {reason}; what was there before is untouched") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and target.exists():
            shutil.rmtree(old, ignore_errors=True)


class FolderReader:
    """A checked model folder; see `opening`."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest

    @property
    def kind(self) -> str:
        """The name of the method in the catalogue."""
        return str(self.manifest["kind"])

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of NAME.safetensors, memory-mapped and read-only."""
        return _mapped(self._path(f"{name}.safetensors"))

    def matrix(self, name: str) -> Csr:
        """The CSR matrix NAME; its arrays are memory-mapped."""
        arrays = self.arrays(name)
        try:
            matrix: Csr = csr_array(
                (arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"].tolist()), copy=False
            )
            matrix.check_format(full_check=True)
        except (KeyError, ValueError) as error:
            raise BadModelFolder(f"{self.folder}: {name}.safetensors is no sparse matrix: {error}") from error
        return matrix

    def labels(self) -> LabelSet:
        """The label set."""
        try:
            return LabelSet.from_arrays(self.arrays("labels"))
        except KeyError as error:
            raise BadModelFolder(f"{self.folder}: labels.safetensors lacks {error}") from error

    def json(self, name: str) -> Any:
        """The JSON data of NAME.json."""
        return json.loads(self.text(f"{name}.json"))

    def text(self, file_name: str) -> str:
        """The content of a text file."""
        return self._path(file_name).read_text("utf-8")

    def _path(self, file_name: str) -> Path:
        if file_name not in self.manifest["files"]:
            raise BadModelFolder(f"{self.folder}: the model has no part {file_name!r}; save it again with this version")
        return self.folder / file_name


def opening(path: str | Path, verify: bool = True) -> FolderReader:
    """Check a model folder and give access to its parts.

    `verify=False` checks the manifest and all sizes but does not read every byte: for large models that start often.
    """
    folder = Path(path)
    if not folder.is_dir():
        left = sorted(folder.parent.glob(f".{folder.name}.*.old")) if folder.parent.is_dir() else []
        hint = f"; a save was cut off, the model before it is in {left[0]}" if left else ""
        what = "is a file, not a model folder" if folder.exists() else "no such model folder"
        raise BadModelFolder(f"{path}: {what}{hint}")
    manifest = _read_manifest(folder)
    for name, facts in manifest["files"].items():
        _check_file(folder / name, facts, verify)
    extra = sorted({file.name for file in folder.iterdir()} - {*manifest["files"], MANIFEST})
    if extra:
        warnings.warn(f"{path}: not part of the model and never read: {', '.join(extra)}", stacklevel=2)
    return FolderReader(folder, manifest)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: Any = json.loads((folder / MANIFEST).read_text("utf-8"))
    except FileNotFoundError:
        raise BadModelFolder(f"{folder}: no {MANIFEST} in it, so this is not an xmtc model folder") from None
    except OSError as error:
        raise BadModelFolder(f"{folder / MANIFEST}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadModelFolder(f"{folder / MANIFEST}: damaged ({error}); restore the folder from a copy") from error
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or not isinstance(manifest.get("files"), dict) or "kind" not in manifest:
        raise BadModelFolder(f"{folder / MANIFEST}: this is no manifest of an xmtc model")
    if version > FORMAT:
        raise BadModelFolder(
            f"{folder}: written in format {version}, this version of xmtc reads up to {FORMAT}; upgrade xmtc"
        )
    if manifest.get("checksum") != _checksum(manifest):
        raise BadModelFolder(f"{folder / MANIFEST}: altered after it was written; restore the folder from a copy")
    if not all(map(_plain, manifest["files"])):
        raise BadModelFolder(f"{folder / MANIFEST}: names a file outside of the folder")
    return dict(manifest)


def _check_file(file: Path, facts: Mapping[str, Any], verify: bool) -> None:
    try:
        size = file.stat().st_size
        if size < facts["bytes"]:
            raise BadModelFolder(f"{file}: truncated: {size:,} of {facts['bytes']:,} bytes; restore it from a copy")
        if size > facts["bytes"] or (verify and _sha256(file) != facts["sha256"]):
            raise BadModelFolder(f"{file}: altered after it was written; restore it from a copy")
    except FileNotFoundError:
        raise BadModelFolder(f"{file}: missing; restore it from a copy") from None
    except OSError as error:
        raise BadModelFolder(f"{file}: cannot be read: {error.strerror}") from error


def _mapped(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as views on a memory map (the library itself would copy them)."""
    try:
        raw = np.memmap(file, np.uint8, "r")
        size = int(raw[:8].view("<u8")[0])
        if size > min(HEADER_LIMIT, len(raw) - 8):
            raise ValueError("the header is longer than the file")
        header = json.loads(raw[8 : 8 + size].tobytes())
        header.pop("__metadata__", None)
        body = raw[8 + size :]
        arrays = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            if not 0 <= start <= end <= len(body):
                raise ValueError(f"array {name!r} lies outside of the file")
            arrays[name] = np.asarray(body[start:end]).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        return arrays
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadModelFolder(f"{file}: not a readable safetensors file: {error}") from error


def _refuse_foreign(target: Path) -> None:
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).exists():
        raise BadModelFolder(f"{target}: a folder with other things in it; give the name of a new or a model folder")
    if target.exists() and not target.is_dir():
        raise BadModelFolder(f"{target}: there is a file of this name; give the name of a folder")


def _plain(name: str) -> bool:
    return name == Path(name).name and name not in ("", ".", "..", MANIFEST) and "\\" not in name


def _facts(file: Path) -> dict[str, Any]:
    return {"bytes": file.stat().st_size, "sha256": _sha256(file)}


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksum(manifest: Mapping[str, Any]) -> str:
    content = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _library_versions() -> dict[str, str]:
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return versions
