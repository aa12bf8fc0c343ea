"""The model folder: plain files under a manifest with checksums; no pickle anywhere.

manifest.json          kind, format version, config, library versions, how it was trained, size and SHA-256 of files
labels.safetensors     the label set
NAME.safetensors       arrays, read by memory mapping; whole numbers and rounded weights packed, see `xmtc.packing`
NAME.json, tokenizer.json, ...
README.md              the model card, for people: never read here
"""

from __future__ import annotations

import glob
import hashlib
import json
import stat
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc import hub
from xmtc.atomic_folder import MANIFEST, replacing_folder
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.sources import check_path
from xmtc.corpus.sparse import Csr, check_arrays, check_indices, make_csr
from xmtc.corpus.strings import Strings
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.packing import header_of, pack, unpack

FORMAT = 3
OLDEST = 2  # format that is still read: its arrays are not packed
LIBRARIES = ("xmtc", "numpy", "scipy", "numba", "tokenizers", "safetensors", "torch", "transformers")
MANIFEST_LIMIT = HEADER_LIMIT = 100 << 20
CARD = "README.md"
SMALL_FILE = 4 << 20  # read and checked in a few milliseconds
Check = Callable[[], object]
MANIFEST_TYPES = {"kind": str, "created": str} | dict.fromkeys(
    ("config", "training", "reading", "metrics", "libraries"), dict
)
DTYPES = {"BOOL": "?"} | {
    f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "UIF" for size in (1, 2, 4, 8) if (kind, size) != ("F", 1)
}


