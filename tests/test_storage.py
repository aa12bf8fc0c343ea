"""The model folder: what is written can be read, and every way in which a folder can be bad has its own sentence."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from xmtc import storage
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder
from xmtc.storage import FolderWriter, opening, writing

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "weights": np.arange(12, dtype=np.float32).reshape(3, 4),
    "empty": np.zeros((0, 3), np.int64),
}


def write(path: Path, **about: Any) -> Path:
    with writing(path, "toy", {"size": 3}, about) as folder:
        folder.labels(LabelSet.of(["a", "b"], names=["Apfel", "Bär"]))
        folder.arrays("part", ARRAYS)
        folder.matrix("matrix", csr_array(np.eye(3, dtype=np.float32)))
        folder.json("facts", {"ä": [1, 2]})
        folder.text("notes.txt", "grüße\n")
    return path


def rewrite_manifest(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    change(manifest)
    manifest["checksum"] = storage._checksum(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def test_round_trip(tmp_path: Path) -> None:
    folder = opening(write(tmp_path / "model", training={"documents": 7}))
    assert folder.kind == "toy"
    assert folder.manifest["config"] == {"size": 3}
    assert folder.manifest["training"] == {"documents": 7}
    assert folder.manifest["libraries"]["numpy"] == np.__version__
    assert folder.labels() == LabelSet.of(["a", "b"], names=["Apfel", "Bär"])
    np.testing.assert_array_equal(folder.arrays("part")["weights"], ARRAYS["weights"])
    assert folder.arrays("part")["empty"].shape == (0, 3)
    np.testing.assert_array_equal(folder.matrix("matrix").toarray(), np.eye(3))
    assert folder.json("facts") == {"ä": [1, 2]}
    assert folder.text("notes.txt") == "grüße\n"


@given(
    hnp.arrays(
        st.sampled_from(sorted({np.dtype(kind) for kind in storage.DTYPES.values()}, key=str)),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    )
)
def test_any_array_survives(array: np.ndarray[Any, Any]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as parent:
        FolderWriter(Path(parent)).arrays("x", {"array": array, "other": np.arange(3)})
        found = storage.read_arrays(Path(parent) / "x.safetensors")["array"]
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


def test_arrays_are_memory_mapped_and_read_only(tmp_path: Path) -> None:
    array = opening(write(tmp_path / "model")).arrays("part")["weights"]
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)


def bad(path: Path, *words: str, verify: bool = True) -> None:
    with pytest.raises(BadModelFolder) as caught:
        opening(path, verify)
    for word in words:
        assert re.search(word, str(caught.value)), f"{word!r} is not in: {caught.value}"


def test_missing_folder(tmp_path: Path) -> None:
    bad(tmp_path / "nothing", "nothing", "no such model folder; give the --out of xmtc train")


def test_file_instead_of_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    bad(tmp_path / "file", "is a file, not a model folder")


def test_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    bad(tmp_path, "not an xmtc model folder")


def test_foreign_manifest(tmp_path: Path) -> None:
    for content in ('{"name": "a web app", "version": 3}', "[]", '"x"', '{"format": "1", "files": {}, "kind": "x"}'):
        (tmp_path / "manifest.json").write_text(content)
        bad(tmp_path, "no manifest of an xmtc model")


def test_damaged_manifest(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    text = (path / "manifest.json").read_bytes()
    (path / "manifest.json").write_bytes(text[: len(text) // 2])
    bad(path, "manifest.json", "damaged")
    (path / "manifest.json").write_bytes(b"\xff\xfe\x00binary")
    bad(path, "manifest.json", "damaged")


def test_altered_manifest(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    text = (path / "manifest.json").read_text("utf-8")
    (path / "manifest.json").write_text(text.replace('"size": 3', '"size": 4'), "utf-8")
    bad(path, "manifest.json", "altered")


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", ["part.safetensors", "labels.safetensors", "facts.json"])
def test_truncated_file(tmp_path: Path, name: str, verify: bool) -> None:
    path = write(tmp_path / "model")
    content = (path / name).read_bytes()
    (path / name).write_bytes(content[:-1])
    bad(path, name, f"truncated: {len(content) - 1:,} of {len(content):,} bytes", verify=verify)


def test_altered_file(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    content = bytearray((path / "part.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "part.safetensors").write_bytes(content)
    bad(path, "part.safetensors", "altered")
    opening(path, verify=False)  # asked not to look


def test_file_that_grew(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    with open(path / "part.safetensors", "ab") as stream:
        stream.write(b"more")
    bad(path, "part.safetensors", "altered", verify=False)


def test_missing_file(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    (path / "facts.json").unlink()
    bad(path, "facts.json", "missing", "restore")


def test_part_that_was_never_there(tmp_path: Path) -> None:
    folder = opening(write(tmp_path / "model"))
    with pytest.raises(BadModelFolder, match=r"no part 'other\.safetensors'"):
        folder.arrays("other")


def test_newer_format(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    rewrite_manifest(path, lambda manifest: manifest.update(format=storage.FORMAT + 1))
    bad(path, f"format {storage.FORMAT + 1}", "upgrade xmtc")


def test_older_format(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    rewrite_manifest(path, lambda manifest: manifest.update(format=storage.OLDEST - 1))
    bad(path, "made by an older version of xmtc", "train the model again")


def test_format_2_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its arrays were not packed, and weights could be float16 as they are."""
    monkeypatch.setattr(storage, "FORMAT", 2)
    monkeypatch.setattr(storage, "pack", lambda arrays, *options: (arrays, {}))
    ends = np.arange(5001, dtype=np.int64)
    half = csr_array((np.ones(5000, np.float16), np.zeros(5000, np.int32), ends), shape=(5000, 3))
    with writing(tmp_path / "model", "toy", {}, {}) as folder:
        folder.matrix("matrix", half)
    monkeypatch.undo()
    found = opening(tmp_path / "model").matrix("matrix")
    assert found.data.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), half.astype(np.float32).toarray())


