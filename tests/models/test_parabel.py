"""Parabel, beyond what the contract asks: deep trees, damaged folders, odd corpora, words that explain, memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from altered_folders import change_arrays
from contract_corpus import small_corpus
from scipy.sparse import csr_array

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.bonsai import Bonsai
from xmtc.models.parabel import Parabel
from xmtc.models.registry import load

#: A tree over as few labels as the small corpus has needs small leaves to be one.
DEEP: dict[type[Parabel], dict[str, Any]] = {Parabel: {"max_leaf": 1}, Bonsai: {"arity": 2, "max_leaf": 1}}


@pytest.fixture(params=list(DEEP), ids=lambda kind: str(kind.name))
def kind(request: pytest.FixtureRequest) -> type[Parabel]:
    found: type[Parabel] = request.param
    return found


def relevant(model: Parabel, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in labelled]))


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_deep_trees_learn(kind: type[Parabel], loss: str) -> None:
    corpus = small_corpus()
    model = kind(**DEEP[kind], loss=loss).fit(corpus)
    assert min(tree.tree.depth for tree in model.trees_) >= 3
    assert relevant(model, corpus) > 0.9
    scores = model.predict(corpus, k=5).scores
    assert 0 <= scores.min() <= scores.max() <= 1


def test_large_and_small_batches_agree(kind: type[Parabel]) -> None:
    corpus = small_corpus()
    model = kind(**DEEP[kind]).fit(corpus)
    whole = model.predict(corpus, k=4)
    for rows in (slice(0, 1), slice(5, 25)):
        part = model.predict(corpus[rows], k=4)
        np.testing.assert_array_equal(part.ids, whole.ids[rows])
        np.testing.assert_array_equal(part.scores, whole.scores[rows])


@pytest.mark.parametrize("k", [1, 3, 20, 30])
def test_a_single_tree_lists_as_if_it_listed_all(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Log-probabilities that differ are equal as probabilities, and the lower label may be far behind in the list."""
    labels = 30
    corpus = Corpus.of([f"word{at % labels} some" for at in range(90)], [[f"{at % labels:02}"] for at in range(90)])
    model = Parabel(trees=1, max_leaf=1).fit(corpus)
    rng = np.random.default_rng(k)
    known = rng.choice(np.array([0, -1e-9, -2e-9, -0.5, -2], np.float32), (12, labels))
    known[0], known[1] = -np.arange(labels) * 1e-10, np.arange(labels) - labels
    order = np.lexsort((np.broadcast_to(np.arange(labels), known.shape), -known))
    asked = []

    def search(tree: object, vectors: Any, length: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        asked.append((vectors.shape[0], length))
        rows = vectors.indptr[:-1]  # each document has one word, and its number is that of its row
        best = order[vectors.data.astype(int)[rows]][:, :length]
        return best.astype(np.int32), np.take_along_axis(known[vectors.data.astype(int)[rows]], best, 1)

    monkeypatch.setattr(model, "_search", search)
    found = model._best(csr_array(np.arange(12, dtype=np.float32)[:, None] + 0.5), k)
    expected = np.lexsort((np.broadcast_to(np.arange(labels), known.shape), -np.exp(known)))[:, :k]
    np.testing.assert_array_equal(found.ids, expected)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(np.exp(known), expected, 1))
    assert asked[0] == (12, min(labels, k + 3)) and all(rows < 12 for rows, _ in asked[1:]), "only tied ones again"


def test_wide_beam_scores_every_label(kind: type[Parabel]) -> None:
    corpus = small_corpus()
    model = kind(**DEEP[kind], beam_width=100).fit(corpus)
    assert (model.predict(corpus, k=100).ids >= 0).all()


def test_seeds_make_different_trees() -> None:
    corpus = small_corpus()
    trees = Parabel(max_leaf=1, trees=3).fit(corpus).trees_
    assert len({tree.tree.levels[-1].indices.tobytes() for tree in trees}) > 1


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_any_seed(kind: type[Parabel], seed: int) -> None:
    corpus = small_corpus(40)
    one, two = (kind(**DEEP[kind], trees=1, seed=seed).fit(corpus).predict(corpus) for _ in range(2))
    np.testing.assert_array_equal(one.scores, two.scores)


def test_features_instead_of_texts(kind: type[Parabel], tmp_path: Path) -> None:
    corpus = small_corpus()
    noise = np.random.default_rng(0).random(corpus.targets.shape).astype(np.float32)
    given = replace(corpus, texts=None, features=csr_array(noise + 3 * corpus.targets.toarray()))
    model = kind(**DEEP[kind]).fit(given)
    assert relevant(model, given) > 0.8
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(given).ids, model.predict(given).ids)
    with pytest.raises(XmtcError, match="trained on features"):
        model.predict(["ship"])
    with pytest.raises(XmtcError, match="no words explain"):
        model.explain("ship", "sea")