class FolderWriter:
    """Writes the parts of a model; see `writing`. Weights are written as `weight_type`: float32, float16 or int8."""

    def __init__(self, folder: Path, prefix: str = "", weight_type: str = "float32") -> None:
        self._folder, self._prefix, self._weight_type = folder, prefix, weight_type

    def part(self, name: str) -> FolderWriter:
        """The writer for a model inside the model: the same folder, with file names that begin with NAME-."""
        return FolderWriter(self._folder, f"{self._prefix}{name}-")

    def rounding(self, weight_type: str) -> FolderWriter:
        """The writer for the same place that writes weights as this type."""
        return FolderWriter(self._folder, self._prefix, weight_type)

    def arrays(self, name: str, arrays: Mapping[str, NDArray[Any]], weights: Collection[str] = ()) -> None:
        """Write named arrays as NAME.safetensors; those named in `weights` may be rounded, others lose nothing."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        stored, packed = pack(arrays, weights, self._weight_type)
        contiguous = {key: np.ascontiguousarray(value) for key, value in stored.items()}
        try:
            save_file(contiguous, self._path(f"{name}.safetensors"), header_of(packed))
        except SafetensorError as error:  # such as a full disk
            raise OSError(str(error)) from error

    def matrix(self, name: str, matrix: Csr, weights: bool = False) -> None:
        """Write a CSR matrix as NAME.safetensors; `weights`: its numbers may be rounded."""
        arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        self.arrays(name, {**arrays, "shape": np.array(matrix.shape, np.int64)}, ["data"] if weights else [])

    def strings(self, name: str, strings: Strings) -> None:
        """Write a column of strings as NAME.safetensors."""
        utf8, offsets = strings.compact()
        self.arrays(name, {"utf8": utf8, "offsets": offsets})

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
    """Write a model folder, which replaces an older model at `path` when the block succeeds.

    `config` are the model's hyper-parameters, `about` goes into the manifest too (training, metrics).
    """
    with replacing_folder(path) as folder:
        yield FolderWriter(folder)
        manifest = {
            "format": FORMAT,
            "kind": kind,
            "config": dict(config),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "libraries": library_versions(),
            **about,
            "files": {file.name: _facts(file) for file in sorted(folder.iterdir())},
        }
        manifest["checksum"] = _checksum(manifest)
        text = json.dumps(manifest, ensure_ascii=False, indent=1)
        # The name of a corpus file need not be Unicode; the escape for such a byte is JSON's own.
        (folder / MANIFEST).write_bytes(text.encode("utf-8", "backslashreplace"))
        usual = stat.S_IMODE((folder / MANIFEST).stat().st_mode)
        for file in folder.iterdir():
            file.chmod(usual)  # safetensors makes files that only their owner may read, which a server often is not


class FolderReader:
    """A checked model folder; see `opening`."""

    def __init__(self, folder: Path, manifest: dict[str, Any], checks: list[Check], prefix: str = "") -> None:
        self.folder, self.manifest = folder, manifest
        self._checks, self._prefix = checks, prefix

    def part(self, name: str, facts: Mapping[str, Any]) -> FolderReader:
        """The reader for what `FolderWriter.part` wrote; `facts` (kind, config, training) stand for its manifest."""
        manifest = {**facts, "files": self.manifest["files"]}
        return FolderReader(self.folder, manifest, self._checks, f"{self._prefix}{name}-")

    def check(self, file_name: str, check: Check) -> None:
        """Check a part from end to end: now if it is small, else before the model is used for the first time.

        So a model opens at once, whatever its size, and still nothing damaged is ever used.
        """
        if self.manifest["files"][self._prefix + file_name]["bytes"] <= SMALL_FILE:
            check()
        else:
            self._checks.append(check)

    def finish_checks(self) -> None:
        """Run the postponed checks; BadModelFolder if a part is damaged."""
        if self._checks:
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda check: check(), self._checks))
            self._checks.clear()

    @property
    def kind(self) -> str:
        """The name of the method in the catalogue."""
        return str(self.manifest["kind"])

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of NAME.safetensors: memory-mapped and read-only, but for those that were packed."""
        return read_arrays(self._path(f"{name}.safetensors"))

    def matrix(self, name: str, shape: tuple[int | None, int | None] = (None, None)) -> Csr:
        """The CSR matrix NAME, float32, memory-mapped; an error if it is not of the given shape."""
        with self.building(name):
            arrays = self.arrays(name)
            rows, columns = map(int, arrays["shape"])
            if arrays["data"].dtype not in (np.float32, np.float16):
                raise ValueError(f"its numbers are of the type {arrays['data'].dtype}")
            data = arrays["data"].astype(np.float32, copy=False)  # format 2 had float16 as it is
            parts = (data, arrays["indices"], arrays["indptr"], (rows, columns))
            if shape[0] not in (None, rows) or shape[1] not in (None, columns):
                raise ValueError(f"its shape is {rows, columns}, not {shape}")
            check_arrays(*parts)
            self.check(f"{name}.safetensors", partial(self.building(name)(check_indices), *parts))
            return make_csr(*parts)

    def strings(self, name: str, count: int) -> Strings:
        """The column of strings NAME, memory-mapped; an error if there are not as many."""
        with self.building(name):
            arrays = self.arrays(name)
            utf8, offsets = arrays["utf8"], arrays["offsets"]
            if offsets.shape != (count + 1,):
                raise ValueError(f"it has {len(offsets) - 1:,} strings, not {count:,}")
            self.check(f"{name}.safetensors", partial(self.building(name)(Strings.checked), utf8, offsets))
            return Strings.from_offsets(utf8, offsets)

    def labels(self) -> LabelSet:
        """The label set."""
        with self.building("labels"):
            return LabelSet.from_arrays(self.arrays("labels"))

    @contextmanager
    def building(self, name: str) -> Iterator[None]:
        """Build an object from the arrays of NAME.safetensors; what does not fit becomes a BadModelFolder error.

        Checksums find accidents. A file that was written wrong, or to do harm, must not reach a compiled loop either,
        so code that builds an object from stored arrays checks them and raises KeyError or ValueError.
        """
        try:
            yield
        except BadModelFolder:
            raise
        except (XmtcError, KeyError, ValueError, TypeError, OverflowError, IndexError) as error:
            what = f"lacks {error}" if isinstance(error, KeyError) else f"is damaged: {error}"
            file = f"{self._prefix}{name}.safetensors"
            raise BadModelFolder(f"{self.folder}: {file} {what}; restore it from a copy") from error

    def json(self, name: str) -> Any:
        """The JSON data of NAME.json."""
        try:
            return json.loads(self.text(f"{name}.json"))
        except (ValueError, RecursionError) as error:
            raise BadModelFolder(f"{self._path(f'{name}.json')}: not JSON: {error}; restore it from a copy") from error

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

    def card_is_original(self) -> bool:
        """Whether the model card is as it was written; True where there is none."""
        facts = self.manifest["files"].get(CARD)
        try:
            return facts is None or _facts(self.folder / CARD) == facts
        except OSError:
            return False

    def _path(self, file_name: str) -> Path:
        full = self._prefix + file_name
        if not self.has(file_name):
            raise BadModelFolder(f"{self.folder}: the model has no part {full!r}; save it again with this version")
        return self.folder / full