def test_extra_file_is_named_and_never_read(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    (path / "extra.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"never read: extra\.json"):
        folder = opening(path)
    with pytest.raises(BadModelFolder, match="no part"):
        folder.json("extra")


@pytest.mark.parametrize("name", ["../outside.json", "/etc/passwd", "a/b.json", "..", "a\\b"])
def test_names_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "model")
    rewrite_manifest(path, lambda manifest: manifest["files"].update({name: {"bytes": 1, "sha256": ""}}))
    bad(path, "outside of the folder")


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "model")

    def refuse(file: Path) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))

    monkeypatch.setattr(storage, "_sha256", refuse)  # root, who runs CI, may read everything
    bad(path, "cannot be read", "Permission denied")


def fix_checksums(path: Path, name: str) -> None:
    rewrite_manifest(path, lambda manifest: manifest["files"].update({name: storage._facts(path / name)}))


def array_file(header: str, body: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header.encode() + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"short",
        (1 << 40).to_bytes(8, "little") + b"{}",
        array_file("[]"),
        array_file("not json!"),
        array_file('{"x": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}', b"only this"),
        array_file('{"x": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 1]}}', b"0"),
        array_file('{"x": {"dtype": "U8", "shape": [9], "data_offsets": [-9, 0]}}', b"123456789"),
        array_file('{"x": {"dtype": "U8", "shape": [8], "data_offsets": [0, 9]}}', b"123456789"),
        array_file('{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}}', b"123456789"),
        array_file('{"x": 3}'),
        array_file('{"x": {"dtype": "U8", "shape": [99999999999999999999], "data_offsets": [0, 9]}}', b"123456789"),
        array_file("[" * 100_000),
    ],
)
def test_consistent_but_broken_arrays(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "model")
    (path / "part.safetensors").write_bytes(content)
    fix_checksums(path, "part.safetensors")
    with pytest.raises(BadModelFolder, match=r"part\.safetensors: not a readable safetensors file"):
        opening(path).arrays("part")


