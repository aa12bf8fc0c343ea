from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import QUICK, small_corpus
from warm_processes import ForkServer

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.errors import BadModelFolder, ConfigError, OutOfMemory
from xmtc.models import base
from xmtc.models.attentionxml.model import AttentionXml
from xmtc.models.registry import load
from xmtc.nn.serialization import weights_of as arrays_of
from xmtc.predictions import Predictions

SMALL: dict[str, Any] = QUICK["attentionxml"]
TREE: dict[str, Any] = {"tree": "tree", "levels": 1, "arity": 2, "max_leaf": 2, "beam_width": 2}
DEEP: dict[str, Any] = {"tree": "tree", "levels": 2, "arity": 2, "max_leaf": 1, "beam_width": 3}
LABEL_TABLE = "head.rows.weight"
CHILD = Path(__file__).parent / "children" / "train_until_killed.py"


def changed(**settings: Any) -> dict[str, Any]:
    """The small settings with others, those of words and training taken one by one."""
    groups = {key: {**SMALL.get(key, {}), **settings.pop(key, {})} for key in ("words", "training")}
    return {**SMALL, **groups, **settings}


def short(**settings: Any) -> dict[str, Any]:
    """Settings for tests in which it does not matter how much was learned."""
    return changed(training={"epochs": 2}, **settings)


def share_right(model: AttentionXml, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in labelled]))


def weights_of(model: AttentionXml) -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"{at}.{depth}.{name}": array
        for at, member in enumerate(model.members_)
        for depth, network in enumerate(member.networks)
        for name, array in arrays_of(network).items()
    }


def assert_same_weights(one: AttentionXml, two: AttentionXml) -> None:
    a, b = weights_of(one), weights_of(two)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        TREE,
        DEEP,
        {"layers": (16, 8)},
        {"words": {"vectors": "learn"}},
        {"words": {"frozen": True}},
        {"training": {"swa_start_epoch": None}},
        {"training": {"gradient_accumulation": 2, "clip": None}},
        {"logsumexp_score": False},
        {"word_skip": False},
        {"pretraining_epochs": 3, **TREE},
        {"output_bias": "inherited", **TREE},
        {"training": {"batches": "random"}},
    ],
    ids=str,
)
def test_every_way_learns(settings: dict[str, Any]) -> None:
    corpus = small_corpus()
    assert share_right(AttentionXml(**changed(**settings)).fit(corpus), corpus) > 0.8


def test_frozen_word_vectors_stay(tmp_path: Path) -> None:
    corpus = small_corpus()
    tables = [
        weights_of(AttentionXml(**short(words={"frozen": frozen})).fit(corpus))["0.0.words.words.weight"]
        for frozen in (True, False)
    ]
    start = AttentionXml(**changed(words={"frozen": True}, training={"epochs": 1})).fit(corpus)
    np.testing.assert_array_equal(tables[0], weights_of(start)["0.0.words.words.weight"])
    assert np.abs(tables[0] - tables[1]).max() > 0


