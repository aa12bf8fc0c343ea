"""`shrink`: the limits are kept, what is said is what is written, and bad input is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, NotFitted, XmtcError
from xmtc.evaluation import shrinking
from xmtc.evaluation.evaluate import evaluate
from xmtc.evaluation.shrinking import MAIN, Shrunk, in_mb, shrink
from xmtc.models.base import Model
from xmtc.models.ensemble.blend import Blend
from xmtc.models.registry import load, make
from xmtc.storage import opening

LABELS, WORDS = 40, 60


def documents(count: int, seed: int) -> Corpus:
    """Each label has words of its own, most of them rare, and a document has some of them and one of another label."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, WORDS + 1)
    texts, tags = [], []
    for _ in range(count):
        labels = rng.choice(LABELS, 3, replace=False)
        own = labels.repeat([3, 3, 1]) * WORDS + rng.choice(WORDS, 7, p=chance / chance.sum())
        texts.append(" ".join(f"w{word}" for word in own.tolist()))
        tags.append([f"t{label}" for label in labels[:2].tolist()])
    return Corpus.of(texts, tags, name=f"made up {seed}")


@pytest.fixture(scope="module")
def valid() -> Corpus:
    return documents(300, 1)


@pytest.fixture(scope="module")
def dismec() -> Model:
    return make("dismec", smallest_weight=0.001).fit(documents(800, 0))