def test_labels_without_documents(kind: type[Parabel]) -> None:
    """Even many of them, whole branches of the tree, are known, never come first, and disturb nothing."""
    corpus = small_corpus()
    wider = corpus.with_labels(corpus.labels.extend(f"never used {i}" for i in range(20)))
    model = kind(**DEEP[kind]).fit(wider)
    assert relevant(model, wider) > 0.9
    top = model.predict(wider, k=3)
    assert (top.ids[:, 0] < len(corpus.labels)).all()
    never = model.explain("ship sail", "never used 3")
    assert never.score < 0.2


def test_all_documents_identical(kind: type[Parabel]) -> None:
    corpus = Corpus.of(["ship sail"] * 12, [["a", "b"], ["a"], ["c"], ["d", "a"]] * 3)
    top = kind(**DEEP[kind]).fit(corpus).predict(["ship sail", "bread", ""], k=4)
    assert np.isfinite(top.scores).all()
    assert top.names()[0][0][0] == "a", "the most frequent"


def test_one_label_only(kind: type[Parabel]) -> None:
    top = kind(**DEEP[kind]).fit(Corpus.of(["ship", "sail"], [["sea"], ["sea"]])).predict(["ship", "bread"], k=3)
    assert top.names() == [[("sea", 1.0)]] * 2


def test_no_known_word(kind: type[Parabel]) -> None:
    """What is left is how frequent labels are; the answer is the same as for an empty text."""
    model = kind(**DEEP[kind]).fit(small_corpus())
    unknown, empty = model.predict(["qwxz", ""], k=3).names()
    assert unknown == empty


def test_explains_by_words(kind: type[Parabel]) -> None:
    corpus = small_corpus()
    model = kind(**DEEP[kind], trees=3).fit(corpus)
    why = model.explain("ship bread anchor", "sea")
    weights = dict(why.words)
    assert weights["ship"] > 0
    assert weights["ship"] > weights["bread"]
    assert sorted(map(abs, weights.values()), reverse=True) == list(map(abs, weights.values()))
    assert why.evidence[0] == "3 of 3 trees found this label among their best"
    assert len(why.evidence) == 4
    query = model.vectors_.transform(Corpus.of(["ship bread anchor"]))
    label = corpus.labels.find("sea")
    sums = [
        sum(tree.contributions(step, query.indices, query.data).sum() for step in tree.path(label))
        for tree in model.trees_
    ]
    assert sum(weights.values()) == pytest.approx(np.mean(sums), abs=1e-5)


def test_explains_what_the_beam_did_not_reach() -> None:
    corpus = small_corpus()
    model = Parabel(max_leaf=1, beam_width=1, trees=2).fit(corpus)
    (top,) = model.predict(["ship sail wave anchor"], k=5).names()
    assert 1 <= len(top) <= 2, "one path for each tree"
    assert "kitchen" not in dict(top)
    why = model.explain("ship sail wave anchor", "kitchen")
    assert why.score == 0
    assert why.evidence[0].startswith("0 of 2 trees")
    assert "not reached" in why.evidence[1]
    sea = model.explain("ship sail wave anchor", "sea")
    assert dict(why.words)["ship"] < dict(sea.words)["ship"], "it speaks for the sea"


def damaged(array: Any, rng: np.random.Generator) -> Any:
    """The array cut, repeated, shuffled, of another type or with one number changed."""
    way = rng.integers(5)
    if way == 0:
        return array[: rng.integers(len(array))]
    if way == 1:
        return np.concatenate([array, array[-2:]])
    if way == 2:
        return rng.permutation(array)
    if way == 3:
        return array.astype(str(rng.choice(["i4", "i8", "f4", "u1"])))
    changed = array.copy()
    with np.errstate(all="ignore"):
        changed[rng.integers(len(array))] = np.array(rng.choice([-1, 2**31 - 1, -(2**40), 10**6])).astype(array.dtype)
    return changed


@pytest.mark.filterwarnings("ignore:invalid value")
def test_damaged_folders_of_deep_trees(kind: type[Parabel], tmp_path: Path) -> None:
    """They are refused, or answer; a compiled loop that left its arrays would take the tests down."""
    kind(**DEEP[kind], trees=1).fit(small_corpus()).save(tmp_path / "model")
    rng = np.random.default_rng(1)
    names = [
        name for name, array in storage.read_arrays(tmp_path / "model" / "tree0.safetensors").items() if len(array)
    ]
    refused = 0
    for turn in range(60):
        copy = tmp_path / f"copy{turn}"
        shutil.copytree(tmp_path / "model", copy)
        name = names[turn % len(names)]
        change_arrays(copy, "tree0.safetensors", lambda a, name=name: a.update({name: damaged(a[name], rng)}))  # type: ignore[misc]
        try:
            model = load(copy)
            assert np.isfinite(model.predict(["ship sail", "", "bread"] * 20, k=3).scores).all()
            model.explain("ship sail", "sea")
        except BadModelFolder as error:
            refused += 1
            assert "tree0.safetensors is damaged" in str(error)
    assert refused > 30


