"""`treaderxml` beside the contract: its options, that nobody is told the own labels, fallbacks, explanations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contract_corpus import QUICK, small_corpus

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus, label_matrix
from xmtc.corpus.labels import LabelSet
from xmtc.corpus.strings import Strings
from xmtc.errors import ConfigError, OutOfMemory
from xmtc.evaluation.reports.explanation_page import write_explanation_page
from xmtc.models import base
from xmtc.models.registry import load
from xmtc.models.treaderxml.model import TReaderXml
from xmtc.nn.encoders.embeddings import EncoderVectors
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.recipes import read_recipe, recipe_folder
from xmtc.search.neighbours import DocumentSearch, Neighbours

SMALL: dict[str, Any] = QUICK["treaderxml"]
#: Table 3 of the paper.
ABLATION: list[dict[str, Any]] = [
    {"branches": "text", "reading": "none"},
    {"reading": "none"},
    {"reading": "mmhsa+r"},
    {"reading": "mhsa+r"},
    {"reading": "mhsa+r+mmhsa"},
    {"reading": "mmhsa+mhsa"},
    {"reading": "mmhsa+r+mhsa"},
]


#: The formulas of the paper, as printed.
PRINTED: dict[str, Any] = {
    "parentless_labels": False,
    "knowledge_mean": "labels",
    "pooling": "mean",
    "linear_bottleneck": True,
    "dropout": 0.0,
    "output_bias": False,
    "loss_over_labels": "sum",
}


def changed(**settings: Any) -> dict[str, Any]:
    """The small settings with others, those of words and training taken one by one."""
    groups = {key: {**SMALL.get(key, {}), **settings.pop(key, {})} for key in ("words", "training")}
    return {**SMALL, **groups, **settings}


def short(**settings: Any) -> dict[str, Any]:
    """Settings for tests in which it does not matter how much was learned."""
    return changed(training={"epochs": 1}, **settings)


def share_right(model: TReaderXml, corpus: Corpus) -> float:
    top = model.predict(corpus, k=1).ids[:, 0]
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    return float(np.mean([top[row] in corpus.labels_of(row) for row in labelled]))


@pytest.mark.parametrize("at", range(7))
def test_every_row_of_the_ablation_learns(at: int) -> None:
    corpus = small_corpus()
    model = TReaderXml(**changed(**ABLATION[at], training={"epochs": 6, "learning_rate": 0.02})).fit(corpus)
    assert share_right(model, corpus) > 0.8
    network = model.scorer_.network
    layers = {"none": 0, "mmhsa+r": 1, "mhsa+r": 1}.get(ABLATION[at]["reading"], 2)
    assert network.text is not None
    assert len(network.text.layers) == layers
    assert (network.teacher is None) == (at == 0)
    assert (model.knowledge_.search is None) == (at == 0), "who needs no neighbours looks for none"


@pytest.mark.parametrize(
    "settings",
    [
        {"branches": "teacher"},
        {"weighting": "similarity"},
        {"search": {"vectors": "tfidf_mean", "max_similarity": 0.99}, "knowledge_dropout": 0.3},
        {"votes": True, "voters": 20, "words": {"frozen": True}},
        PRINTED,
        {**PRINTED, "hides": "earlier", "softmax": True},
        {"candidates": "neighbours", "voters": 20, "search": {"vectors": "tfidf"}},
        {"candidates": "tree", "cluster_size": 2, "beam_width": 2, "words": {"vectors": "learn"}},
        {
            "candidates": "both",
            "cluster_size": 2,
            "beam_width": 1,
            "votes": True,
            "voters": 9,
            "training": {"swa_start_epoch": 3},
        },
    ],
    ids=str,
)
def test_every_option_learns_and_is_saved(settings: dict[str, Any], tmp_path: Path) -> None:
    corpus, quick = small_corpus(), {"epochs": 6, "learning_rate": 0.02, **settings.get("training", {})}
    model = TReaderXml(**changed(**{**settings, "training": quick})).fit(corpus, checkpoints=tmp_path / "pieces")
    # The teacher alone is as good as the neighbours are.
    assert share_right(model, corpus) > (0.6 if settings.get("branches") == "teacher" else 0.8)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(corpus[:30]).ids, model.predict(corpus[:30]).ids)
    np.testing.assert_allclose(loaded.predict(corpus[:30]).scores, model.predict(corpus[:30]).scores, rtol=1e-5)
    assert loaded.explain("ship wave sail", "sea").text == "ship wave sail"


@pytest.mark.parametrize("vectors", ["tfidf", "encoder"])
def test_an_encoder_reads_beside_the_network(
    vectors: str, tiny_encoder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, read = small_corpus(), []
    real = EncoderVectors.transform

    def transform(self: EncoderVectors, some: Corpus) -> Any:
        read.append(len(some))
        return real(self, some)

    monkeypatch.setattr(EncoderVectors, "transform", transform)
    quick = {"epochs": 20, "learning_rate": 0.005}
    encoder = {"name": str(tiny_encoder("bert")), "max_tokens": 24}
    search, votes = {"vectors": vectors}, vectors == "tfidf"  # the tiny encoder's neighbours are found by chance
    settings = changed(training=quick, encoded=True, votes=votes, search=search, encoder=encoder)
    model = TReaderXml(**settings).fit(corpus)
    assert read == [len(corpus)], "training documents are read once, also if the search needs their vectors"
    assert share_right(model, corpus) > 0.8
    assert isinstance(model.knowledge_.encoder, EncoderVectors)
    assert model._networks() == [model.scorer_.network, model.knowledge_.encoder.encoder]
    assert model.scorer_.network.bottleneck.in_features == 2 * SMALL["words"]["dimensions"] + 16
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    read.clear()
    np.testing.assert_array_equal(loaded.predict(corpus[:30]).ids, model.predict(corpus[:30]).ids)
    assert read == [30, 30], "a model reads a document once"
    assert loaded.explain("ship wave sail", "sea").text == "ship wave sail"


def test_labels_whose_names_are_like_the_text(tmp_path: Path) -> None:
    names = ["red apple", "blue sky", "old ship"]
    labels = LabelSet.of(["a", "b", "c"], names=names)
    texts = ["the apple is red", "a sky so blue", "ship of old", "apple tree"] * 10
    tags = [["a"], ["b"], ["c"], ["a"]] * 10
    corpus = Corpus.of(texts, tags).with_labels(labels)
    settings = short(votes=True, voters=5, names=True, search={"vectors": "tfidf"})
    model = TReaderXml(**settings).fit(corpus)
    inputs = model._inputs(Corpus.of(["an old blue ship", "nothing of it"]))
    assert inputs.names is not None
    alike = inputs.names.toarray()
    assert alike.shape == (2, 3)
    assert alike[0, 2] > alike[0, 1] > alike[0, 0] == 0
    assert not alike[1].any()
    before = model.predict(["an old blue ship"], k=3)
    scale = model.scorer_.network.name_scale
    assert scale is not None
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict(["an old blue ship"], k=3).scores, before.scores, rtol=1e-5)
    said = [line for line in loaded.explain("an old blue ship", "c").evidence if "alike" in line]
    assert said == [f"its name and the text are alike by {alike[0, 2]:.2f}"]
    with torch.no_grad():
        scale.zero_()
    after = model.predict(["an old blue ship"], k=3)
    gain = (
        dict(zip(before.ids[0], before.scores[0], strict=True))[2],
        dict(zip(after.ids[0], after.scores[0], strict=True))[2],
    )
    assert gain[0] > gain[1]


@pytest.mark.parametrize("settings", [{"votes": False}, {"votes": True, "search": {"vectors": "mean"}}])
def test_names_need_votes_by_tfidf(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="names=true adds to the votes"):
        TReaderXml(**changed(names=True, **settings))


@pytest.mark.parametrize(
    "path", sorted((recipe_folder() / "treaderxml" / "paper").glob("*.yaml")), ids=lambda at: at.stem
)
def test_a_recipe_of_the_paper_has_the_formulas_as_printed_and_nothing_of_ours(path: Path) -> None:
    config = TReaderXml(**read_recipe(str(path))[1]).config
    printed = {key: value for key, value in PRINTED.items() if key != "pooling"}
    assert {key: getattr(config, key) for key in printed} == printed
    assert (config.branches, config.reading, config.hides, config.softmax) == ("both", "mmhsa+r+mhsa", "later", False)
    assert not (config.votes or config.names or config.encoded or config.knowledge_dropout or config.words.dropout)
    assert (config.weighting, config.search.vectors, config.search.max_similarity) == ("equal", "mean", None)
    assert (config.heads, config.training.learning_rate, config.training.swa_start_epoch) == (4, 1e-4, None)


def test_votes_need_a_bias() -> None:
    with pytest.raises(ConfigError, match="votes=true starts from labels' biases"):
        TReaderXml(**changed(votes=True, output_bias=False))


def test_votes_to_learn_from_are_as_right_as_those_for_new_texts() -> None:
    """Of labels with one document, votes for training documents would all be wrong."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(120, 3))
    # Each document has a label of its own that means nothing, and one that says where it is.
    tags = [[f"own {at}", f"side {int(place[0] > 0)}"] for at, place in enumerate(places)]
    words = [
        " ".join(f"w{int(x > 0)}{axis}" for axis, x in enumerate(place)) + f" x{at}" for at, place in enumerate(places)
    ]
    model = TReaderXml(**short(votes=True, voters=10)).fit(Corpus.of(words, tags))
    knowledge, targets = model.knowledge_, model.knowledge_.seen_targets
    assert knowledge.search is not None
    near = knowledge.search.nearest(Corpus.of(words), 10)
    plain = knowledge.inputs(Corpus.of(words), model.tokenizer_.encode(Strings.of(words), 50), near)
    fair = knowledge.with_fair_votes(plain, near, seed=0).votes
    assert plain.votes is not None
    assert fair is not None
    own = np.array([model.labels_.name(int(label)).startswith("own") for label in model.seen_.ids])  # type: ignore[union-attr]
    before, after, relevant = plain.votes.toarray(), fair.toarray(), targets.toarray() > 0
    assert (before[:, own] > 0).any()
    assert not (after[:, own] > 0).any(), "its only document cannot vote for it"
    np.testing.assert_allclose(after[relevant], before[relevant], rtol=1e-5)
    assert (after <= before + 1e-6).all()
    assert 0.5 * before[:, ~own].sum() < after[:, ~own].sum()
    assert knowledge.with_fair_votes(plain, None, seed=0) is plain