@pytest.fixture(scope="module")
def fasttext() -> Model:
    return make("fasttext", dimensions=16, epochs=2).fit(documents(800, 0))


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_the_smallest_folder_within_a_loss(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(dismec, tmp_path / "small", valid, loss=1.0)
    full = evaluate(dismec, valid).values[MAIN]
    assert full - evaluate(load(tmp_path / "small"), valid).values[MAIN] == pytest.approx(found.loss(found.chosen))
    within = [trial for trial in found.trials if (found.loss(trial) or 0) <= 1.0]
    assert found.chosen.bytes == min(trial.bytes for trial in within) < 0.5 * found.trials[0].bytes
    assert found.chosen.weights == "int8" and found.chosen.share < 1
    assert found.chosen.bytes <= size(tmp_path / "small") <= found.chosen.bytes + shrinking.FIGURES


def test_no_loss_allowed_keeps_what_is_free(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(dismec, tmp_path / "small", valid, loss=0)
    assert (found.loss(found.chosen) or 0) <= 0


def test_with_nothing_said_a_tenth_may_be_lost(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(dismec, tmp_path / "small", valid)
    assert (found.loss(found.chosen) or 0) <= 0.1


def test_the_best_folder_of_a_size(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    whole = shrink(dismec, tmp_path / "whole", mb=100).chosen.mb
    limit = whole / 3
    found = shrink(dismec, tmp_path / "small", valid, mb=limit)
    assert 0.85 * limit < size(tmp_path / "small") / 1e6 <= limit
    fitting = [trial.values[MAIN] for trial in found.trials if trial.bytes + shrinking.FIGURES <= limit * 1e6]
    assert found.chosen.values[MAIN] == max(fitting)


def test_a_size_without_documents_measures_nothing(dismec: Model, tmp_path: Path) -> None:
    limit = shrink(dismec, tmp_path / "whole", mb=100).chosen.mb / 3
    found = shrink(dismec, tmp_path / "small", mb=limit)
    assert not found.documents and found.loss(found.chosen) is None
    assert found.chosen.share == max(trial.share for trial in found.trials if trial.mb <= limit)
    assert "quality was not measured" in str(found)
    assert "loss" not in load(tmp_path / "small").training_["shrunk"]


def test_rounding_before_pruning(dismec: Model, tmp_path: Path) -> None:
    """Where float16 is small enough nothing is dropped."""
    sizes = {trial.weights: trial.mb for trial in shrink(dismec, tmp_path / "whole", mb=100).trials}
    found = shrink(dismec, tmp_path / "small", mb=sizes["float16"] + 1e-3)
    assert (found.chosen.weights, found.chosen.share) == ("float16", 1.0)


def test_a_model_that_can_only_be_rounded(fasttext: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(fasttext, tmp_path / "small", valid, loss=5)
    assert [trial.weights for trial in found.trials] == ["float32", "float16", "int8"]
    assert found.chosen.weights == "int8"
    tables = fasttext.table_.nbytes + fasttext.weights_.nbytes  # type: ignore[attr-defined]
    assert found.trials[0].bytes - found.chosen.bytes > 0.65 * tables


def test_what_was_done_is_in_the_manifest(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(dismec, tmp_path / "small", valid, loss=0.5)
    facts = opening(tmp_path / "small").manifest
    assert facts["training"]["shrunk"] == {
        "weights": found.chosen.weights,
        "share": found.chosen.share,
        "loss": round(found.loss(found.chosen) or 0, 3),
        "documents": 300,
        "fingerprint": valid.fingerprint(),
    }
    assert facts["metrics"]["validation"][MAIN] == found.chosen.values[MAIN]
    assert facts["config"] == dismec.config.model_dump(mode="json")  # how it was trained


def test_a_shrunk_model_learns_further_and_stays_small(dismec: Model, tmp_path: Path) -> None:
    shrink(dismec, tmp_path / "small", mb=dismec_mb(dismec, tmp_path) / 2)
    model = load(tmp_path / "small")
    model.partial_fit(Corpus.of(["kiwi mango"] * 3, [["fruit"]] * 3)).save(tmp_path / "more")
    assert load(tmp_path / "more").weight_type == model.weight_type != "float32"
    assert load(tmp_path / "more").predict(["kiwi"], 1).names()[0][0][0] == "fruit"


def dismec_mb(model: Model, tmp_path: Path) -> float:
    model.save(tmp_path / "as-it-is")
    return size(tmp_path / "as-it-is") / 1e6


def test_shrinking_twice_multiplies_the_shares(dismec: Model, tmp_path: Path) -> None:
    dismec.shrunk("int8", 0.5).save(tmp_path / "half")
    quarter = load(tmp_path / "half").shrunk("int8", 0.5)
    assert quarter.training_["shrunk"] == {"weights": "int8", "share": 0.25}
    kept = quarter.index_.columns.nnz / dismec.index_.columns.nnz  # type: ignore[attr-defined]
    assert kept == pytest.approx(0.25, abs=0.05)  # int8 has ties


def test_fitting_again_forgets_it(dismec: Model, tmp_path: Path) -> None:
    dismec.shrunk("int8", 0.5).save(tmp_path / "half")
    model = load(tmp_path / "half").fit(documents(50, 3))
    assert model.weight_type == "float32" and "shrunk" not in model.training_


def test_ensembles_shrink_their_members(tmp_path: Path) -> None:
    train, valid = documents(300, 0), documents(1000, 1)  # so many that a blend is preferred to its best member

    def blend_of(*names: str) -> Model:
        return Blend.of([make(name).fit(train) for name in names], valid)

    blend = blend_of("knn", "dismec")
    assert blend.shrinking == {"prune", "round"}
    blend.shrunk("int8", 0.3).save(tmp_path / "small")
    small = load(tmp_path / "small")
    by_name = {member.name: member for member in small.members_}  # type: ignore[attr-defined]
    assert by_name["dismec"].weight_type == "int8" and by_name["dismec"].training_["shrunk"]["share"] == 0.3
    assert by_name["knn"].weight_type == "float32"
    with pytest.raises(ConfigError, match="no weights that could be"):
        shrink(blend_of("knn", "prior"), tmp_path / "x", mb=1)


@pytest.mark.parametrize("name", ["parabel", "fastxml", "pfastrexml", "rocchio", "ppd_sparse"])
def test_pruning_keeps_the_largest(name: str, tmp_path: Path) -> None:
    model = make(name, **({"trees": 3} if name not in ("rocchio", "ppd_sparse") else {})).fit(documents(200, 0))
    small = model.shrunk("float32", 0.25)
    for old, new in zip(weights_of(model), weights_of(small), strict=True):
        assert len(new) == pytest.approx(0.25 * len(old), abs=2 + 0.02 * len(old))
        np.testing.assert_array_equal(np.sort(np.abs(new)), np.sort(np.abs(old))[len(old) - len(new) :])


def weights_of(model: Any) -> list[Any]:
    if hasattr(model, "index_"):
        return [model.index_.columns.data]
    if isinstance(model.trees_, list):
        return [tree.weights.weights for tree in model.trees_]
    centroids = [model.centroids_.data] if hasattr(model, "centroids_") else []
    return [model.trees_.arrays.split_weights, *centroids]


def test_the_table_marks_what_was_written(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    found = shrink(dismec, tmp_path / "small", valid, loss=0.5)
    lines = str(found).splitlines()
    assert lines[0].split() == ["weights", "kept", "MB", "P@1", "nDCG@5", "PSP@5", "loss"]
    (marked,) = [line for line in lines if "→" in line]
    assert found.chosen.weights in marked and in_mb(found.chosen.bytes) in marked
    assert lines[-1].startswith("quality on 300 documents")
    as_json = json.loads(json.dumps(found.to_json()))
    assert as_json["trials"][as_json["chosen"]]["bytes"] == found.chosen.bytes
    assert "Smaller model" in found._repr_html_()


def test_no_trials_are_left_behind(dismec: Model, valid: Corpus, tmp_path: Path) -> None:
    shrink(dismec, tmp_path / "small", valid, loss=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"mb": 0.001}, "0.001 MB cannot be reached: the smallest folder has "),
        ({"mb": 0}, "mb = 0: expected a number of megabytes, above 0"),
        ({"mb": float("nan")}, "mb = nan: expected"),
        ({"mb": "50"}, "mb = '50': expected"),
        ({"loss": -0.1}, "loss = -0.1: expected a number of points of nDCG@5, 0 or more"),
        ({"loss": True}, "loss = True: expected"),
        ({}, "a loss can only be measured on documents"),
        ({"loss": 0.1}, "a loss can only be measured on documents"),
        ({"loss": 0.1, "mb": 5}, "a loss can only be measured on documents"),
    ],
)
def test_bad_limits(dismec: Model, tmp_path: Path, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shrink(dismec, tmp_path / "small", **limits)
    assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_size_out_of_reach_says_what_it_would_cost(fasttext: Model, valid: Corpus, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"0.01 MB cannot be reached: the smallest folder has 0.\d+ MB, with a loss of "
    ):
        shrink(fasttext, tmp_path / "small", valid, mb=0.01)


def test_limits_that_cannot_both_be_reached(
    dismec: Model, valid: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shrinking, "REFINED", 0)
    smallest = min(trial.bytes for trial in shrink(dismec, tmp_path / "one", valid, loss=100).trials)
    limit = (smallest + shrinking.FIGURES + 100) / 1e6
    with pytest.raises(ConfigError, match=r"and a loss of 0 cannot both be reached: with .* tried within that loss"):
        shrink(dismec, tmp_path / "small", valid, mb=limit, loss=0)


def test_a_place_that_is_taken(dismec: Model, tmp_path: Path) -> None:
    dismec.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="there is a model already, which is not replaced"):
        shrink(dismec, tmp_path / "model", mb=1)
    (tmp_path / "things").mkdir()
    (tmp_path / "things" / "notes.txt").write_text("mine")
    with pytest.raises(BadModelFolder, match="a folder with other things in it"):
        shrink(dismec, tmp_path / "things", mb=1)


def test_documents_that_say_nothing(dismec: Model, tmp_path: Path) -> None:
    for corpus, words in (
        (Corpus.of(["w1 w2"], [["unheard of"]]), "the model knows none of its labels"),
        (Corpus.of(["w1 w2"], [[]]), "no document has a label"),
    ):
        with pytest.raises(XmtcError, match=words):
            shrink(dismec, tmp_path / "small", corpus, loss=1)
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model(tmp_path: Path) -> None:
    with pytest.raises(NotFitted):
        shrink(make("dismec"), tmp_path / "small", mb=1)


def test_training_documents_are_warned_of(dismec: Model, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="were in training"):
        shrink(dismec, tmp_path / "small", documents(800, 0), loss=100)


def test_it_is_at_the_front_door(dismec: Model, tmp_path: Path) -> None:
    assert isinstance(xmtc.shrink(dismec, tmp_path / "small", mb=100), Shrunk)
