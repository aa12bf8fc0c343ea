"""`extremetext` beside the contract: trees, options, exact explanations, going on after a kill, hostile arrays."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadInput, BadModelFolder, ConfigError, OutOfMemory, XmtcError
from xmtc.models import base
from xmtc.models.fasttext import extremetext
from xmtc.models.fasttext.extremetext import ExtremeText
from xmtc.models.registry import load
from xmtc.text.tfidf import TfIdf

SMALL: dict[str, Any] = {"dimensions": 6, "epochs": 3, "max_leaf": 2, "trees": 1, "learning_rate": 1.0}


def small(**changes: Any) -> ExtremeText:
    return ExtremeText(**{**SMALL, **changes})


def topics(documents: int = 90, labels: int = 9) -> Corpus:
    """Labels with a word each; two labels a document, every ninth none."""
    tags = [[f"l{at % labels}", f"l{at * at % labels}"] if at % 9 else [] for at in range(documents)]
    texts = [" ".join(f"word{tag}" for tag in each) + f" filler only{at}" for at, each in enumerate(tags)]
    return Corpus.of(texts, tags, label_set=LabelSet.of([f"l{at}" for at in range(labels)]))


def precision(model: ExtremeText, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0].tolist()
    return float(np.mean([label in corpus.labels_of(row) for row, label in enumerate(top) if row % 9]))


def exhaustive(model: ExtremeText, corpus: Corpus) -> Any:
    """(documents, labels): the mean over the trees of the product down the path, by plain numpy."""
    flat = model._flat
    vectors = model._rows(corpus) @ model.table_
    own = 1 / (1 + np.exp(-(vectors @ model.weights_.T + flat.base).astype(float)))
    found = np.zeros((len(corpus), len(corpus.labels)))
    for leaves in flat.leaves:
        for label, leaf in enumerate(leaves.tolist()):
            node, product = leaf, np.ones(len(corpus))
            while node >= 0:
                product = product * own[:, node]
                node = int(flat.parents[node])
            found[:, label] += product / len(flat.leaves)
    return found


@pytest.mark.parametrize(
    "settings",
    [{}, {"tree": "complete"}, {"arity": 4, "max_leaf": 1}, {"trees": 3}, {"word_weights": "equal"}, {"max_leaf": 99}],
    ids=str,
)
def test_learns_with_any_tree(settings: dict[str, Any]) -> None:
    corpus = topics()
    model = ExtremeText(**{"dimensions": 12, "epochs": 25, "max_leaf": 2, "trees": 1, "min_df": 2, **settings})
    assert precision(model.fit(corpus), corpus) > 0.9


@pytest.mark.parametrize("trees", [1, 3])
def test_predictions_are_the_most_probable_labels(trees: int) -> None:
    corpus = topics()
    model = small(trees=trees, learning_rate=2.0).fit(corpus)
    right = exhaustive(model, corpus)
    top = model.predict(corpus, k=9)
    np.testing.assert_allclose(top.scores, -np.sort(-right, axis=1), rtol=1e-4, atol=1e-7)
    few = model.predict(corpus, k=2).ids
    if trees == 1:
        np.testing.assert_array_equal(few, top.ids[:, :2])


def test_a_beam_as_wide_as_the_tree_changes_nothing() -> None:
    corpus = topics()
    model = small(learning_rate=2.0).fit(corpus)
    expected = model.predict(corpus, k=5)
    for width, same in ((99, True), (1, False)):
        model.config = model.config.model_copy(update={"beam_width": width})
        found = model.predict(corpus, k=5)
        assert np.array_equal(found.ids, expected.ids) == same
        assert found.scores[:, 0].sum() <= expected.scores[:, 0].sum() + 1e-6
    assert (found.ids == -1).any(), "one leaf has fewer labels than were asked for"


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"epochs": 4},
        {"learning_rate": 0.1},
        {"word_ngrams": 2},
        {"char_ngrams": (2, 3)},
        {"min_df": 5},
        {"dimensions": 5},
        {"word_weights": "equal"},
        {"weight_decay": 0.1},
        {"trees": 2},
        {"tree": "complete"},
        {"arity": 4},
        {"max_leaf": 4},
    ],
    ids=str,
)
def test_options_have_an_effect(changes: dict[str, Any]) -> None:
    corpus = topics(60)
    plain, other = (small(**each).fit(corpus).predict(corpus, k=9).scores for each in ({}, changes))
    assert not np.array_equal(plain, other)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"arity": 1}, "arity=1"),
        ({"max_leaf": 0}, "max_leaf=0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1"),
        ({"weight_decay": math.inf}, "weight_decay=inf"),
        ({"trees": 0}, "trees=0"),
        ({"tree": "huffman"}, "tree='huffman'"),
        ({"beam_width": 0}, "beam_width=0"),
        ({"char_ngrams": (3, 2)}, "shortest, longest"),
    ],
)
def test_impossible_settings_are_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ExtremeText(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tree": "complete", "trees": 2}, "one complete tree, so it goes with trees=1"),
        ({"tree_file": "tree.txt"}, "tree_file goes with tree=given"),
        ({"arity": 3}, "must be a power of 2, not 3"),
        ({"tree": "given"}, "these labels have no hierarchy"),
    ],
)
def test_settings_that_do_not_go_together(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(XmtcError, match=sentence):
        small(**changes).fit(topics())


def test_a_tree_from_a_file(tmp_path: Path) -> None:
    corpus, file = topics(), tmp_path / "tree.txt"
    lines = [f"root node{at % 2}\nnode{at % 2} leaf{at} l{at}\n" for at in range(9)]
    file.write_text("".join(dict.fromkeys("".join(lines).splitlines(keepends=True))))
    model = small(tree="given", tree_file=str(file)).fit(corpus)
    assert sorted(model.trees_[0].children(1, 0).tolist()) in ([0, 2, 4, 6, 8], [1, 3, 5, 7])
    file.write_text("root leaf l0\n")
    with pytest.raises(BadInput, match="no leaf for 'l1', 'l2', 'l3' and 5 more"):
        small(tree="given", tree_file=str(file)).fit(corpus)


def test_the_hierarchy_of_the_labels() -> None:
    tags = LabelSet.of(["fruit", "apple", "pear", "sky"], parents=[[], ["fruit"], ["fruit"], []])
    texts, each = ["red apple", "green pear", "blue sky"], [["apple"], ["pear"], ["sky"]]
    model = small(tree="given").fit(Corpus.of(texts * 5, each * 5, label_set=tags))
    assert [sorted(model.trees_[0].children(1, node).tolist()) for node in range(2)] == [[3], [0, 1, 2]]


def test_several_trees_of_one_leaf_are_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    corpus = topics(40)
    model = ExtremeText(dimensions=4, epochs=1, trees=3).fit(corpus)
    assert len(model.trees_) == 1
    assert "9 labels fit into one leaf (max_leaf=100), so all 3 trees are the same" in capsys.readouterr().err
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(corpus).scores, model.predict(corpus).scores)


def test_what_training_documents_leave_no_doubt_about() -> None:
    """Labels without documents have the probability 0; what is always so, 1. Nothing is learned of either."""
    corpus = Corpus.of(["a"] * 3, [["x", "y"], ["x"], ["x"]], label_set=LabelSet.of(["x", "y", "never"]))
    model = ExtremeText(dimensions=4, max_leaf=9, trees=1).fit(corpus)
    top = model.predict(["a"], k=3)
    assert top.ids.tolist() == [[0, 1, 2]]
    assert top.scores[0, 0] == 1
    assert 0 < top.scores[0, 1] < 1
    assert top.scores[0, 2] == 0
    assert np.abs(model.weights_).sum(axis=1).astype(bool).sum() == 1, "only of y was there anything to learn"


def test_documents_without_labels_are_examples_of_no_label_at_all() -> None:
    texts, tags = ["apple pie", "blue sky", "nothing here"] * 8, [["x"], ["y"], []] * 8
    model = ExtremeText(dimensions=8, epochs=40, max_leaf=1, trees=1).fit(Corpus.of(texts, tags))
    tagged, untagged = model.predict(["apple pie", "nothing here"], k=2).scores.sum(axis=1).tolist()
    assert tagged > 0.8
    assert untagged < 0.2


def test_nothing_learned_gives_each_label_its_frequency() -> None:
    corpus = topics()
    scores = exhaustive(small(learning_rate=1e-9, weight_decay=0.0).fit(corpus), corpus)
    np.testing.assert_allclose(scores, np.tile(corpus.label_counts / len(corpus), (len(corpus), 1)), rtol=1e-4)


@pytest.mark.parametrize("trees", [1, 2])
def test_explanations_are_exact(trees: int) -> None:
    corpus = topics()
    model = small(trees=trees, learning_rate=2.0, word_ngrams=2, char_ngrams=(3, 3)).fit(corpus)
    right = exhaustive(model, corpus[1:2])
    for text in ("wordl1 filler", "WORDL1, wordl1 unheard-of wordl2", ""):
        vector = (model._rows(Corpus.of([text])) @ model.table_)[0]
        for label in ("l1", "l4"):
            why = model.explain(text, label)
            paths = [model._path(tree, int(label[1])) for tree in range(trees)]
            learned = [[node for node in path if np.isfinite(model.base_[node])] for path in paths]
            score = np.mean([(model.weights_[path] @ vector).sum() for path in learned])
            row = model._rows(Corpus.of([text]))
            every = row[:, [0]].toarray()[0, 0] * model.table_[0]
            of_text = np.mean([(model.weights_[path] @ every).sum() for path in learned])
            assert sum(weight for _, weight in why.words) == pytest.approx(score - of_text, abs=1e-5)
            assert len(why.evidence) == 1 + trees
    whole = corpus.texts[1] if corpus.texts is not None else ""
    assert model.explain(whole, "l1").score == pytest.approx(right[0, 1], rel=1e-4)
    assert "wordl1 filler" in dict(model.explain("wordl1 filler", "l1").words)


def features_of(corpus: Corpus) -> Corpus:
    assert corpus.texts is not None
    return replace(corpus, texts=None, features=TfIdf().fit_transform(corpus.texts))


def test_features(tmp_path: Path) -> None:
    corpus = features_of(topics())
    model = ExtremeText(dimensions=12, epochs=25, max_leaf=2).fit(corpus)
    assert precision(model, corpus) > 0.9
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(corpus).scores, model.predict(corpus).scores)
    with pytest.raises(XmtcError, match="trained on features"):
        model.predict(["a text"])
    with pytest.raises(XmtcError, match="no words explain"):
        model.explain("a text", "l1")
    equal = small(word_weights="equal").fit(corpus)._rows(corpus)
    assert set(np.unique(equal.data).tolist()) == {np.float32(1 / size) for size in np.diff(equal.indptr).tolist()}


def test_rows_add_up_to_1_and_rare_words_count_more() -> None:
    corpus = topics()
    model = small().fit(corpus)
    rows = model._rows(corpus)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)
    words = dict(zip(model.grams_.words, range(1, rows.shape[1]), strict=False))
    first = rows[[2]].toarray()[0]
    assert first[words["only2"]] > first[words["wordl2"]] > first[words["filler"]]
    assert first[words["filler"]] == pytest.approx(first[0]), "what all texts have counts as much as row 0"


def test_the_same_for_any_number_of_threads(tmp_path: Path) -> None:
    corpus = topics(40)
    small(trees=2).fit(corpus).save(tmp_path / "model")
    expected = (tmp_path / "model" / "vectors.safetensors").read_bytes()
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_extremetext import *\n"
        "small(trees=2).fit(topics(40)).save(sys.argv[2])"
    )
    for threads in ("1", "3"):
        folder = tmp_path / threads
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads}
        arguments = [sys.executable, "-c", code, str(Path(__file__).parent), str(folder)]
        subprocess.run(arguments, check=True, env=environment)
        assert (folder / "vectors.safetensors").read_bytes() == expected


class Killed(Exception):
    """A run that was stopped from outside."""


def test_goes_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = topics(40)
    whole = small().fit(corpus)
    train, epochs = ExtremeText._train, list[int]()

    def killed_in_the_second(model: ExtremeText, inputs: Any, targets: Any, epoch: int, advance: Any) -> None:
        epochs.append(epoch)
        if epochs == [0, 1]:
            raise Killed
        train(model, inputs, targets, epoch, advance)

    monkeypatch.setattr(ExtremeText, "_train", killed_in_the_second)
    with pytest.raises(Killed):
        small().fit(corpus, checkpoints=tmp_path / "kept")
    again = small().fit(corpus, checkpoints=tmp_path / "kept")
    assert epochs == [0, 1, 1, 2]
    np.testing.assert_array_equal(again.table_, whole.table_)
    np.testing.assert_array_equal(again.weights_, whole.weights_)


def test_blocks_of_documents_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = topics(40)
    model = small().fit(corpus)
    expected = model.predict(corpus, k=2)
    monkeypatch.setattr(extremetext, "BLOCK", 3)
    found = model.predict(corpus, k=2)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        small().fit(topics(40))


def test_the_estimate_of_memory_grows_with_what_takes_it() -> None:
    corpus = topics(40)
    wider = corpus.with_labels(corpus.labels.extend([f"more {at}" for at in range(1000)]))
    plain = small().memory_needed(corpus)
    assert small().memory_needed(wider) > plain
    for change in ({"dimensions": 99}, {"word_ngrams": 3}, {"trees": 9}):
        assert small(**change).memory_needed(corpus) > plain
    numbers = features_of(corpus)
    assert small(dimensions=99).memory_needed(numbers) > small().memory_needed(numbers)


@pytest.mark.parametrize(
    ("name", "change", "file"),
    [
        ("table_", lambda array: array.__setitem__((0, 0), np.nan), "vectors"),
        ("weights_", lambda array: array.__setitem__((1, 2), np.inf), "vectors"),
        ("base_", lambda array: array.__setitem__(1, np.nan), "vectors"),
        ("idf_", lambda array: array.__setitem__(1, np.nan), "words"),
    ],
)
def test_numbers_that_are_none_are_refused(tmp_path: Path, name: str, change: Any, file: str) -> None:
    model = small().fit(topics(40))
    array = getattr(model, name).copy()
    change(array)
    setattr(model, name, array)
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=rf"{file}\.safetensors is damaged"):
        load(tmp_path / "model")


@pytest.mark.parametrize("name", ["table_", "weights_", "base_", "idf_"])
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, name: str) -> None:
    model = small().fit(topics(40))
    setattr(model, name, getattr(model, name)[1:])
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"(vectors|words)\.safetensors is damaged"):
        load(tmp_path / "model")


def test_a_tree_over_other_labels_is_refused(tmp_path: Path) -> None:
    model = small().fit(topics(40))
    model.trees_ = small().fit(topics(40, labels=8)).trees_
    model.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match=r"tree0\.safetensors is damaged: a tree over 8 labels"):
        load(tmp_path / "model")
