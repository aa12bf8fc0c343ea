"""`xmtc warm` as the build of an image would call it, and wrong ways to call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import pytest

from xmtc import kernels
from xmtc.cli import main
from xmtc.cli.warm import chosen
from xmtc.corpus.io import read, write
from xmtc.data import demo_folder
from xmtc.kernels.cache import LOCK
from xmtc.models.registry import make
from xmtc.text.document_features import DocumentVectors
from xmtc.text.tfidf import TfIdfSettings

compiles = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

#: Runs commands, then prints what numba compiled, seen where numba does it, and all versions that were used.
WATCHED = """
import json, sys
from numba.core import compiler
made = []
original = compiler.compile_extra
def watched(typing, target, function, *arguments, **options):
    made.append(function.__name__)
    return original(typing, target, function, *arguments, **options)
compiler.compile_extra = watched
for words in json.loads(sys.argv[1]):
    if words[0] == "worker":
        from xmtc.cli import warm_worker
        sys.argv = words
        assert warm_worker.main() == 0
    else:
        from xmtc.cli import main
        assert main(words) == 0, words
from xmtc import kernels
used = sorted({f"{kernel.py_func.__qualname__} {types}" for kernel in kernels._kernels for types in kernel.overloads})
print(json.dumps({"compiled": made, "used": used}))
"""
CORE = ("knn", "rocchio", "parabel", "bonsai", "dismec", "fasttext", "extremetext")


def watched(*commands: list[str], wrapper: tuple[str, ...] = (), **environment: str) -> dict[str, list[str]]:
    run = subprocess.run(
        [*wrapper, sys.executable, "-c", WATCHED, json.dumps(commands)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found: dict[str, list[str]] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some tagged texts."""
    path = tmp_path_factory.mktemp("corpus") / "docs.jsonl"
    write(read(demo_folder())[200:300], path)
    return path


def uses(corpus: Path, out: Path, *methods: str) -> list[list[str]]:
    """The commands that train and use models."""
    commands = []
    for method in methods:
        model = str(out / method)
        commands += [
            ["train", str(corpus), "--model", method, "--out", model, "--valid", "0.2"],
            ["evaluate", model, str(corpus)],
            ["predict", model, str(corpus), "--out", str(out / f"{method}.jsonl")],
        ]
    return commands


@compiles
def test_every_version_that_the_core_methods_use_is_compiled(corpus: Path, tmp_path: Path) -> None:
    warm = watched(["worker", str(tmp_path), *chosen(None)])
    used = watched(*uses(corpus, tmp_path, *CORE))
    assert len(used["used"]) > 20
    assert not set(used["used"]) - set(warm["used"])


@compiles
def test_every_version_that_a_model_folder_uses_is_compiled(corpus: Path, tmp_path: Path) -> None:
    model = str(tmp_path / "tagger")
    assert main(["train", str(corpus), "--model", "parabel", "--set", "trees=1", "--out", model, "--valid", "0.2"]) == 0
    warm = watched(["worker", str(tmp_path), model])
    asked = [["predict", model, str(corpus)], ["predict", model, str(corpus), "--threshold", "0.3"]]
    used = watched(*asked, ["explain", model, "--text", "a fast mail server"])
    assert len(used["used"]) > 5
    assert not set(used["used"]) - set(warm["used"])


def copied_cache(place: Path) -> Path:
    """A folder for NUMBA_CACHE_DIR with what this process's cache has: compiling takes a minute."""
    from numba.core.caching import CompileResultCacheImpl

    from xmtc.kernels.csr import local_rows

    folder = place / CompileResultCacheImpl._locator_classes[0].get_suitable_cache_subpath(kernels.__file__)
    folder.mkdir(parents=True)
    kernel: Any = local_rows
    for file in Path(kernel._cache.place).glob("*.nb[ci]"):
        (folder / file.name).write_bytes(file.read_bytes())
    return place


