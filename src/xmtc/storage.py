"""The model folder: plain files under a manifest with checksums; no pickle anywhere.

    manifest.json          kind, format version, config, library versions, how it was trained, size and SHA-256 of files
    labels.safetensors     the label set
    NAME.safetensors       arrays, read by memory mapping
    NAME.json, tokenizer.json, ...

A folder is written beside its place and renamed into it, so that a crash, a full disk or Ctrl-C leaves the old one.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.labels import Csr, LabelSet
from xmtc.corpus.sparse import check_arrays, check_indices, make_csr
from xmtc.errors import BadModelFolder, XmtcError

FORMAT = 2
MANIFEST = "manifest.json"
LIBRARIES = ("xmtc", "numpy", "scipy", "numba", "tokenizers", "safetensors", "torch", "transformers")
MANIFEST_LIMIT = HEADER_LIMIT = 100 << 20
ATTEMPTS = 10
LEFTOVER_SECONDS = 3600
SMALL_FILE = 4 << 20  # read and checked in a few milliseconds
MANIFEST_TYPES = {"kind": str, "config": dict, "training": dict, "metrics": dict, "libraries": dict, "created": str}
DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
    "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "F32": np.float32, "F64": np.float64,
}  # fmt: skip


class FolderWriter:
    """What a model writes its parts with; see `writing`."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self._folder, self._prefix = folder, prefix

    def part(self, name: str) -> FolderWriter:
        """For a model inside the model: the same folder, where its files' names begin with NAME-."""
        return FolderWriter(self._folder, f"{self._prefix}{name}-")

    def arrays(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write named arrays as NAME.safetensors."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        contiguous = {key: np.ascontiguousarray(value) for key, value in arrays.items()}
        try:
            save_file(contiguous, self._path(f"{name}.safetensors"))
        except SafetensorError as error:  # its way of saying that the disk is full
            raise OSError(str(error)) from error

    def matrix(self, name: str, matrix: Csr, half: bool = False) -> None:
        """Write a CSR matrix as NAME.safetensors; `half`: its numbers with 16 bits, which is 3 digits."""
        shape = np.array(matrix.shape, np.int64)
        data = matrix.data.astype(np.float16) if half else matrix.data
        self.arrays(name, {"data": data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": shape})

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
        return self._folder / (self._prefix + file_name)


@contextmanager
def writing(path: str | Path, kind: str, config: Mapping[str, Any], about: Mapping[str, Any]) -> Iterator[FolderWriter]:
    """Write a model folder; it appears at `path` only when the block ends well, and replaces an older model there.

    `config` are the hyper-parameters that make the model again, `about` is anything worth knowing (training, metrics).
    If several processes write to the same path at once, each writes a whole folder and the last one's stays.
    """
    target = check_target(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
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
        text = json.dumps(manifest, ensure_ascii=False, indent=1)
        # The name of a corpus file need not be Unicode; the escape for such a byte is JSON's own.
        (partial / MANIFEST).write_bytes(text.encode("utf-8", "backslashreplace"))
        usual = stat.S_IMODE((partial / MANIFEST).stat().st_mode)
        for file in partial.iterdir():
            file.chmod(usual)  # safetensors makes files that only their owner may read, which a server often is not
            with open(file, "rb") as stream:
                os.fsync(stream.fileno())
        _put_in_place(partial, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadModelFolder(f"{path}: cannot write the model: {reason}; what was there before is untouched") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_target(path: str | Path) -> Path:
    """Where a model folder for this path is to be written; BadModelFolder if that cannot be or would destroy something.

    Training asks this before it begins: hours later would be too late. A link is followed, so that what it points to
    is replaced.
    """
    if not str(path) or "\0" in str(path):
        raise BadModelFolder(f"{str(path)!r}: this is no name for a folder")
    target = Path(path).resolve()
    is_folder = True  # unless there is something else
    if target.is_dir() and Path.cwd().is_relative_to(target):
        # Replacing it would pull the floor from under the user's shell; this is also the case of "/".
        raise BadModelFolder(f"{path}: the current folder or one above it cannot become a model; name a folder in it")
    if target.is_dir() and os.path.ismount(target):
        raise BadModelFolder(f"{path}: a mounted disk or volume cannot be replaced; name a folder in it")
    # Looked at again, because another process may be replacing its model there just now.
    if all(_holds_other_things(target) for _ in range(ATTEMPTS)):
        raise BadModelFolder(f"{path}: a folder with other things in it; give the name of a new or a model folder")
    with suppress(FileNotFoundError, NotADirectoryError):
        is_folder = stat.S_ISDIR(target.stat().st_mode)
    if not is_folder:
        raise BadModelFolder(f"{path}: there is a file of this name; give the name of a folder")
    there = next(folder for folder in target.parents if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise BadModelFolder(f"{path}: cannot write the model: {there} is no folder that you may write into")
    return target


def _holds_other_things(folder: Path) -> bool:
    try:
        names = {file.name for file in folder.iterdir()}
    except (FileNotFoundError, NotADirectoryError):
        return False
    return bool(names) and MANIFEST not in names


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`; a folder that is there is first moved aside, and comes back if anything fails."""
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
    """Have the renaming itself written to the disk, where the system can do that."""
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
    except OSError:
        return True
    return True


class FolderReader:
    """A checked model folder; see `opening`."""

    def __init__(
        self, folder: Path, manifest: dict[str, Any], whole: FolderReader | None = None, prefix: str = ""
    ) -> None:
        self.folder = folder
        self.manifest = manifest
        self._prefix = prefix
        self._checks: list[Callable[[], None]] = whole._checks if whole is not None else []

    def part(self, name: str, facts: Mapping[str, Any]) -> FolderReader:
        """What `FolderWriter.part` wrote; `facts` (kind, config, training) are in place of a manifest of its own."""
        return FolderReader(self.folder, {**facts, "files": self.manifest["files"]}, self, f"{self._prefix}{name}-")

    def check(self, file_name: str, check: Callable[[], None]) -> None:
        """Have a part checked from end to end: now if it is small, else before the model is used for the first time.

        So a model opens at once, whatever its size, and still nothing damaged is ever used.
        """
        if self.manifest["files"][self._prefix + file_name]["bytes"] <= SMALL_FILE:
            check()
        else:
            self._checks.append(check)

    def finish_checks(self) -> None:
        """Do the checks that were put off; BadModelFolder if a part is damaged."""
        if self._checks:
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda check: check(), self._checks))
            self._checks.clear()

    @property
    def kind(self) -> str:
        """The name of the method in the catalogue."""
        return str(self.manifest["kind"])

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of NAME.safetensors, memory-mapped and read-only."""
        return _mapped(self._path(f"{name}.safetensors"))

    def matrix(self, name: str, shape: tuple[int | None, int | None] = (None, None)) -> Csr:
        """The CSR matrix NAME, float32; its arrays are memory-mapped. A size that is given must be right."""
        with self.building(name):
            arrays = self.arrays(name)
            rows, columns = map(int, arrays["shape"])
            if arrays["data"].dtype not in (np.float32, np.float16):
                raise ValueError(f"its numbers are of the type {arrays['data'].dtype}")
            data = arrays["data"].astype(np.float32, copy=False)
            parts = (data, arrays["indices"], arrays["indptr"], (rows, columns))
            if shape[0] not in (None, rows) or shape[1] not in (None, columns):
                raise ValueError(f"its shape is {rows, columns}, not {shape}")
            check_arrays(*parts)

            def check() -> None:
                with self.building(name):
                    check_indices(*parts)

            self.check(f"{name}.safetensors", check)
            return make_csr(*parts)

    def labels(self) -> LabelSet:
        """The label set."""
        with self.building("labels"):
            return LabelSet.from_arrays(self.arrays("labels"))

    @contextmanager
    def building(self, name: str) -> Iterator[None]:
        """Make something of the arrays of NAME.safetensors; what does not fit becomes a BadModelFolder error.

        Checksums find accidents. A file that was made wrong, or made to do harm, must not reach a compiled loop either,
        so whoever makes an object of stored arrays checks them and raises KeyError or ValueError.
        """
        try:
            yield
        except (KeyError, ValueError, TypeError, OverflowError, IndexError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"is damaged: {error}"
            file = f"{self._prefix}{name}.safetensors"
            raise BadModelFolder(f"{self.folder}: {file} {what}; restore it from a copy") from error
        except XmtcError as error:
            if isinstance(error, BadModelFolder):
                raise
            raise BadModelFolder(f"{self.folder}: {self._prefix}{name}.safetensors is damaged: {error}") from error

    def json(self, name: str) -> Any:
        """The JSON data of NAME.json."""
        try:
            return json.loads(self.text(f"{name}.json"))
        except (ValueError, RecursionError) as error:
            file = self.folder / f"{self._prefix}{name}.json"
            raise BadModelFolder(f"{file}: not JSON: {error}; restore it from a copy") from error

    def text(self, file_name: str) -> str:
        """The content of a text file."""
        file = self._path(file_name)
        try:
            return file.read_text("utf-8")
        except ValueError as error:
            raise BadModelFolder(f"{file}: not UTF-8: {error}; restore it from a copy") from error

    def has(self, file_name: str) -> bool:
        """Whether the model has a part of this name."""
        return self._prefix + file_name in self.manifest["files"]

    def _path(self, file_name: str) -> Path:
        full = self._prefix + file_name
        if not self.has(file_name):
            raise BadModelFolder(f"{self.folder}: the model has no part {full!r}; save it again with this version")
        return self.folder / full


def opening(path: str | Path, verify: bool = True) -> FolderReader:
    """Check a model folder and give access to its parts.

    Large files are read and compared with their checksums only before the model is used for the first time;
    `verify=False` leaves that out.
    """
    folder = Path(path)
    if not str(path):
        raise BadModelFolder("'': no model folder is named")
    if not folder.is_dir():
        left = sorted(folder.parent.glob(f".{glob.escape(folder.name)}.*.old")) if folder.parent.is_dir() else []
        hint = f"; a save was cut off, the model before it is in {left[0]}" if left else ""
        what = "is a file, not a model folder" if folder.exists() else "no such model folder"
        raise BadModelFolder(f"{path}: {what}{hint}")
    manifest = _read_manifest(folder)
    reader = FolderReader(folder, manifest)
    for name, facts in manifest["files"].items():
        _check_size(folder / name, facts)
        if verify:
            reader.check(name, partial(_check_content, folder / name, facts))
    extra = sorted({file.name for file in folder.iterdir()} - {*manifest["files"], MANIFEST})
    if extra:
        warnings.warn(f"{path}: not part of the model and never read: {', '.join(extra)}", stacklevel=2)
    return reader


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        status = (folder / MANIFEST).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MANIFEST_LIMIT:
            raise BadModelFolder(f"{folder / MANIFEST}: not a file, or too large for a manifest")
        text = (folder / MANIFEST).read_text("utf-8")
        manifest: Any = json.loads(text, object_pairs_hook=_without_repeats)
    except FileNotFoundError:
        raise BadModelFolder(f"{folder}: no {MANIFEST} in it, so this is not an xmtc model folder") from None
    except OSError as error:
        raise BadModelFolder(f"{folder / MANIFEST}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{folder / MANIFEST}: damaged ({error}); restore the folder from a copy") from error
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if (
        type(version) is not int
        or version < 1
        or not isinstance(manifest.get("files"), dict)
        or "config" not in manifest
    ):
        raise BadModelFolder(f"{folder / MANIFEST}: this is no manifest of an xmtc model")
    if version > FORMAT:
        raise BadModelFolder(
            f"{folder}: written in format {version}, this version of xmtc reads up to {FORMAT}; upgrade xmtc"
        )
    if version < FORMAT:
        raise BadModelFolder(
            f"{folder}: made by an older version of xmtc, whose settings had other names: train the model again"
        )
    if manifest.get("checksum") != _checksum(manifest):
        raise BadModelFolder(f"{folder / MANIFEST}: altered after it was written; restore the folder from a copy")
    if not all(map(_plain, manifest["files"])):
        raise BadModelFolder(f"{folder / MANIFEST}: names a file outside of the folder")
    for key, kind in MANIFEST_TYPES.items():
        if not isinstance(manifest.get(key, kind() if key not in ("kind", "config") else None), kind):
            raise BadModelFolder(f"{folder / MANIFEST}: its {key!r} is not of the type that this version expects")
    if not all(map(_is_facts, manifest["files"].values())):
        raise BadModelFolder(f"{folder / MANIFEST}: does not say the size and checksum of each file")
    return dict(manifest)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a key occurs twice")
    return content


def _is_facts(facts: Any) -> bool:
    return isinstance(facts, dict) and type(facts.get("bytes")) is int and isinstance(facts.get("sha256"), str)


def _check_size(file: Path, facts: Mapping[str, Any]) -> None:
    try:
        status = file.stat()
    except FileNotFoundError:
        raise BadModelFolder(f"{file}: missing; restore it from a copy") from None
    except OSError as error:
        raise BadModelFolder(f"{file}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadModelFolder(f"{file}: not a file; restore it from a copy")
    size = status.st_size
    if size < facts["bytes"]:
        raise BadModelFolder(f"{file}: truncated: {size:,} of {facts['bytes']:,} bytes; restore it from a copy")
    if size > facts["bytes"]:
        raise BadModelFolder(f"{file}: altered after it was written; restore it from a copy")


def _check_content(file: Path, facts: Mapping[str, Any]) -> None:
    try:
        found = _sha256(file)
    except OSError as error:
        raise BadModelFolder(f"{file}: cannot be read: {error.strerror}") from error
    if found != facts["sha256"]:
        raise BadModelFolder(f"{file}: altered after it was written; restore it from a copy")


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
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, OSError) as error:
        raise BadModelFolder(f"{file}: not a readable safetensors file: {error}") from error


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
