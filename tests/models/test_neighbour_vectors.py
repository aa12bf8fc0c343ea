"""An encoder finds neighbours too, and is stored with the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from altered_folders import renew_checksum
from tiny_encoders import SENTENCES, tiny_bert

from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder, ConfigError
from xmtc.models.registry import load, make
from xmtc.nn.encoders.embeddings import EncoderVectors
from xmtc.nn.encoders.encoder import Encoder
from xmtc.nn.encoders.settings import EncoderSettings


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


def test_vectors_have_length_1_and_do_not_depend_on_their_company(bert: Path) -> None:
    vectors = EncoderVectors.pretrained(EncoderSettings(name=str(bert), frozen_layers=2))
    found = vectors.transform(Corpus.of(SENTENCES))
    assert found.shape == (len(SENTENCES), vectors.width)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    for at, sentence in enumerate(SENTENCES):
        np.testing.assert_allclose(vectors.transform(Corpus.of([sentence]))[0], found[at], atol=1e-5)


def test_neighbours_vote_by_an_encoder(bert: Path, tmp_path: Path) -> None:
    tags = [[f"sentence {at}"] for at in range(len(SENTENCES))]
    settings = {"search": {"vectors": "encoder"}, "encoder": {"name": str(bert)}, "neighbours": 1}
    model = make("knn", **settings).fit(Corpus.of(SENTENCES, tags))
    assert model.predict(list(SENTENCES), k=1).ids[:, 0].tolist() == list(range(len(SENTENCES)))
    why = model.explain(SENTENCES[0], "sentence 0")
    assert (why.words, why.score) == ((), 1.0)
    model.save(tmp_path / "model")
    (bert / "config.json").rename(bert / "elsewhere.json")  # not needed any more
    try:
        loaded = load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(list(SENTENCES)).ids, model.predict(list(SENTENCES)).ids)
    finally:
        (bert / "elsewhere.json").rename(bert / "config.json")


def test_an_encoder_that_finds_neighbours_can_move(bert: Path) -> None:
    settings = {"search": {"vectors": "encoder"}, "encoder": {"name": str(bert)}}
    model = make("knn", **settings).fit(Corpus.of(SENTENCES, [["a"]] * len(SENTENCES)))
    assert [type(network) for network in model._networks()] == [Encoder]
    assert model.to("cpu") is model
    with pytest.raises(ConfigError, match="there is no device"):
        EncoderVectors.pretrained(EncoderSettings(name=str(bert)), device="abacus")


def test_parts_of_another_encoder(bert: Path, tmp_path: Path) -> None:
    corpus = Corpus.of(SENTENCES, [["a"]] * len(SENTENCES))
    other = tiny_bert(tmp_path / "other", hidden_size=8)
    for name, encoder in (("one", bert), ("two", other)):
        settings = {"search": {"vectors": "encoder"}, "encoder": {"name": str(encoder)}}
        make("knn", **settings).fit(corpus).save(tmp_path / name)
    for part in ("search_encoder.safetensors", "index.safetensors"):
        mixed = tmp_path / f"mixed {part}"
        shutil.copytree(tmp_path / "one", mixed)
        shutil.copy(tmp_path / "two" / part, mixed / part)
        renew_checksum(mixed, part)
        with pytest.raises(BadModelFolder, match="damaged"):
            load(mixed).predict(["ship"])