def test_what_an_encoder_read_is_kept_with_the_checkpoints(tiny_encoder: Callable[[str], Path], tmp_path: Path) -> None:
    corpus, encoder = small_corpus(), EncoderSettings(name=str(tiny_encoder("bert")), max_tokens=24)
    knowledge = TReaderXml(**short()).fit(corpus).knowledge_
    assert knowledge.encode(corpus, None, Checkpoints(tmp_path / "pieces", {})) is None
    first = knowledge.encode(corpus, encoder, Checkpoints(tmp_path / "pieces", {}))
    again = knowledge.encode(corpus[:1], encoder, Checkpoints(tmp_path / "pieces", {}))
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first, again)


def found_in_training(model: TReaderXml, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Neighbours:
    """Fit, and give the neighbours that the training documents had."""
    found: list[Neighbours] = []
    real = DocumentSearch.nearest_of_training

    def nearest(self: DocumentSearch, matrix: Any, k: int) -> Neighbours:
        found.append(real(self, matrix, k))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(DocumentSearch, "nearest_of_training", nearest)
        model.fit(corpus)
    (only,) = found
    return only


@pytest.mark.parametrize("vectors", ["mean", "tfidf"])
def test_no_document_is_among_its_own_neighbours_nor_is_a_copy(vectors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = small_corpus(40)
    assert one.texts is not None
    corpus = Corpus.of([*one.texts, *one.texts[:10]], [["a"]] * 50)
    model = TReaderXml(**short(search={"vectors": vectors}))
    near = found_in_training(model, corpus, monkeypatch)
    texts = list(corpus.texts or ())
    for row, ids in enumerate(near.ids.tolist()):
        assert ids[0] >= 0
        assert all(texts[at] != texts[row] for at in ids if at >= 0)
    same = model.knowledge_.nearest(corpus)  # as for documents that the model has never seen
    assert same is not None
    np.testing.assert_array_equal(same.ids, near.ids)


def test_a_limit_for_neighbours_holds_in_training_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """New texts may have a near relative, whose labels are worth most."""
    corpus, limit = small_corpus(60), 0.6
    search = {"vectors": "tfidf", "max_similarity": limit}
    model = TReaderXml(**short(search=search, votes=True, voters=5))
    near = found_in_training(model, corpus, monkeypatch)
    assert near.similarities.max() <= limit
    free = TReaderXml(**short(search={"vectors": "tfidf"}, votes=True, voters=5))
    unlimited = found_in_training(free, corpus, monkeypatch)
    assert unlimited.similarities.max() > limit
    new = small_corpus(20, seed=8)
    model.save(tmp_path / "model")
    expected = free.knowledge_.nearest(new)
    for each in (model, load(tmp_path / "model")):
        assert isinstance(each, TReaderXml)
        found = each.knowledge_.nearest(new)
        assert found is not None
        assert expected is not None
        np.testing.assert_array_equal(found.ids, expected.ids)
        assert found.similarities.max() > limit


def test_the_teacher_cannot_tell_a_training_document_its_own_labels() -> None:
    """Labels by chance, another text each: who were told the own labels would learn to repeat them."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{at}" for at in range(60)])
    texts = [" ".join(words[rng.integers(0, 60, 8)]) for _ in range(80)]
    tags = [[f"word{rng.integers(0, 6)}"] for _ in texts]
    settings = changed(branches="teacher", neighbours=1, training={"epochs": 15, "learning_rate": 0.02})
    corpus = Corpus.of(texts, tags)
    honest = TReaderXml(**settings).fit(corpus)
    told = honest.knowledge_.inputs(
        corpus,
        honest.tokenizer_.encode(corpus.texts or ()),  # type: ignore[arg-type]
        Neighbours(np.arange(80, dtype=np.int32)[:, None], np.ones((80, 1), np.float32)),
    )
    assert told.knowledge is not None
    own = honest.knowledge_.inputs(corpus, told.tokens, honest.knowledge_.nearest(corpus))
    assert own.knowledge is not None
    relevant = corpus.targets.toarray() > 0
    assert told.knowledge.toarray()[:, :6][relevant].all(), "this is what a leak would look like"
    assert own.knowledge.toarray()[:, :6][relevant].mean() < 0.5
    assert share_right(honest, corpus) < 0.6


def test_predictions_do_not_look_at_labels_of_test_documents() -> None:
    model = TReaderXml(**short(votes=True, voters=5)).fit(small_corpus())
    test = small_corpus(30, seed=4)
    shuffled = test.targets[np.random.default_rng(0).permutation(len(test))]
    other = Corpus(shuffled, test.labels, texts=test.texts)
    for documents in (other, list(test.texts or ())):
        np.testing.assert_array_equal(model.predict(documents).scores, model.predict(test).scores)


def test_knowledge_of_validation_documents_comes_from_training_documents_only(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, valid = small_corpus(), small_corpus(40, seed=3)
    shuffled = Corpus(valid.targets[::-1], valid.labels, texts=valid.texts)
    # One evaluation, at the end: the weights do not depend on how good it is.
    models = [TReaderXml(**short()).fit(corpus, documents) for documents in (valid, shuffled)]
    assert [len(model.knowledge_.search or ()) for model in models] == [120, 120]
    one, other = (model.predict(small_corpus(20, seed=9)).scores for model in models)
    np.testing.assert_array_equal(one, other)


HIERARCHY = LabelSet.of(
    ["sea", "kitchen", "sky", "nature", "never"],
    names=["Ships at sea", "Bread and salt", "Cloud and wind", "Wind and waves", "Anchor"],
    parents=[["nature"], [], ["nature"], [], ["sea"]],
)


def with_hierarchy(documents: int = 60) -> Corpus:
    """The documents about three topics, with a hierarchy that has labels which no document has."""
    some = small_corpus(documents)
    keys = [some.labels.key(at) for at in range(len(some.labels))]
    tags = [[keys[at] for at in some.labels_of(row) if keys[at] in HIERARCHY.keys] for row in range(len(some))]
    return Corpus.of(some.texts or (), tags, HIERARCHY)


def test_a_hierarchy_with_labels_that_the_corpus_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    corpus = with_hierarchy()
    model = TReaderXml(**changed()).fit(corpus)
    err = capsys.readouterr().err
    assert "no hierarchy" not in err
    assert "no name" not in err
    assert len(model.seen_) == 3
    teacher = model.knowledge_.teacher
    assert teacher is not None
    assert teacher.description(3, model.tokenizer_.words) == "wind and waves"
    assert {name for name, _ in model.predict(["ship wave"], k=5).names()[0]} == {
        "Ships at sea",
        "Bread and salt",
        "Cloud and wind",
    }
    why = model.explain("ship sail wave harbour", "sea")
    assert "with it came what is above it: Wind and waves" in why.evidence
    assert model.explain("ship", "never").evidence == ("no training document had this label",)


def test_fallbacks_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    TReaderXml(**short(cluster_size=2)).fit(small_corpus())
    err = capsys.readouterr().err
    assert "treaderxml: the labels have no hierarchy: clusters of them take its place (4)" in err
    assert "6 of 6 labels have no name that is made of words" in err


def test_a_single_document(capsys: pytest.CaptureFixture[str]) -> None:
    model = TReaderXml(**short()).fit(Corpus.of(["a ship"], [["sea"]]))
    assert "1 of 1 documents have no neighbour" in capsys.readouterr().err
    assert model.predict(["a ship", "ship", ""], k=1).names()[1][0][0] == "sea"
    assert "no training document is near" in str(model.explain("a ship", "sea")), "it is its own copy"


def test_an_empty_neighbourhood() -> None:
    for settings in ({}, {"candidates": "neighbours"}, {"votes": True}):
        model = TReaderXml(**short(**settings)).fit(small_corpus())
        top = model.predict(["unheard of", ""], k=2)
        assert (top.ids >= 0).all()
        assert "no training document is near" in str(model.explain("unheard of", "sea"))


def test_explanation() -> None:
    some = with_hierarchy()
    corpus = Corpus(some.targets, some.labels, texts=some.texts, ids=label_ids(len(some)))
    model = TReaderXml(**changed(votes=True, voters=10)).fit(corpus)
    text = "Ship, sail; the HARBOUR! wave"
    why = model.explain(text, "sea")
    assert [text[start:end] for start, end, _ in why.spans] == ["Ship", "sail", "the", "HARBOUR", "wave"]
    assert sum(share for *_, share in why.spans) == pytest.approx(1, abs=1e-5)
    assert sum(share for _, share in why.words) == pytest.approx(1, abs=1e-5)
    near = model.knowledge_.nearest(Corpus.of([text]))
    assert near is not None
    first, similarity = int(near.ids[0, 0]), near.similarities[0, 0]
    assert f"training document number {first} has it, similarity {similarity:.2f}" in why.evidence
    assert "the teacher describes it as: ships at sea" in why.evidence
    assert any("of the attention" in line for line in why.evidence)
    assert any("of the votes of 10 neighbours" in line for line in why.evidence)
    for at, key in enumerate(["sea", "kitchen", "sky"]):
        have = sum(at in corpus.labels_of(row) for row in near.ids[0, :3].tolist())
        assert model.explain(text, key).evidence[0].startswith(f"{have or 'none'} of 3 neighbours")


def label_ids(count: int) -> Any:
    from xmtc.corpus.strings import Strings

    return Strings.of(f"number {at}" for at in range(count))


def test_explanation_page(tmp_path: Path) -> None:
    model = TReaderXml(**short()).fit(with_hierarchy())
    write_explanation_page([model.explain("ship sail", "sea")], tmp_path / "why.html")
    page = (tmp_path / "why.html").read_text("utf-8")
    assert "similarity" in page
    assert "Wind and waves" in page


def test_labels_without_parents_are_kept() -> None:
    corpus = with_hierarchy()
    known = TReaderXml(**short()).fit(corpus)._inputs(corpus).knowledge
    assert known is not None
    assert known.toarray()[:, 1].any()  # kitchen has no parent
    assert known.toarray()[:, 3].any()  # nature is one
    model = TReaderXml(**short(parentless_labels=False)).fit(corpus)
    printed = model._inputs(corpus).knowledge
    assert printed is not None
    assert not printed.toarray()[:, 1].any(), "Algorithm 1 leaves out kitchen"
    np.testing.assert_array_equal(printed.toarray()[:, [0, 2, 3]], known.toarray()[:, [0, 2, 3]])


def test_candidates_never_score_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.models.treaderxml import network as scorer

    widths: list[int] = []
    real = scorer.LabelRows.forward

    def forward(self: scorer.LabelRows, hidden: Any, labels: Any = None) -> Any:
        found = real(self, hidden, labels)
        widths.append(found.shape[1])
        return found

    monkeypatch.setattr(scorer.LabelRows, "forward", forward)
    rng = np.random.default_rng(0)
    words = np.array([f"w{at}" for at in range(300)])
    texts = [" ".join(words[rng.integers(0, 300, 6)]) for _ in range(120)]
    targets = label_matrix(rng.permutation(360), np.arange(0, 361, 3), 360)
    corpus = Corpus(targets, LabelSet.of(f"l{at}" for at in range(360)), texts=Corpus.of(texts).texts)
    settings = short(candidates="both", voters=3, cluster_size=4, beam_width=2, neighbours=2)
    model = TReaderXml(**settings).fit(corpus)
    model.predict(texts[:2], k=5)
    assert 0 < max(widths) < 360


def test_many_labels_are_not_all_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    from xmtc.models.treaderxml import model as treaderxml

    assert TReaderXml(**short()).fit(small_corpus()).scorer_.candidates is None
    monkeypatch.setattr(treaderxml, "MANY_LABELS", 5)
    candidates = TReaderXml(**short()).fit(small_corpus()).scorer_.candidates
    assert candidates is not None
    assert candidates.neighbours
    assert candidates.clusters is not None


def test_neighbours_are_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    first = TReaderXml(**short()).fit(corpus, checkpoints=tmp_path / "pieces")

    def nearest(self: DocumentSearch, matrix: Any, k: int) -> Neighbours:
        raise AssertionError("they were kept")

    monkeypatch.setattr(DocumentSearch, "nearest_of_training", nearest)
    again = TReaderXml(**short()).fit(corpus, checkpoints=tmp_path / "pieces")
    np.testing.assert_array_equal(again.predict(corpus).scores, first.predict(corpus).scores)


def test_impossible_settings() -> None:
    with pytest.raises(ConfigError, match="heads=17 for word vectors of 16 numbers"):
        TReaderXml(**short(heads=17)).fit(small_corpus())
    for irrelevant in ({"reading": "mmhsa"}, {"branches": "none"}, {"neighbours": 0}, {"search": {"vectors": "bert"}}):
        with pytest.raises(ConfigError, match=next(iter(irrelevant))):
            TReaderXml(**irrelevant)


def test_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = small_corpus()
    assert TReaderXml(bottleneck=4000).memory_needed(corpus) > TReaderXml().memory_needed(corpus) > 0
    monkeypatch.setattr(base, "available_memory", lambda: 10)
    with pytest.raises(OutOfMemory, match="treaderxml"):
        TReaderXml().fit(corpus)
