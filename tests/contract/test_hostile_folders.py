"""A folder whose checksums are right but whose content is not: it loads and predicts, or says what is wrong.

Each case runs in this process, so a compiled loop that reads or writes where it must not would take the tests down.
"""

from __future__ import annotations

import json
import os
import pickle  # to make poison of it; the package itself never imports it
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered_folders import Array, change_arrays, change_manifest, renew_checksum
from contract_corpus import QUICK, corpus_for

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, XmtcError
from xmtc.models.base import Model
from xmtc.models.registry import load, make

TEXTS = ["ship wave captain bread", "東京 大阪 街", ""]
ROUNDS = 120


def use(folder: Path) -> None:
    """Do what a server does with a model it was given."""
    model = load(folder)
    top = model.predict(TEXTS, k=3)
    assert np.isfinite(top.scores).all()
    assert top.ids.max(initial=-1) < len(top.labels)
    top.names()
    if model.thresholds_ is not None:
        top.threshold(model.thresholds_).names()
    if model.capabilities.explain:
        model.explain(TEXTS[0], top.labels.key(0))


def damaged(array: Array, rng: np.random.Generator) -> Array:
    """The array with something wrong: values, order, size, type or shape."""
    extremes: list[Any] = [0, -1, 1, 2**31 - 1, 2**40, -(2**62)]
    if array.dtype.kind == "f":
        extremes = [0.0, -1.0, 1e-38, 1e38, np.nan, np.inf]
    kind = rng.integers(8)
    if kind == 0:
        return array[: rng.integers(len(array) + 1)]
    if kind == 1:
        return np.concatenate([array, array[-3:]])
    if kind == 2:
        return rng.permutation(array)
    if kind == 3:
        return array.astype(str(rng.choice(["i4", "i8", "f4", "u1", "u8"])))
    if kind == 4:
        return array.reshape(1, -1)
    if kind == 5:
        return array.view(np.uint8)
    if not len(array):
        return np.ones(3, array.dtype)
    changed = array.copy()
    with np.errstate(all="ignore"):
        value = np.array(extremes[rng.integers(len(extremes))]).astype(array.dtype)
    changed[rng.integers(len(array), size=1 if kind == 6 else 1 + len(array) // 3)] = value
    return changed


_saved: dict[str, Path] = {}


@pytest.fixture
def saved(fitted: Model, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with all parts that a model can have; each test gets its own copy of the folder."""
    if fitted.name not in _saved:
        folder = tmp_path_factory.mktemp("saved") / "model"
        fitted.save(folder)
        corpus = corpus_for(fitted.name)
        load(folder).calibrate(corpus).tune(corpus).save(folder)
        _saved[fitted.name] = folder
    return Path(shutil.copytree(_saved[fitted.name], tmp_path / "model"))


class Poison:
    """A pickle of this makes a folder when it is opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_a_pickle_in_place_of_a_file_is_not_opened(saved: Path, tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    poison = pickle.dumps(Poison(harm))
    pickle.loads(poison)
    harm.rmdir()  # and raises an error unless there was harm
    for file in json.loads((saved / "manifest.json").read_text("utf-8"))["files"]:
        copy = Path(shutil.copytree(saved, tmp_path / "copy"))
        (copy / file).write_bytes(poison)
        renew_checksum(copy, file)
        with nullcontext() if file == "README.md" else pytest.raises(XmtcError):  # which is not opened at all
            load(copy)
        assert not harm.exists()
        shutil.rmtree(copy)


def array_files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.glob("*.safetensors"))


@pytest.mark.filterwarnings("ignore:invalid value")
def test_damaged_arrays(saved: Path) -> None:
    rng = np.random.default_rng(20)
    places = [(file, key) for file in array_files(saved) for key in storage.read_arrays(saved / file)]
    refused = 0
    for _ in range(ROUNDS):
        file, key = places[rng.integers(len(places))]
        copy = saved.with_name("copy")
        shutil.copytree(saved, copy)
        try:
            change_arrays(copy, file, lambda arrays, key=key: arrays.update({key: damaged(arrays[key], rng)}))  # type: ignore[misc]
            use(copy)
        except XmtcError:
            refused += 1
        finally:
            shutil.rmtree(copy)
    assert refused > ROUNDS / 4, "too few of these folders were found out for this to be a test"


def test_missing_arrays(saved: Path) -> None:
    for file in array_files(saved):
        for key in storage.read_arrays(saved / file):
            copy = saved.with_name("copy")
            shutil.copytree(saved, copy)
            change_arrays(copy, file, lambda arrays, key=key: arrays.pop(key))  # type: ignore[misc]
            with pytest.raises(BadModelFolder):
                use(copy)
                raise BadModelFolder("optional, so nothing is wrong")
            shutil.rmtree(copy)


ODD_MANIFESTS: dict[str, list[Any]] = {
    "config": [None, [], {"seed": "x"}, {"evil": 1}, {"seed": -1}],
    "kind": [None, [], 3],
    "training": [[], {}, *({"documents": count} for count in ("9", 0, -5, None))]
    + [{"documents": 9, "shrunk": facts} for facts in (3, {}, {"weights": "int1", "share": 1}, {"weights": "int8"})],
    "files": [
        *({"labels.safetensors": facts} for facts in (None, {}, {"bytes": "1", "sha256": 3})),
        {},
        {"": {"bytes": 0, "sha256": ""}},
    ],
    "format": [True, -1, 1e300, None],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in ODD_MANIFESTS.items() for value in values])
@pytest.mark.filterwarnings("ignore:.*not part of the model")
def test_odd_manifests(saved: Path, key: str, value: Any) -> None:
    change_manifest(saved, lambda manifest: manifest.update({key: value}))
    with pytest.raises(XmtcError):
        use(saved)


def test_folder_of_an_older_version(saved: Path) -> None:
    change_manifest(saved, lambda manifest: manifest.update(format=storage.OLDEST - 1))
    with pytest.raises(BadModelFolder, match="older version of xmtc, whose settings had other names: train"):
        load(saved)


def test_labels_of_another_model(saved: Path, tmp_path: Path, name: str) -> None:
    """The parts of two models, each of them good, do not make a third."""
    few = Corpus.of(["ship a", "bread b"], [["a"], ["b"]])
    make(name, **QUICK.get(name, {})).fit(few).calibrate(few).tune(few).save(tmp_path / "few")
    # They are about scores, or about kinds of matches, not about labels or words.
    fit_any = ("calibration.safetensors", "curve.safetensors", *(["ranking.safetensors"] if name == "mllm" else []))
    files = [file for file in array_files(saved) if file not in fit_any]
    for file in files:
        copy = saved.with_name("copy")
        shutil.copytree(saved, copy)
        shutil.copy(tmp_path / "few" / file, copy / file)
        renew_checksum(copy, file)
        with pytest.raises(BadModelFolder):
            use(copy)
        shutil.rmtree(copy)


WRONG: dict[str, list[dict[str, Array]]] = {
    "calibration": [
        {"at": np.array([0.5, 0.4]), "probability": np.array([0.1, 0.2])},
        {"at": np.array([0.4, 0.5]), "probability": np.array([0.2, 0.1])},
        {"at": np.array([0.4, np.nan]), "probability": np.array([0.1, 0.2])},
        {"slope": np.array([-1.0]), "offset": np.array([0.0]), "of_probabilities": np.ones(1, np.uint8)},
        {"slope": np.array([1.0]), "offset": np.array([np.nan]), "of_probabilities": np.ones(1, np.uint8)},
        {},
    ],
    "thresholds": [
        {"each": np.zeros(1, np.float32), "common": np.zeros(1, np.float32)},
        {"each": np.full(6, np.nan, np.float32), "common": np.zeros(1, np.float32)},
        {"each": np.zeros(6, np.float32), "common": np.full(1, np.nan, np.float32)},
        {"each": np.zeros(6), "common": np.zeros(1)},
    ],
}


@pytest.mark.parametrize(("part", "at"), [(part, at) for part, cases in WRONG.items() for at in range(len(cases))])
def test_no_calibration_and_no_thresholds(saved: Path, part: str, at: int) -> None:
    def change(arrays: dict[str, Array]) -> None:
        arrays.clear()
        arrays.update(WRONG[part][at])

    change_arrays(saved, f"{part}.safetensors", change)
    with pytest.raises(BadModelFolder, match=f"{part}.safetensors"):
        load(saved)


def parents(size: int, above: list[int]) -> dict[str, Array]:
    return {"parents.indices": np.array(above, np.int32), "parents.indptr": np.arange(size + 1, dtype=np.int64)}


def bad_parents(size: int) -> Iterator[dict[str, Array]]:
    yield parents(size, [1, 0, *range(size - 2)])  # a cycle
    yield parents(size, [*range(size)])  # each its own parent
    yield parents(size, [size] * size)
    yield parents(size, [-1] * size)
    yield {**parents(size, [0] * size), "parents.indptr": np.arange(size, -1, -1, dtype=np.int64)}
    yield {"parents.indices": np.array([0], np.int32)}


def test_bad_parents(saved: Path) -> None:
    size = len(load(saved).labels_ or ())
    for wrong in bad_parents(size):
        copy = saved.with_name("copy")
        shutil.copytree(saved, copy)
        change_arrays(copy, "labels.safetensors", lambda arrays, wrong=wrong: arrays.update(wrong))  # type: ignore[misc]
        with pytest.raises(BadModelFolder):
            use(copy)
        shutil.rmtree(copy)


def test_small_corpus_is_what_the_folders_hold(saved: Path, corpus: Corpus) -> None:
    """Unchanged, the folder is good: the tests above fail for the change and for nothing else."""
    use(saved)
    assert (load(saved).labels_ or ()) == corpus.labels