def opening(path: str | Path, verify: bool = True) -> FolderReader:
    """Check a model folder and give access to its parts.

    Large files are compared with their checksums only before the model is used for the first time, with `verify=False`
    never. `hf://user/name[@revision]` is downloaded from the Hub.
    """
    check_path(path, "load", "the name of a model folder")
    if not str(path):
        raise BadModelFolder("'': no model folder is named")
    remote = hub.is_address(path)
    folder = hub.download(path) if remote else Path(path)
    if not folder.is_dir():
        left = sorted(folder.parent.glob(f".{glob.escape(folder.name)}.*.old")) if folder.parent.is_dir() else []
        hint = f"a save was cut off, the model before it is in {left[0]}" if left else "give the --out of xmtc train"
        problem = "is a file, not a model folder" if folder.exists() else "no such model folder"
        raise BadModelFolder(f"{path}: {problem}; {hint}")
    manifest = _read_manifest(folder)
    reader = FolderReader(folder, manifest, [])
    for name, facts in manifest["files"].items():
        if name == CARD:  # people edit it, on the Hub for example, and no result depends on it
            continue
        _check_size(folder / name, facts)
        if verify:
            reader.check(name, partial(_check_content, folder / name, facts))
    # Hidden files are git's or the system's; the cache of the Hub's library may hold what other programs downloaded.
    seen = set() if remote else {file.name for file in folder.iterdir() if not file.name.startswith(".")}
    if extra := sorted(seen - {*manifest["files"], MANIFEST, CARD}):
        warnings.warn(f"{path}: not part of the model and never read: {', '.join(extra)}", stacklevel=2)
    return reader


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MANIFEST_LIMIT:
            raise BadModelFolder(f"{file}: not a file, or too large for a manifest")
        manifest: Any = json.loads(file.read_text("utf-8"), object_pairs_hook=_without_repeats)
    except FileNotFoundError:
        raise BadModelFolder(f"{folder}: no {MANIFEST} in it, so this is not an xmtc model folder") from None
    except OSError as error:
        raise BadModelFolder(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{file}: damaged ({error}); restore the folder from a copy") from error
    version: Any = manifest.get("format") if isinstance(manifest, dict) else None
    known = type(version) is int and version >= 1
    if not known or not isinstance(manifest.get("files"), dict) or "config" not in manifest:
        raise BadModelFolder(f"{file}: this is no manifest of an xmtc model")
    if version > FORMAT:
        raise BadModelFolder(f"{folder}: written in format {version}, this xmtc reads up to {FORMAT}; upgrade xmtc")
    if version < OLDEST:
        raise BadModelFolder(
            f"{folder}: made by an older version of xmtc, whose settings had other names: train the model again"
        )
    if manifest.get("checksum") != _checksum(manifest):
        raise BadModelFolder(f"{file}: altered after it was written; restore the folder from a copy")
    if not all(map(_plain, manifest["files"])):
        raise BadModelFolder(f"{file}: names a file outside of the folder")
    for key, kind in MANIFEST_TYPES.items():
        if not isinstance(manifest.get(key, kind() if key not in ("kind", "config") else None), kind):
            raise BadModelFolder(f"{file}: its {key!r} is not of the type that this version expects")
    if not all(map(_is_facts, manifest["files"].values())):
        raise BadModelFolder(f"{file}: does not say the size and checksum of each file")
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
    size, expected = status.st_size, facts["bytes"]
    if not stat.S_ISREG(status.st_mode):
        raise BadModelFolder(f"{file}: not a file; restore it from a copy")
    if size < expected:
        raise BadModelFolder(f"{file}: truncated: {size:,} of {expected:,} bytes; restore it from a copy")
    if size > expected:
        raise BadModelFolder(f"{file}: altered after it was written; restore it from a copy")


def _check_content(file: Path, facts: Mapping[str, Any]) -> None:
    try:
        altered = _sha256(file) != facts["sha256"]
    except OSError as error:
        raise BadModelFolder(f"{file}: cannot be read: {error.strerror}") from error
    if altered:
        raise BadModelFolder(f"{file}: altered after it was written; restore it from a copy")


def read_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file as `FolderWriter.arrays` was given them."""
    stored, packed = _mapped(file)
    try:
        return unpack(stored, packed) if packed else stored
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise BadModelFolder(f"{file}: a packed array is damaged: {error}; restore it from a copy") from error


def _mapped(file: Path) -> tuple[dict[str, NDArray[Any]], Any]:
    """(arrays of a safetensors file as views on a memory map, how the packed ones are to be read)."""
    try:
        raw = np.memmap(file, np.uint8, "r")
        size = int(raw[:8].view("<u8")[0])
        if size > min(HEADER_LIMIT, len(raw) - 8):
            raise ValueError("the header is longer than the file")
        header = json.loads(raw[8 : 8 + size].tobytes())
        packed = json.loads(header.pop("__metadata__", {}).get("packed", "{}"))
        body = raw[8 + size :]
        arrays = {}
        for name, entry in header.items():
            start, end = entry["data_offsets"]
            if not 0 <= start <= end <= len(body):
                raise ValueError(f"array {name!r} lies outside of the file")
            arrays[name] = np.asarray(body[start:end]).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        return arrays, packed
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


def library_versions() -> dict[str, str]:
    """The versions of the libraries that a model's results depend on, as far as they are installed."""
    versions = {}
    for library in LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[library] = metadata.version(library)
    return versions