@compiles
def test_in_a_read_only_folder_nothing_is_compiled_again(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cache = copied_cache(tmp_path / "cache")
    assert main(["warm", "--cache", str(cache), "--models", "knn, dismec"]) == 0
    out, err = capfd.readouterr()
    assert out.strip() == str(cache)
    assert "MB of compiled code" in err
    assert f"export NUMBA_CACHE_DIR={cache}" in err
    script = f'mount --bind "{cache}" "{cache}" && mount -o remount,ro,bind "{cache}" && exec "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", script, "sh")
    try:
        allowed = subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        allowed = False
    if not allowed:
        pytest.skip("this system does not let a test mount")
    before = sorted((file.name, file.stat().st_mtime_ns) for file in cache.rglob("*"))
    found = watched(*uses(corpus, tmp_path, "knn", "dismec"), wrapper=wrapper, NUMBA_CACHE_DIR=str(cache))
    assert found["compiled"] == []
    assert sorted((file.name, file.stat().st_mtime_ns) for file in cache.rglob("*")) == before


@compiles
def test_warm_adds_what_is_missing_and_two_may_do_so_at_once(tmp_path: Path) -> None:
    cache = copied_cache(tmp_path / "cache")
    missing = list(cache.rglob("*.find_hits-*"))
    assert missing
    for file in missing:
        file.unlink()
    words = ["warm", "--cache", str(cache), "--models", "prior"]
    command = [sys.executable, "-c", "from xmtc.cli import run; run()", *words]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [run.communicate(timeout=300)[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert sorted(cache.rglob("*.find_hits-*"))
    assert list(cache.rglob(LOCK))
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\n0 versions of kernels compiled" in again.stderr


BAD = {
    "no such method": (["--models", "knnn"], "did you mean 'knn'"),
    "a method with an extra": (["--models", "attentionxml"], "without an extra"),
    "a folder that is no model": (["--models", "./folder"], "no manifest.json in it"),
    "a folder that is not there": (["--models", "some/folder"], "no such model folder"),
    "only commas": (["--models", ",,"], "no method is named"),
    "an empty cache": (["--cache", ""], "no folder is named"),
    "a blank cache": (["--cache", "  "], "no folder is named"),
    "a file as cache": (["--cache", "file"], "cannot be written"),
    "a cache below a file": (["--cache", "file/cache"], "cannot be written"),
    "a device as cache": (["--cache", "/dev/null"], "cannot be written"),
    "a cache where nothing can be made": (["--cache", "/proc/cache"], "cannot be written"),
    "a name that is too long": (["--cache", "x" * 300], "cannot be written"),
    "a name with a zero byte": (["--cache", "a\0b"], "cannot be written"),
    "an argument": (["knn"], "unexpected extra argument"),
    "an unknown option": (["--model", "knn"], "--models"),
    "no value": (["--cache"], "requires an argument"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_calls(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("not a folder")
    Path("folder").mkdir()
    words, expected = BAD[name]
    assert main(["warm", *words]) == 2
    out, err = capsys.readouterr()
    assert expected in err
    assert err.count("\n") == 1
    assert out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@compiles
def test_a_model_that_knows_no_texts_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = read(demo_folder())[:20]
    features = replace(texts, texts=None, features=DocumentVectors(TfIdfSettings()).fit_transform(texts))
    make("dismec").fit(features).save(tmp_path / "vectors")
    assert main(["warm", "--models", str(tmp_path / "vectors")]) == 2
    *_, last = capsys.readouterr().err.splitlines()
    assert last.endswith("vectors: this dismec model was not trained on texts; name its method in place of the folder")


def test_without_a_compiler_there_is_nothing_to_warm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert main(["warm"]) == 2
    assert "NUMBA_DISABLE_JIT is set" in capsys.readouterr().err


@compiles
def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a container whose file system is read-only, with a cache that lacks something."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'xmtc.cli.warm_worker' in sys.orig_argv:\n"
        "    import tempfile\n"
        "    from numba.core.caching import IndexDataCacheFile as File\n"
        "    def refuse(*_, **__):\n        raise PermissionError(13, 'Permission denied')\n"
        "    tempfile.TemporaryFile, load = refuse, File.load\n"
        "    File.load = lambda self, key: None if '.find_hits-' in self._index_name else load(self, key)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert main(["warm", "--models", "prior"]) == 2
    err = capsys.readouterr().err
    assert err.splitlines()[-1].endswith("cannot be written; name a folder that can: xmtc warm --cache DIR")