@pytest.mark.parametrize(
    ("settings", "from_parents"),
    [
        ({"logsumexp_score": True}, True),
        ({"logsumexp_score": False}, False),
        ({"logsumexp_score": True, "label_init": "random"}, False),
        ({"logsumexp_score": False, "label_init": "parent"}, True),
    ],
)
def test_each_level_begins_with_the_one_above(
    settings: dict[str, Any], from_parents: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label's query begins with its parent's where that is said; in the paper it is new."""
    begun: list[bool] = []
    from xmtc.models.attentionxml import network as networks

    real = networks.AttentionXmlNetwork.init_from_parent

    def begin(self: networks.AttentionXmlNetwork, above: networks.AttentionXmlNetwork, parents: Any) -> None:
        before = arrays_of(self)[LABEL_TABLE].copy()
        real(self, above, parents)
        mine, theirs = arrays_of(self), arrays_of(above)
        expected = theirs[LABEL_TABLE][parents] if from_parents else before
        np.testing.assert_array_equal(mine[LABEL_TABLE], expected)
        begun.append(all(np.array_equal(mine[name], theirs[name]) for name in mine if name != LABEL_TABLE))

    monkeypatch.setattr(networks.AttentionXmlNetwork, "init_from_parent", begin)
    AttentionXml(**short(**DEEP, **settings)).fit(small_corpus())
    assert begun == [True, True]


@pytest.mark.parametrize("start", ["prior", "inherited"])
def test_where_the_output_bias_begins(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `inherited` a level begins with the bias that the one above ended with."""
    from xmtc.nn import trainer

    ends: list[float] = []
    begins: list[float] = []
    real = trainer.train

    def train(learner: Any, *others: Any) -> None:
        bias = learner.network.head.output.bias
        begins.append(bias.item())
        real(learner, *others)
        ends.append(bias.item())

    monkeypatch.setattr(trainer, "train", train)
    AttentionXml(**short(**DEEP, output_bias=start)).fit(small_corpus())
    assert len(begins) == 3
    assert (begins[1:] == ends[:-1]) == (start == "inherited")


def test_it_says_what_the_beam_loses(capsys: pytest.CaptureFixture[str]) -> None:
    """All nodes in the beam lose nothing; one of them loses what only the others have."""
    said: list[float] = []
    for width in (64, 1):
        AttentionXml(**short(**{**TREE, "beam_width": width})).fit(small_corpus())
        found = re.findall(rf"tree0-level0: a beam of {width} nodes holds ([0-9.]+) %", capsys.readouterr().err)
        said += map(float, found)
    assert said[0] == 100
    assert len(said) == 2 and said[1] < 100


def test_each_level_has_its_rate_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.nn.trainer import Trainer

    rates: list[list[float]] = []
    monkeypatch.setattr(Trainer, "fit", lambda trainer: rates.append(sorted(trainer.optimiser.rates)))
    settings = changed(training={"epochs": 1, "learning_rate": 0.1, "row_learning_rate": [0.3, 0.2]}, **DEEP)
    AttentionXml(**settings).fit(small_corpus())
    assert rates == [[0.1, 0.3], [0.1, 0.2], [0.1, 0.2]]


def test_pretraining_comes_before_the_first_level(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.models.attentionxml import pretraining

    asked: list[tuple[int, int, int]] = []
    real = pretraining.pretrain_words

    def spy(table: Any, train: Any, valid: Any, epochs: int, *further: Any) -> Any:
        asked.append((train.targets.shape[1], len(valid.tokens), epochs))
        return real(table, train, valid, epochs, *further)

    monkeypatch.setattr(pretraining, "pretrain_words", spy)
    models = [AttentionXml(**short(**TREE, trees=2, pretraining_epochs=n)).fit(small_corpus()) for n in (0, 3)]
    assert asked == [(4, 12, 3)] * 2  # the nodes of the first level, for each tree
    cold, warm = (weights_of(model)["0.0.words.words.weight"] for model in models)
    assert not np.allclose(cold, warm)


@pytest.mark.parametrize("option", ["word_skip", "logsumexp_score"])
def test_what_the_paper_does_not_have_is_an_option(option: str) -> None:
    models = [AttentionXml(**short(**{option: on})).fit(small_corpus()) for on in (True, False)]
    named = [{name for name in weights_of(model) if option in name} for model in models]
    assert named[0] and not named[1]


def test_further_levels_learn_from_what_the_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right nodes put in; but they are not put into the search itself, nor do they lose it its scores."""
    from xmtc.nn import level as levels

    learners: list[levels.LevelLearner] = []
    above: list[levels.Beam] = []
    make, step = levels.LevelLearner.__init__, levels.expand_beam

    def remember(self: levels.LevelLearner, *arguments: Any) -> None:
        make(self, *arguments)
        learners.append(self)

    def remember_step(network: Any, level: Any, tokens: Any, beam: levels.Beam, *further: Any) -> Any:
        if not further[2:] or "candidates" in further[2]:
            above.append(beam)
        return step(network, level, tokens, beam, *further)

    monkeypatch.setattr(levels.LevelLearner, "__init__", remember)
    monkeypatch.setattr(levels, "expand_beam", remember_step)
    corpus = small_corpus()
    AttentionXml(**changed(training={"epochs": 1}, **{**DEEP, "beam_width": 1})).fit(corpus)
    assert len(learners) == 3
    for upper, lower in pairwise(learners):
        for row in range(len(lower.train.tokens)):
            relevant = upper.train.targets.indices[slice(*upper.train.targets.indptr[row : row + 2])]
            if len(relevant):
                assert lower.beam.nodes[row, 0] in relevant
    second = above[2]  # the training documents' nodes before the step down from the second level
    assert (second.scores < 0).all()
    rows = np.arange(len(second.nodes))
    irrelevant = [second.nodes[row, 0] not in learners[0].train.targets[[row]].indices for row in rows]
    assert any(irrelevant), "after one epoch the search makes mistakes"


def test_trees_of_an_ensemble_differ_and_are_averaged() -> None:
    corpus = small_corpus()
    model = AttentionXml(**changed(trees=2, **TREE)).fit(corpus)
    first, second = (member.tree.levels[-1].toarray() for member in model.members_)
    assert not np.array_equal(first, second)
    lists = model._lists(corpus, 3)
    blended = Predictions.blend(lists, k=3)
    top = model.predict(corpus, k=3)
    np.testing.assert_array_equal(top.ids, blended.ids)
    np.testing.assert_allclose(top.scores, blended.scores)


def test_flat_ensemble_has_different_seeds() -> None:
    one, two = AttentionXml(**short(trees=2)).fit(small_corpus()).members_
    a, b = (arrays_of(member.networks[0])["encoder.left.weight_hh_l0"] for member in (one, two))
    assert not np.array_equal(a, b)


def test_the_choice_of_the_tree_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    AttentionXml(**short()).fit(small_corpus())
    assert "attentionxml: flat: 6 labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "levels", "first_level"), [(400, 0, 400), (24_000, 1, 2048), (670_000, 2, 2048), (3_000_000, 2, 2048)]
)
def test_a_tree_follows_from_the_number_of_labels(labels: int, levels: int, first_level: int) -> None:
    shape = AttentionXml()._shape_for(labels)
    assert shape.levels == levels
    if levels:
        assert labels / shape.max_leaf / shape.arity ** (levels - 1) <= first_level
        assert shape.beam_width * shape.max_leaf >= 512
        assert "tree" in shape.reason


@pytest.mark.parametrize(
    ("settings", "message"),
    [({**DEEP, "levels": 5}, "at most 3 levels"), ({**TREE, "arity": 3}, "power of 2")],
)
def test_trees_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AttentionXml(**changed(**settings)).fit(small_corpus())


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"epochs": [3, -1]}, "training.epochs.1=-1: Input should be greater than 0"),
        ({"epochs": 0}, "training.epochs=0: Input should be greater than 0"),
        ({"epochs": "many"}, "training.epochs='many': Input should be a valid integer"),
        ({"row_learning_rate": []}, r"training.row_learning_rate=\[\]: Tuple should have at least 1 item"),
    ],
)
def test_what_may_be_a_number_or_a_list_says_what_is_wrong(training: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"attentionxml: {message}"):
        AttentionXml(training=training)


def test_more_candidates_than_nodes() -> None:
    corpus = small_corpus()
    model = AttentionXml(**changed(**{**TREE, "beam_width": 50})).fit(corpus)
    assert (model.predict(corpus, k=6).ids >= 0).all(), "with all nodes followed every label is found"


def test_probabilities_are_products_down_the_path() -> None:
    corpus = small_corpus()
    model = AttentionXml(**short(**{**DEEP, "beam_width": 50})).fit(corpus)
    import torch

    from xmtc.nn.batching import padded

    assert corpus.texts is not None
    tokens = model.tokenizer_.encode(corpus.texts)
    member, top = model.members_[0], model.predict(corpus[:4], k=6)
    for row in range(4):
        ids, lengths = padded(tokens, np.array([row]))
        below = [torch.arange(level.shape[1])[None] for level in member.tree.levels[1:]]
        with torch.inference_mode():  # as in prediction, which scores all nodes of the first level
            own = [
                torch.sigmoid(network(ids, lengths, asked, quantized=True))[0].numpy()
                for network, asked in zip(member.networks, [None, *below], strict=True)
            ]
        expected = {}
        for label in range(6):
            probability, node = 1.0, label
            for level, scores in zip(reversed(member.tree.levels), reversed(own), strict=True):
                probability *= float(scores[node])
                node = int(np.flatnonzero(level.toarray()[:, node])[0])
            expected[label] = probability
        for label, score in zip(top.ids[row].tolist(), top.scores[row].tolist(), strict=True):
            assert score == pytest.approx(expected[label], rel=1e-4, abs=1e-6)


# Before the first checkpoint, within an epoch, after the first level or model, and in the middle of the second.
@pytest.mark.parametrize(("settings", "moments"), [(TREE, (2, 40, 83)), ({"trees": 2}, (90,))])
def test_going_on_after_a_kill_gives_the_same_model(
    settings: dict[str, Any], moments: tuple[int, ...], tmp_path: Path, fork_server: Callable[..., ForkServer]
) -> None:
    chosen = changed(training={"epochs": 3, "batch_size": 4, "evaluate_every": 4, "swa_start_epoch": 1}, **settings)
    whole = AttentionXml(**chosen).fit(small_corpus())
    for moment in moments:  # 27 steps an epoch
        folder = tmp_path / str(moment)
        run = fork_server("numba", "lightning.fabric").run(CHILD, folder, json.dumps(chosen), str(moment))
        assert run.returncode == -9, run.stderr
        resumed = AttentionXml(**chosen).fit(small_corpus(), checkpoints=folder)
        assert_same_weights(whole, resumed)


def test_checkpoints_of_other_settings_are_refused(tmp_path: Path) -> None:
    AttentionXml(**short()).fit(small_corpus(), checkpoints=tmp_path / "pieces")
    with pytest.raises(BadModelFolder, match="another run"):
        AttentionXml(**short(hidden=8)).fit(small_corpus(), checkpoints=tmp_path / "pieces")


def test_validation_documents_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.nn import level as levels

    seen: list[int] = []
    real = levels.LevelLearner.validation_ndcg

    def validation_ndcg(self: levels.LevelLearner, cores: Any) -> float | None:
        seen.append(len(self.valid.tokens))
        return real(self, cores)

    monkeypatch.setattr(levels.LevelLearner, "validation_ndcg", validation_ndcg)
    corpus, valid = small_corpus(), small_corpus(40, seed=3)
    AttentionXml(**short()).fit(corpus, valid)
    AttentionXml(**short()).fit(corpus)
    assert set(seen) == {40, 12}


def test_explanation_says_where_it_looked() -> None:
    model = AttentionXml(**changed(**TREE)).fit(small_corpus())
    text = "Ship, sail; the HARBOUR! ship"
    why = model.explain(text, "sea")
    assert [text[start:end] for start, end, _ in why.spans] == ["Ship", "sail", "the", "HARBOUR", "ship"]
    assert sum(share for *_, share in why.spans) == pytest.approx(1, abs=1e-5)
    assert dict(why.words)["ship"] == pytest.approx(why.spans[0][2] + why.spans[4][2])
    assert why.text == text


@pytest.mark.parametrize("settings", [{}, TREE])
def test_labels_without_documents_are_left_out(settings: dict[str, Any], tmp_path: Path) -> None:
    some = small_corpus()
    known = [some.labels.name(at) for at in range(len(some.labels))]
    names = [name for label in known for name in (f"never {label}", label)]
    tags = [[known[label] for label in some.labels_of(row)] for row in range(len(some))]
    assert some.texts is not None
    corpus = Corpus.of(some.texts, tags, LabelSet.of(names))
    AttentionXml(**short(**settings)).fit(corpus).save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert isinstance(model, AttentionXml)
    assert model.members_[0].tree.labels == len(known)
    found = model.predict(["ship"], k=len(names)).names()[0]
    assert {name for name, _ in found} <= set(known)
    plain = AttentionXml(**short(**settings)).fit(some).predict(some, k=3).names()
    assert model.predict(some, k=3).names() == plain
    why = model.explain("ship", "never sea")
    assert (why.score, why.evidence) == (0.0, ("no training document had this label",))


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    assert (
        AttentionXml(hidden=512).memory_needed(corpus) > AttentionXml(hidden=8, layers=(8,)).memory_needed(corpus) > 0
    )
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match=r"needs about .* GiB of memory"):
        AttentionXml().fit(corpus)


def test_tensorboard_log(tmp_path: Path) -> None:
    AttentionXml(**short(**TREE)).fit(small_corpus(), log=tmp_path / "log")
    assert {folder.name for folder in (tmp_path / "log").iterdir()} == {"tree0-level0", "tree0-level1"}
    assert list((tmp_path / "log" / "tree0-level1").glob("events.*"))