def test_matrix_with_indices_outside(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    FolderWriter(path).arrays(
        "matrix",
        {
            "data": np.ones(1, np.float32),
            "indices": np.array([99], np.int32),
            "indptr": np.array([0, 1], np.int32),
            "shape": np.array([1, 3], np.int64),
        },
    )
    fix_checksums(path, "matrix.safetensors")
    with pytest.raises(BadModelFolder, match=r"matrix\.safetensors is damaged: a column is outside of 0 to 2"):
        opening(path).matrix("matrix")


def test_disk_full_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "model", training={"documents": 1})

    def full(self: FolderWriter, file_name: str, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(FolderWriter, "text", full)
    with pytest.raises(BadModelFolder, match="No space left on device; what was there before is untouched"):
        write(path, training={"documents": 2})
    assert opening(path).manifest["training"] == {"documents": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_real_full_disk(tmp_path: Path) -> None:
    """`/dev/full` fails each write as a full disk does."""
    path = write(tmp_path / "model", training={"documents": 1})
    with pytest.raises(BadModelFolder, match="untouched"), writing(path, "toy", {}, {}) as folder:
        (folder._folder / "big.txt").symlink_to("/dev/full")
        folder.text("big.txt", "x" * 100_000)
    assert opening(path).manifest["training"] == {"documents": 1}


def test_replaces_an_older_model(tmp_path: Path) -> None:
    path = write(tmp_path / "model", training={"documents": 1})
    write(path, training={"documents": 2})
    assert opening(path).manifest["training"] == {"documents": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_does_not_overwrite_other_things(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(BadModelFolder, match="other things in it"):
        write(tmp_path / "thesis")
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadModelFolder, match="a file of this name"):
        write(tmp_path / "file")
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


def test_cut_off_between_the_two_renames(tmp_path: Path) -> None:
    write(tmp_path / "model").rename(tmp_path / ".model.123.old")
    bad(tmp_path / "model", r"the model before it is in .*\.model\.123\.old")


def test_source_never_imports_pickle() -> None:
    import ast

    unsafe = {"pickle", "cPickle", "joblib", "dill", "cloudpickle", "shelve", "marshal"}
    package = Path(storage.__file__).parent
    files = list(package.rglob("*.py"))
    assert len(files) > 20
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & unsafe, file
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), file
                assert node.value.value is False, file


def test_files_are_readable_by_whom_the_folder_is(tmp_path: Path) -> None:
    """A model trained by one user is served by another; safetensors makes files that only their owner may read."""
    before = os.umask(0o022)
    try:
        path = write(tmp_path / "model")
    finally:
        os.umask(before)
    assert {file.name: oct(file.stat().st_mode & 0o777) for file in path.iterdir()} == {
        file.name: "0o644" for file in path.iterdir()
    }


def test_a_link_is_followed(tmp_path: Path) -> None:
    write(tmp_path / "v1", training={"documents": 1})
    (tmp_path / "current").symlink_to("v1")
    write(tmp_path / "current", training={"documents": 2})
    assert (tmp_path / "current").is_symlink()
    assert opening(tmp_path / "v1").manifest["training"] == {"documents": 2}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["current", "v1"]


def test_names_with_dots_and_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("model/", "model/../model", "./model", "deep/er/model", "[a]*?"):
        with writing(name, "toy", {}, {}) as folder:
            folder.labels(LabelSet.of(["a"]))
        opening(name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["[a]*?", "deep", "model"]


def test_the_current_folder_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    for name in (".", "..", tmp_path, "/", ""):
        with pytest.raises(BadModelFolder, match=r"current folder|no name for a folder"):
            write(name)  # type: ignore[arg-type]
    assert (tmp_path / "empty").is_dir()


def test_a_mounted_volume_is_never_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "volume").mkdir()
    monkeypatch.setattr("os.path.ismount", lambda path: Path(path).name == "volume")
    with pytest.raises(BadModelFolder, match="name a folder in it"):
        write(tmp_path / "volume")
    write(tmp_path / "volume" / "model")


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()], ids=repr)
def test_nothing_is_lost_if_the_second_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    path = write(tmp_path / "model", training={"documents": 1})
    original = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name.endswith(".part"):
            raise failure
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises((BadModelFolder, KeyboardInterrupt)):
        write(path, training={"documents": 2})
    assert opening(path).manifest["training"] == {"documents": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_another_process_is_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another process appears between our two renames: the last one stays."""
    path = write(tmp_path / "model", training={"documents": 1})
    other = write(tmp_path / "other", training={"documents": 2})
    original = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name.endswith(".part") and other.exists():
            original(other, path)
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    write(path, training={"documents": 3})
    assert opening(path).manifest["training"] == {"documents": 3}
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


SAVE_FOREVER = """
import sys
from xmtc.corpus.labels import LabelSet
from xmtc.storage import writing
labels = LabelSet.of(map(str, range(20000)))
print("begun", flush=True)
while True:
    with writing(sys.argv[1], "toy", {}, {"training": {"documents": 1}}) as folder:
        folder.labels(labels)
"""


def is_whole(folder: Path) -> bool:
    try:
        return len(opening(folder).labels()) == 20000
    except BadModelFolder:
        return False


def test_two_processes_saving_and_kill_9(tmp_path: Path) -> None:
    """Whenever a process is killed, what is there is whole, and the next save clears up."""
    command = [sys.executable, "-c", SAVE_FOREVER, str(tmp_path / "model")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as one,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as two,
    ):
        try:
            for process in (one, two):
                assert process.stdout is not None
                assert process.stdout.readline() == "begun\n"
            time.sleep(1)
        finally:
            failed = [process for process in (one, two) if process.poll() is not None]
            one.kill()
            two.kill()
        assert not failed, failed[0].stderr.read() if failed[0].stderr else ""
    # Killed between its two renames, a process leaves the model before it as `.old`, to which an error points; killed
    # a little later, it leaves an `.old` that it was just deleting.
    assert any(map(is_whole, [tmp_path / "model"] if (tmp_path / "model").exists() else tmp_path.glob(".model.*.old")))
    for folder in tmp_path.iterdir():
        os.utime(folder, (1, 1))  # long ago
    write(tmp_path / "model")
    write(tmp_path / "model")  # what an `.old` held is safe only once there is a new one
    assert [folder.name for folder in tmp_path.iterdir()] == ["model"]


def test_leftovers_of_running_processes_stay(tmp_path: Path) -> None:
    mine, new, foreign = f".model.{os.getppid()}.part", ".model.99999999.part", ".model.notes.part"
    for name in (mine, new, foreign):
        (tmp_path / name).mkdir()
    os.utime(tmp_path / mine, (1, 1))
    os.utime(tmp_path / foreign, (1, 1))
    write(tmp_path / "model")
    assert {mine, new, foreign} <= {file.name for file in tmp_path.iterdir()}


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    """Reading it would wait for ever."""
    path = write(tmp_path / "model")
    (path / "notes.txt").unlink()
    os.mkfifo(path / "notes.txt")
    rewrite_manifest(path, lambda manifest: manifest["files"].update({"notes.txt": {"bytes": 0, "sha256": ""}}))
    bad(path, r"notes\.txt: not a file")
    (path / "manifest.json").unlink()
    os.mkfifo(path / "manifest.json")
    bad(path, r"manifest\.json: not a file")


def test_odd_json_in_the_manifest(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    text = (path / "manifest.json").read_text("utf-8")
    (path / "manifest.json").write_text(text.replace('"kind": "toy"', '"kind": "evil", "kind": "toy"'), "utf-8")
    bad(path, "a key occurs twice")
    (path / "manifest.json").write_text("[" * 100_000, "utf-8")
    bad(path, "damaged")


def test_json_and_text_parts_that_are_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "model")
    for content in (b"{", b"\xff\xfe", b"[" * 100_000):
        (path / "facts.json").write_bytes(content)
        fix_checksums(path, "facts.json")
        with pytest.raises(BadModelFolder, match=r"facts\.json: not"):
            opening(path).json("facts")


def test_a_name_that_is_not_unicode(tmp_path: Path) -> None:
    """A corpus file may be called so, and its name is written into the manifest."""
    path = write(tmp_path / "model", training={"corpus": "b\udcffd.jsonl"})
    assert opening(path).manifest["training"] == {"corpus": "b\udcffd.jsonl"}