def test_vocabulary_of_another_model(kind: type[Parabel], tmp_path: Path) -> None:
    for name, corpus in (("one", small_corpus()), ("two", Corpus.of(["ship", "bread"], [["a"], ["b"]]))):
        kind(**DEEP[kind], trees=1).fit(corpus).save(tmp_path / name)
    shutil.copy(tmp_path / "two" / "tfidf.safetensors", tmp_path / "one")
    with pytest.raises(BadModelFolder):
        load(tmp_path / "one")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"trees": 0}, "trees=0"),
        ({"arity": 1}, "arity=1"),
        ({"loss": "hinge"}, "loss='hinge'"),
        ({"cost": -1}, "cost=-1"),
        ({"discount": 1.1}, r"discount=1\.1"),
        ({"beam_width": 0}, "beam_width=0"),
        ({"label_vectors": "x"}, "label_vectors='x'"),
    ],
)
def test_settings_that_cannot_be(kind: type[Parabel], settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"{kind.name}: {named}"):
        kind(**settings)


def test_refuses_what_cannot_fit(kind: type[Parabel], monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    assert kind(trees=9).memory_needed(corpus) > kind(trees=1).memory_needed(corpus) > 0
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        kind().fit(corpus)


MEASURE = """
import sys
from pathlib import Path
from xmtc.corpus.io import read
from xmtc.data import demo_folder
from xmtc.models.registry import make

def kilobytes(what):
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(what))

corpus = read(demo_folder())
make(sys.argv[1]).fit(corpus[:50])  # loads the compiled code
before = kilobytes("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
make(sys.argv[1]).fit(corpus)
print(1024 * (kilobytes("VmHWM") - before), make(sys.argv[1]).memory_needed(corpus))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured by Linux")
def test_memory_is_estimated(kind: type[Parabel]) -> None:
    run = subprocess.run([sys.executable, "-c", MEASURE, kind.name], capture_output=True, text=True, check=True)
    measured, estimated = map(int, run.stdout.split())
    assert measured / 3 < estimated < 3 * measured


def test_documents_that_the_search_leads_astray_are_negatives_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With negatives="matcher" a node also learns from documents that the search leads to it wrongly."""
    from xmtc.kernels import coordinate_descent as svm

    corpus = small_corpus()
    sizes: dict[str, list[int]] = {}
    train_node = svm.train_node
    for negatives in ("teacher", "matcher"):
        seen: list[int] = []

        def counting(*arguments: Any, seen: list[int] = seen) -> Any:
            seen.append(len(arguments[2]))
            return train_node(*arguments)

        monkeypatch.setattr(svm, "train_node", counting)
        model = Parabel(trees=1, max_leaf=2, beam_width=3, negatives=negatives).fit(corpus)
        sizes[negatives] = seen
        assert model.predict(["ship sail wave"], k=1).names()[0][0][0] == "sea"
    assert sizes["teacher"][0] == sizes["matcher"][0], "the root sees all labelled documents either way"
    assert sum(sizes["matcher"]) > sum(sizes["teacher"])


def test_the_given_hierarchy_as_tree(tmp_path: Path) -> None:
    corpus = small_corpus()
    keys = [*corpus.labels.keys, "nature", "people"]
    parents = [["nature"] if key in ("sea", "sky") else ["people"] if key == "kitchen" else [] for key in keys]
    with_parents = corpus.with_labels(LabelSet.of(keys, parents=parents))
    model = Parabel(tree="given", trees=1).fit(with_parents)
    assert model.trees_[0].tree.depth == 2
    assert model.predict(["bread oven flour"], k=1).names()[0][0][0] == "kitchen"
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(["bread oven"], k=1).names()[0][0][0] == "kitchen"
    with pytest.raises(ConfigError, match="trees=1"):
        Parabel(tree="given").fit(with_parents)
    with pytest.raises(XmtcError, match="no hierarchy"):
        Parabel(tree="given", trees=1).fit(corpus)


def test_half_precision_on_disk(tmp_path: Path) -> None:
    corpus = small_corpus()
    model = Parabel(trees=1, weights="float16").fit(corpus)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.predict(corpus, 3).scores, model.predict(corpus, 3).scores, atol=5e-3)


def test_finished_trees_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    whole = Parabel(trees=2, max_leaf=2).fit(corpus, checkpoints=tmp_path / "pieces").predict(corpus, 3)
    (tmp_path / "pieces" / "tree1.safetensors").unlink()
    trained: list[str] = []
    original = Parabel._train

    def noticed(self: Parabel, *arguments: Any) -> Any:
        trained.append(arguments[-1])
        return original(self, *arguments)

    monkeypatch.setattr(Parabel, "_train", noticed)
    again = Parabel(trees=2, max_leaf=2).fit(corpus, checkpoints=tmp_path / "pieces").predict(corpus, 3)
    assert trained == ["training tree 2 of 2"]
    np.testing.assert_array_equal(again.scores, whole.scores)
