"""The contract: what every registered model must do. A new model is in this suite by being in the catalogue."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from contract_corpus import FEWER_DOCUMENTS, QUICK, corpus_for, in_short
from warm_processes import ForkServer

from xmtc import storage
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError, NotFitted, XmtcError
from xmtc.models.base import Model
from xmtc.models.calibration import Method
from xmtc.models.config import Capabilities, ModelConfig
from xmtc.models.ensemble.blend import ENSEMBLES, Blend
from xmtc.models.registry import load, make, model_class
from xmtc.predictions import Predictions, ScoreKind
from xmtc.storage import FolderWriter

CHILDREN = Path(__file__).parent / "children"


def assert_same(a: Predictions, b: Predictions) -> None:
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-5, atol=1e-6)


def assert_sound(top: Predictions, documents: int, k: int) -> None:
    """Sorted, ties to the lower id, no label twice, -1 only at the end, finite scores."""
    assert top.ids.shape == top.scores.shape == (documents, k)
    assert top.ids.dtype == np.int32
    assert top.scores.dtype == np.float32
    assert np.isfinite(top.scores).all()
    for ids, scores in zip(top.ids.tolist(), top.scores.tolist(), strict=True):
        real = [label for label in ids if label >= 0]
        assert ids == real + [-1] * (k - len(real))
        assert len(set(real)) == len(real)
        assert all(label < len(top.labels) for label in real)
        pairs = [(-score, label) for score, label in zip(scores, real, strict=False)]
        assert pairs == sorted(pairs)


def test_declares_itself(name: str) -> None:
    model = model_class(name)
    assert model.name == name
    assert isinstance(model.capabilities, Capabilities)
    assert issubclass(model.Config, ModelConfig)
    assert model.capabilities.summary
    assert model.__doc__
    assert sys.modules[model.__module__].__doc__, "a method's file opens with what it does"


def test_fit_keeps_labels(fitted: Model, corpus: Corpus) -> None:
    assert fitted.labels_ is not None
    assert fitted.labels_.counts is not None
    np.testing.assert_array_equal(fitted.labels_.counts, corpus.label_counts)
    assert fitted.train_documents_ == len(corpus)


def test_predictions_are_sound(fitted: Model, corpus: Corpus) -> None:
    assert_sound(fitted.predict(corpus, k=3), len(corpus), 3)
    assert fitted.predict(corpus, k=3).kind == fitted.score_kind


def test_learns_better_than_chance(fitted: Model, corpus: Corpus, name: str) -> None:
    top = fitted.predict(corpus, k=1).ids[:, 0]
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr))
    precision = np.mean([top[row] in corpus.labels_of(row) for row in labelled.tolist()])
    assert precision > (0.15 if name == "prior" else 0.8)


def test_batch_equals_single(fitted: Model, corpus: Corpus) -> None:
    assert corpus.texts is not None
    whole = fitted.predict(corpus[:20], k=4)
    for row in range(20):
        assert_same(whole[row : row + 1], fitted.predict([corpus.texts[row]], k=4))


def test_k_above_the_number_of_labels(fitted: Model, corpus: Corpus) -> None:
    top = fitted.predict(corpus[:3], k=1000)
    assert_sound(top, 3, len(corpus.labels))


@pytest.mark.parametrize("k", [0, -1])
def test_k_must_be_positive(fitted: Model, k: int) -> None:
    with pytest.raises(XmtcError, match="at least 1"):
        fitted.predict(["ship"], k=k)


ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "one character": "x",
    "control characters": "ship\x00\x01\x1b[31m sail\x7f wave\r\n",
    "Chinese": "東京の街",
    "Cyrillic": "корабль в море",
    "Arabic and marks": "سفينة في البحر e\u0301\u0300\u0323",
    "emoji": "🚢🌊 👩‍👩‍👧 \U0001f1e9\U0001f1ea",
    "unseen words only": "qwxz vbnm plokij",
    "very long": "ship wave bread " * 200_000,
    "one very long word": "s" * 1_000_000,
}


@pytest.mark.parametrize("kind", ODD_TEXTS)
def test_odd_documents(fitted: Model, kind: str) -> None:
    top = fitted.predict([ODD_TEXTS[kind], "ship wave"], k=3)
    assert_sound(top, 2, 3)
    assert_same(top[1:], fitted.predict(["ship wave"], k=3))


def test_odd_documents_in_training(fresh: Model, corpus: Corpus) -> None:
    odd = Corpus.of([*ODD_TEXTS.values(), "ship sail"], [["odd"]] * len(ODD_TEXTS) + [["sea"]])
    assert_sound(fresh.fit(odd).predict(list(ODD_TEXTS.values()), k=2), len(ODD_TEXTS), 2)


def test_can_be_a_member_of_a_blend(fitted: Model, corpus: Corpus, name: str, tmp_path: Path) -> None:
    if name in ENSEMBLES:
        with pytest.raises(ConfigError, match="cannot be a member"):
            Blend(members=[name])
        return
    too_few_to_choose = corpus[:5]  # so that both have a say
    blend = Blend.of([fitted, make("prior").fit(corpus)], too_few_to_choose)
    assert len(blend.members_) == 2
    blend.save(tmp_path / "blend")
    assert_same(load(tmp_path / "blend").predict(corpus[:20], k=3), blend.predict(corpus[:20], k=3))


def test_no_documents_to_predict(fitted: Model) -> None:
    top = fitted.predict([], k=3)
    assert_sound(top, 0, 3)


def test_one_document_one_label(fresh: Model) -> None:
    fit = fresh.fit(Corpus.of(["a ship at sea"], [["sea"]]))
    assert fit is fresh
    assert_sound(fit.predict(["a ship"], k=5), 1, 1)


def test_label_without_documents_is_known_but_harmless(fresh: Model, corpus: Corpus) -> None:
    wider = corpus.with_labels(corpus.labels.extend(["never used"]))
    assert_sound(fresh.fit(wider).predict(corpus[:5], k=3), 5, 3)


def test_same_seed_same_result_and_fitting_again_forgets(fitted: Model, corpus: Corpus) -> None:
    """A second model is as the first one, whatever it was before: fitted on others, calibrated, tuned."""
    other = corpus_for(fitted.name, 30, seed=5)
    again = make(fitted.name, **QUICK.get(fitted.name, {})).fit(other).calibrate(other).tune(other).fit(corpus)
    one, two = fitted.predict(corpus, k=5), again.predict(corpus, k=5)
    np.testing.assert_array_equal(one.ids, two.ids)
    np.testing.assert_array_equal(one.scores, two.scores)
    assert again.calibration_ is None
    assert again.thresholds_ is None
    assert not {"calibration", "thresholds"} & set(again.training_)
    assert again.score_kind is again.capabilities.score


def test_validation_documents_are_accepted(fresh: Model, corpus: Corpus) -> None:
    train, valid = corpus.split(0.2, seed=1)
    assert_sound(fresh.fit(train, valid).predict(valid, k=2), len(valid), 2)


def test_corpus_is_untouched(fitted: Model, corpus: Corpus) -> None:
    fitted.predict(corpus, k=2)
    assert corpus.fingerprint() == corpus_for(fitted.name).fingerprint()


def test_save_load_in_a_fresh_process(
    fitted: Model, corpus: Corpus, tmp_path: Path, fork_server: Callable[..., ForkServer]
) -> None:
    fitted.save(tmp_path / "model")
    assert corpus.texts is not None
    texts = [*corpus.texts[:20], *(text for kind, text in ODD_TEXTS.items() if "long" not in kind)]
    libraries = ("numba", "torch") if "training" in QUICK.get(fitted.name, {}) else ("numba",)
    run = fork_server(*libraries).run(CHILDREN / "predict.py", tmp_path / "model", stdin=json.dumps(texts))
    assert run.returncode == 0, run.stderr[-2000:]
    answer = json.loads(run.stdout)
    top = fitted.predict(texts, k=4)
    assert answer["ids"] == top.ids.tolist()
    np.testing.assert_allclose(answer["scores"], top.scores, rtol=1e-6)
    assert answer["names"] == [[name for name, _ in row] for row in top.names()]
    assert answer["train_documents"] == len(corpus)


def test_loaded_model_saves_again(fitted: Model, corpus: Corpus, tmp_path: Path) -> None:
    fitted.save(tmp_path / "one")
    load(tmp_path / "one").save(tmp_path / "two")
    # Saving over the folder that the model was loaded (memory-mapped) from must not hurt either of them.
    mapped = load(tmp_path / "two")
    mapped.save(tmp_path / "two")
    for model in (mapped, load(tmp_path / "two"), load(tmp_path / "two", verify=False)):
        assert_same(model.predict(corpus[:10], k=3), fitted.predict(corpus[:10], k=3))


def test_no_pickle_in_the_folder(fitted: Model, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    for file in (tmp_path / "model").iterdir():
        assert file.suffix in {".json", ".safetensors", ".txt", ".md"}, file
        assert not file.read_bytes().startswith((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"PK"))


def test_unknown_hyper_parameter_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match="no hyper-parameter 'neighbors_count'"):
        make(name, neighbors_count=3)
    with pytest.raises(ConfigError, match="did you mean 'seed'"):
        make(name, sead=3)


def test_wrong_type_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match="seed='many'"):
        make(name, seed="many")


def test_config_cannot_be_changed(fresh: Model) -> None:
    with pytest.raises(ValueError, match="frozen"):
        fresh.config.seed = 3  # type: ignore[misc]


def test_unfitted_model_says_so(fresh: Model, tmp_path: Path) -> None:
    for call in (lambda: fresh.predict(["x"]), lambda: fresh.save(tmp_path / "m"), lambda: fresh.explain("x", "y")):
        with pytest.raises(NotFitted, match="not fitted"):
            call()
    assert not (tmp_path / "m").exists()


def test_a_single_string_is_a_mistake(fitted: Model) -> None:
    with pytest.raises(XmtcError, match=r"\[text\]"):
        fitted.predict("ship")


def test_corpus_without_labels_or_documents(fresh: Model) -> None:
    with pytest.raises(XmtcError, match="no document has a label"):
        fresh.fit(Corpus.of(["a", "b"], [[], []]))
    with pytest.raises(XmtcError, match="no documents"):
        fresh.fit(Corpus.of([], []))


def test_interrupted_save_leaves_nothing(fitted: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Model, folder: FolderWriter) -> None:
        folder.text("half.txt", "half")
        raise KeyboardInterrupt

    monkeypatch.setattr(type(fitted), "_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_save_keeps_the_old_model(
    fitted: Model, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(type(fitted), "_save", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fitted.save(tmp_path / "model")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert_same(load(tmp_path / "model").predict(corpus[:5]), fitted.predict(corpus[:5]))


def test_explain_as_declared(fitted: Model, corpus: Corpus) -> None:
    assert corpus.texts is not None
    if not fitted.capabilities.explain:
        with pytest.raises(XmtcError, match="cannot explain"):
            fitted.explain("ship", "sea")
        return
    for text in ("ship sail wave", "", "qwxz", corpus.texts[3]):
        top = fitted.predict([text], k=len(corpus.labels))
        for label, score in top.names()[0]:
            why = fitted.explain(text, label)
            assert why.label == label
            assert why.score == pytest.approx(score, abs=1e-3)
            assert label in str(why)
    with pytest.raises(XmtcError, match=r"no label 'see'.*'sea'"):
        fitted.explain("ship", "see")


def test_partial_fit_as_declared(fitted: Model, fresh: Model, corpus: Corpus) -> None:
    if not fitted.capabilities.partial_fit:
        with pytest.raises(XmtcError, match="cannot learn from further documents"):
            fitted.partial_fit(corpus)
        return
    extra = Corpus.of(["ship sail lighthouse"] * 200, [["sea", "brand new"]] * 200)
    fresh.partial_fit(corpus[:60]).partial_fit(corpus[60:]).partial_fit(extra)
    assert fresh.train_documents_ == len(corpus) + 200
    assert fresh.labels_ is not None
    assert fresh.labels_.counts is not None
    assert fresh.labels_.counts[fresh.labels_.index("brand new")] == 200
    assert "brand new" in dict(fresh.predict(["ship sail"], k=3).names()[0])


def test_partial_fit_survives_saving(fresh: Model, corpus: Corpus, tmp_path: Path) -> None:
    if not fresh.capabilities.partial_fit:
        pytest.skip(f"{fresh.name} does not learn further")
    fresh.fit(corpus[:60]).save(tmp_path / "model")
    loaded = load(tmp_path / "model").partial_fit(corpus[60:])
    assert_same(loaded.predict(corpus[:10]), fresh.partial_fit(corpus[60:]).predict(corpus[:10]))


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibrated_and_tuned(fitted: Model, corpus: Corpus, tmp_path: Path, method: Method) -> None:
    raw = fitted.predict(corpus, k=4)
    fitted.save(tmp_path / "model")
    model = load(tmp_path / "model")
    assert model.calibrate(corpus, method).tune(corpus) is model
    top = model.predict(corpus, k=4)
    assert_sound(top, len(corpus), 4)
    assert top.kind is model.score_kind is ScoreKind.CALIBRATED
    np.testing.assert_array_equal(top.ids, raw.ids)
    listed = top.ids >= 0
    assert ((top.scores[listed] > 0) & (top.scores[listed] < 1)).all()
    hits = [label in corpus.labels_of(row) for row, ids in enumerate(top.ids.tolist()) for label in ids if label >= 0]
    assert top.scores[listed].mean() == pytest.approx(np.mean(hits), abs=0.1)
    assert model.thresholds_ is not None
    assert model.thresholds_.shape == (len(corpus.labels),)
    if model.capabilities.explain:
        label, score = model.predict(["ship sail"], k=1).names()[0][0]
        assert model.explain("ship sail", label).score == pytest.approx(score, abs=1e-3)

    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.score_kind is ScoreKind.CALIBRATED
    assert_same(loaded.predict(corpus, k=4), top)
    np.testing.assert_array_equal(loaded.thresholds_, model.thresholds_)
    assert loaded.training_["calibration"]["method"] == method
    assert_same(loaded.predict(["ship wave"], k=4), model.predict(["qwxz", "ship wave"], k=4)[1:])


def test_large_parts_are_read_before_the_first_use_only(
    fitted: Model, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted.save(tmp_path / "model")
    read: list[Path] = []
    sha256 = storage._sha256

    def noticed(file: Path) -> str:
        read.append(file)
        return sha256(file)

    monkeypatch.setattr(storage, "_sha256", noticed)
    monkeypatch.setattr(storage, "SMALL_FILE", -1)
    model = load(tmp_path / "model")
    assert not read, "opening takes no longer for a larger model"
    assert_same(model.predict(corpus[:10]), fitted.predict(corpus[:10]))
    files = set(json.loads((tmp_path / "model" / "manifest.json").read_text())["files"]) - {"README.md"}
    assert {file.name for file in read} == files
    model.predict(corpus[:10])
    assert len(read) == len(files), "and only once"


def test_a_large_part_that_was_altered_is_never_used(
    fitted: Model, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "SMALL_FILE", -1)
    uses: list[Callable[[Model], object]] = [
        lambda model: model.predict(corpus[:10]),
        lambda model: model.save(tmp_path / "copy"),
    ]
    if fitted.capabilities.partial_fit:
        uses.append(lambda model: model.partial_fit(corpus[:10]))
    for use in uses:
        fitted.save(tmp_path / "model")
        largest = max((tmp_path / "model").glob("*.safetensors"), key=lambda file: file.stat().st_size)
        content = bytearray(largest.read_bytes())
        content[-1] ^= 1
        largest.write_bytes(content)
        with pytest.raises(BadModelFolder, match=r"altered|damaged"):
            use(load(tmp_path / "model"))


def test_200_000_labels_under_a_memory_cap(name: str, fork_server: Callable[..., ForkServer]) -> None:
    documents = str(FEWER_DOCUMENTS.get(name, 20_000))
    libraries = ("numba", "lightning.fabric") if "training" in QUICK.get(name, {}) else ("numba",)
    run = fork_server(*libraries).run(CHILDREN / "many_labels.py", name, json.dumps(in_short(name)), documents)
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout)["labels"] == 200_000


def test_folder_of_an_unknown_kind(fitted: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(fitted), "name", "from-the-future")
    fitted.save(tmp_path / "model")
    with pytest.raises(BadModelFolder, match="'from-the-future', which this version of xmtc does not know"):
        load(tmp_path / "model")
