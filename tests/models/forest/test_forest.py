"""FastXML, PfastreXML and CRAFTML: predictions and explanations against plain numpy, threads, bad input."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import QUICK, small_corpus
from scipy.sparse import csr_array

import xmtc.kernels
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.labelspace.propensity import Propensity
from xmtc.models.forest import trees as trees_module
from xmtc.models.forest.craftml import CraftMl
from xmtc.models.forest.fastxml import FastXml
from xmtc.models.forest.model import DocumentForest
from xmtc.models.forest.pfastrexml import PfastreXml
from xmtc.models.forest.trees import DocumentTrees
from xmtc.models.registry import load, make

Array = np.ndarray[Any, Any]
METHODS = pytest.mark.parametrize("name", ["fastxml", "pfastrexml", "craftml"])
CORPUS = small_corpus()


def forest(name: str, **more: Any) -> DocumentForest:
    """An untrained model with the settings of the contract suite."""
    model = make(name, **{**QUICK[name], **more})
    assert isinstance(model, DocumentForest)
    return model


@pytest.fixture(scope="module")
def fitted() -> dict[str, DocumentForest]:
    return {name: forest(name).fit(CORPUS) for name in ("fastxml", "pfastrexml", "craftml")}


def finalised(column: int, seed: int) -> int:
    """Murmur3's finaliser in Python's integers."""
    mask = 2**64 - 1
    key = ((column + 1) * 0x9E3779B97F4A7C15 & mask) ^ seed
    key = (key ^ key >> 33) * 0xFF51AFD7ED558CCD & mask
    key = (key ^ key >> 33) * 0xC4CEB9FE1A85EC53 & mask
    return key ^ key >> 33


def walked(model: DocumentForest, vector: Array, tree: int) -> list[int]:
    """The nodes that a document comes by, in plain numpy."""
    seeds, arrays = model._seeds(), model.trees_.arrays
    if len(seeds):
        width = model._width
        projected = np.zeros(width)
        for column in np.flatnonzero(vector):
            key = finalised(int(column), int(seeds[tree]))
            projected[(key >> 1) % width] += vector[column] if key & 1 else -vector[column]
        vector = projected
    path = [int(model.trees_.roots[tree])]
    while arrays.children[path[-1]]:
        first, count = int(arrays.first_child[path[-1]]), int(arrays.children[path[-1]])
        scores = []
        for child in range(first, first + count):
            row = slice(arrays.split_indptr[child], arrays.split_indptr[child + 1])
            scores.append(arrays.biases[child] + vector[arrays.split_features[row]] @ arrays.split_weights[row])
        path.append(first + int(np.argmax(np.round(scores, 6))))
    return path


def shares(model: DocumentForest, node: int) -> Array:
    """The shares of all labels in a leaf."""
    arrays, found = model.trees_.arrays, np.zeros(len(CORPUS.labels))
    row = slice(arrays.leaf_indptr[node], arrays.leaf_indptr[node + 1])
    found[arrays.leaf_labels[row]] = arrays.leaf_shares[row]
    return found


@METHODS
def test_trees_grow_as_they_predict(fitted: dict[str, DocumentForest], name: str) -> None:
    """Each node counts the training documents that walk by, and a leaf has the mean of their labels."""
    model = fitted[name]
    arrays, vectors = model.trees_.arrays, model.vectors_.transform(CORPUS).toarray()
    labelled = np.flatnonzero(np.diff(CORPUS.targets.indptr))
    counts, sums = np.zeros(len(arrays.children)), np.zeros((len(arrays.children), len(CORPUS.labels)))
    for row in labelled:
        for tree in range(len(model.trees_)):
            path = walked(model, vectors[row], tree)
            counts[path] += 1
            sums[path[-1]] += CORPUS.targets[[row]].toarray()[0]
    np.testing.assert_array_equal(counts, arrays.documents)
    assert (arrays.children > 0).sum() >= len(model.trees_), "something was split"
    for leaf in np.flatnonzero(arrays.children == 0).tolist():
        np.testing.assert_allclose(shares(model, leaf), sums[leaf] / counts[leaf], rtol=1e-5)


@METHODS
def test_a_score_is_the_mean_share_in_the_leaves(fitted: dict[str, DocumentForest], name: str) -> None:
    model = fitted[name]
    vectors = model.vectors_.transform(CORPUS).toarray()
    top = model.predict(CORPUS[:20], k=4)
    for row in range(20):
        leaves = [walked(model, vectors[row], tree)[-1] for tree in range(len(model.trees_))]
        expected = np.mean([shares(model, leaf) for leaf in leaves], axis=0)
        if isinstance(model, PfastreXml):
            away = ((vectors[row] - model.centroids_.toarray()) ** 2).sum(axis=1)
            expected = expected**0.8 * np.exp(-0.5 * 30 * away) ** 0.2
        order = np.lexsort((np.arange(len(expected)), -expected))[:4]
        np.testing.assert_allclose(top.scores[row], expected[order], rtol=1e-4, atol=1e-7)


@METHODS
def test_words_and_start_add_up_to_the_score(fitted: dict[str, DocumentForest], name: str) -> None:
    model = fitted[name]
    for text in ("ship sail wave captain", "bread oven rain"):
        for label, score in model.predict([text], k=3).names()[0]:
            query = model.vectors_.transform(Corpus.of([text]))
            words, rest, start, found = model._path_words(query, CORPUS.labels.find(label))
            assert found > 0
            if not isinstance(model, PfastreXml):
                assert words.sum() + rest + start == pytest.approx(score, abs=1e-3)
                assert 0 < start < 1
    why = model.explain("ship sail wave captain", "sea")
    assert {word for word, weight in why.words if weight > 0} & {"ship", "sail", "wave", "captain"}
    assert any("trees lead to a leaf" in line for line in why.evidence)


def test_explaining_a_label_that_no_tree_leads_to() -> None:
    model = forest("pfastrexml", trees=1).fit(CORPUS)
    text = next(text for text in CORPUS.texts or () if "only once" not in dict(model.predict([text], k=6).names()[0]))
    why = model.explain(text, "only once")
    assert why.score == 0
    assert why.words == ()
    assert "no tree leads" in why.evidence[0]


def test_the_logarithm_of_the_score_is_divided_among_the_words(fitted: dict[str, DocumentForest]) -> None:
    model = fitted["pfastrexml"]
    assert isinstance(model, PfastreXml)
    text, label = "ship sail wave captain", CORPUS.labels.find("sea")
    query = model.vectors_.transform(Corpus.of([text]))
    words, rest, start, _ = model._path_words(query, label)
    share = words.sum() + rest + start
    slope = np.log(share / start) / (share - start)
    others = 0.8 * (np.log(start) + slope * rest) - 0.2 * 15 * (1 + model.squares_[label])
    why = model.explain(text, "sea")
    assert sum(weight for _, weight in why.words) + others == pytest.approx(np.log(why.score), abs=1e-4)


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="threads then share NumPy's random numbers")
@METHODS
def test_the_number_of_threads_changes_nothing(
    fitted: dict[str, DocumentForest], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (xmtc.kernels, trees_module):
        monkeypatch.setattr(module, "cores", lambda: 3)
    other = forest(name).fit(CORPUS)
    for kept, expected in zip(other.trees_.arrays, fitted[name].trees_.arrays, strict=True):
        np.testing.assert_array_equal(kept, expected)
    np.testing.assert_array_equal(other.predict(CORPUS).scores, fitted[name].predict(CORPUS).scores)


@METHODS
def test_a_killed_run_goes_on_with_the_next_tree(
    fitted: dict[str, DocumentForest], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, grown = forest(name), []
    grower = type(model)._grower

    def killed(self: Any, features: Any, corpus: Any) -> Any:
        grow = grower(self, features, corpus)

        def grow_or_stop(seed: int) -> Any:
            grown.append(seed)
            if len(grown) == 5:
                raise KeyboardInterrupt
            return grow(seed)

        return grow_or_stop

    monkeypatch.setattr(xmtc.kernels, "cores", lambda: 1)
    monkeypatch.setattr(type(model), "_grower", killed)
    with pytest.raises(KeyboardInterrupt):
        model.fit(CORPUS, checkpoints=tmp_path / "pieces")
    kept = len(list((tmp_path / "pieces").glob("tree*")))
    assert kept >= 4
    grown[:] = [0] * 5
    resumed = forest(name).fit(CORPUS, checkpoints=tmp_path / "pieces")
    assert len(grown) - 5 == len(resumed.trees_) - kept
    np.testing.assert_array_equal(resumed.predict(CORPUS).scores, fitted[name].predict(CORPUS).scores)


@METHODS
def test_other_seeds_grow_other_trees(fitted: dict[str, DocumentForest], name: str) -> None:
    other = forest(name, seed=1).fit(CORPUS).trees_.arrays
    assert other.documents.tolist() != fitted[name].trees_.arrays.documents.tolist()


@METHODS
def test_leaves_are_as_small_and_as_short_as_they_are_to_be(name: str) -> None:
    one = forest(name, max_leaf=len(CORPUS)).fit(CORPUS).trees_.arrays
    assert len(one.children) == 8, "every tree is a leaf"
    short = forest(name, leaf_labels=2).fit(CORPUS).trees_.arrays
    assert np.diff(short.leaf_indptr).max() == 2


@METHODS
def test_features_as_input(name: str) -> None:
    rng = np.random.default_rng(0)
    topic = np.arange(60) % 2
    dense = (rng.random((60, 20)) < 0.3) * 1.0
    dense[np.arange(60), topic] = 3
    targets = csr_array(np.eye(2, dtype=np.float32)[topic])
    corpus = Corpus(targets, LabelSet.of(["even", "odd"]), features=csr_array(dense.astype(np.float32)))
    model = forest(name).fit(corpus)
    assert np.mean(model.predict(corpus, k=1).ids[:, 0] == topic) > 0.9


@METHODS
def test_one_label(name: str) -> None:
    model = forest(name).fit(Corpus.of([f"word{at} ship" for at in range(30)], [["sea"]] * 30))
    label, score = model.predict(["ship"], k=1).names()[0][0]
    assert label == "sea"
    assert score == pytest.approx(1.0) or name == "pfastrexml"


@METHODS
def test_equal_documents_are_a_leaf_with_the_share_of_each_label(name: str) -> None:
    model = forest(name).fit(Corpus.of(["the same ship"] * 40, [["sea"], ["sea", "sky"]] * 20))
    assert (model.trees_.arrays.children == 0).all(), "there is nothing to split by"
    assert [label for label, _ in model.predict(["ship"], k=2).names()[0]] == ["sea", "sky"]
    if name != "pfastrexml":
        assert model.predict(["ship"], k=2).scores[0].tolist() == [1.0, 0.5]


@METHODS
def test_a_document_without_known_words_gets_the_labels_of_some_leaves(name: str) -> None:
    model = forest(name).fit(CORPUS)
    assert model.predict(["qwxz"], k=1).ids[0, 0] >= 0
    assert model.explain("qwxz", "sea").words == ()


def test_gains_are_parts_of_an_ideal_of_one() -> None:
    corpus = Corpus.of(["a b", "c"], [["x", "y", "z"], ["x"]])
    gains = FastXml()._gains(corpus)
    assert gains[:3] @ (1 / np.log2([2, 3, 4])) == pytest.approx(1)
    assert gains[3] == 1


def test_rare_labels_gain_more_in_pfastrexml() -> None:
    corpus = Corpus.of(["a", "b", "c", "d"] * 5, [["often"], ["often"], ["often", "seldom"], []] * 5)
    gains = PfastreXml()._gains(corpus)
    inverse = Propensity().inverse(corpus.label_counts, 20)
    np.testing.assert_allclose(gains, inverse[corpus.targets.indices], rtol=1e-6)
    assert inverse[1] > inverse[0]
    other = PfastreXml(propensity_a=0.5, propensity_b=0.4)._gains(corpus)
    np.testing.assert_allclose(other[0], Propensity(0.5, 0.4).inverse(corpus.label_counts, 20)[0], rtol=1e-6)


def test_alpha_1_leaves_the_order_to_the_trees(fitted: dict[str, DocumentForest]) -> None:
    trees_only = forest("pfastrexml", alpha=1.0).fit(CORPUS)
    ranked = fitted["pfastrexml"].predict(CORPUS, k=3)
    assert trees_only.predict(CORPUS, k=3).ids.tolist() != ranked.ids.tolist()
    np.testing.assert_allclose(trees_only.predict(CORPUS, k=3).scores.max(), 1.0, rtol=1e-5)
    sharp = forest("pfastrexml", gamma=90.0).fit(CORPUS)
    assert sharp.predict(CORPUS, k=1).scores.mean() < ranked.scores[:, 0].mean()


@pytest.mark.parametrize(
    "more",
    [{"cost": 100.0}, {"even_sides": False}, {"bias": 0.0}, {"ranking_rounds": 1}, {"rounds": 1}, {"tolerance": 0.5}],
    ids=str,
)
def test_each_setting_of_a_split_counts(fitted: dict[str, DocumentForest], more: dict[str, Any]) -> None:
    other = forest("fastxml", **more).fit(CORPUS).trees_.arrays
    ours = fitted["fastxml"].trees_.arrays
    assert len(other.split_weights) != len(ours.split_weights) or (other.split_weights != ours.split_weights).any()
    if "bias" in more:
        assert not other.biases.any()


def test_the_shape_of_clustered_trees() -> None:
    arrays = CraftMl(trees=4, arity=3, rounds=5, centroid_size=None).fit(CORPUS).trees_.arrays
    assert arrays.children.max() <= 3
    fewer = CraftMl(trees=4, arity=3, rounds=5, centroid_size=3).fit(CORPUS).trees_.arrays
    assert len(fewer.split_weights) / len(fewer.children) < len(arrays.split_weights) / len(arrays.children)
    sampled = CraftMl(trees=4, sample=20).fit(CORPUS)
    assert sampled.trees_.arrays.documents[0] == np.count_nonzero(np.diff(CORPUS.targets.indptr))
    hashed = CraftMl(trees=4, buckets=4).fit(CORPUS)
    assert hashed.trees_.arrays.split_features.max() < 4
    assert hashed.predict(CORPUS[:3]).ids.min() >= 0


@METHODS
def test_a_loaded_forest_is_the_same(fitted: dict[str, DocumentForest], name: str, tmp_path: Path) -> None:
    fitted[name].save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(CORPUS).scores, fitted[name].predict(CORPUS).scores)
    assert loaded.explain("ship sail", "sea") == fitted[name].explain("ship sail", "sea")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("roots", 10_000, "a root is no node"),
        ("first_child", 0, "children do not come after"),
        ("children", 1, "children do not come after"),
        ("documents", -1, "fewer than no documents"),
        ("split_features", 10_000, "a feature is outside"),
        ("leaf_labels", -1, "a label is outside"),
        ("split_weights", np.nan, "not finite"),
        ("leaf_shares", 0.0, "not above 0"),
        ("leaf_indptr", 10_000, "do not rise"),
    ],
)
def test_arrays_that_no_forest_has_are_refused(
    fitted: dict[str, DocumentForest], name: str, value: float, said: str
) -> None:
    model = fitted["fastxml"]
    arrays = {key: array.copy() for key, array in model.trees_.to_arrays().items()}
    arrays[name][1] = value
    with pytest.raises(ValueError, match=said):
        DocumentTrees.from_arrays(arrays).check(model._width, len(CORPUS.labels), 2)


def test_memory_grows_with_trees_and_documents() -> None:
    few, many = (make("fastxml", trees=trees).memory_needed(CORPUS) for trees in (1, 100))
    assert 0 < few < many
    assert make("pfastrexml").memory_needed(CORPUS) > make("fastxml").memory_needed(CORPUS)
    assert make("craftml").memory_needed(CORPUS) > make("craftml", centroid_size=1).memory_needed(CORPUS)
    assert make("fastxml").memory_needed(CORPUS[:20]) < make("fastxml").memory_needed(CORPUS)
