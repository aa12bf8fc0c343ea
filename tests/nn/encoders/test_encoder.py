"""Encoders whole and in parts, beside what transformers compute."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from xmtc.corpus.strings import Strings
from xmtc.errors import ConfigError
from xmtc.nn.batching import padded
from xmtc.nn.devices import has_bfloat16, place
from xmtc.nn.dropout import DropoutRng
from xmtc.nn.encoders.encoder import Encoder, EncoderTexts
from xmtc.nn.encoders.pretrained import load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings
from xmtc.nn.parallel import torch_threads
from xmtc.nn.serialization import load_weights, weights_of
from xmtc.text.token_store import TokenStore

Maker = Callable[[str], Path]
TEXTS = ["ship sail wave harbour", "", "bread oven flour butter knife salt pepper soup ship", "東京 storm", "qwxz"]
ALL = np.arange(len(TEXTS))
SPLIT = ["bert", "roberta", "xlm-roberta", "camembert", "electra", "distilbert", "xlnet"]
MOST = 12


@pytest.fixture
def make(tiny_encoder: Maker) -> Callable[..., Encoder]:
    def made(kind: str = "bert", last_layers: int = 1, **settings: Any) -> Encoder:
        folder = str(tiny_encoder(kind))
        # "auto" would be bfloat16 on some processors, which is not compared to many digits.
        settings = {"name": folder, "max_tokens": MOST, "precision": "single", **settings}
        return Encoder.of(load_pretrained(folder), EncoderSettings(**settings), last_layers)

    return made


@pytest.fixture
def tokens(tiny_encoder: Maker) -> Callable[[str], TokenStore]:
    @cache
    def made(kind: str = "bert") -> TokenStore:
        return load_pretrained(str(tiny_encoder(kind))).tokenizer.encode(Strings.of(TEXTS), MOST)

    return made


def reference(encoder: Encoder, tokens: TokenStore, document: int) -> list[Tensor]:
    """What transformers compute for one document alone: its hidden states (tokens, width), layer by layer."""
    ids = torch.tensor(tokens[document].tolist())[None]
    segments = {}
    if encoder.architecture == "xlnet":
        segments = {"token_type_ids": torch.tensor([[0] * (ids.shape[1] - 1) + [2]])}
    with torch.inference_mode():
        found = encoder.model.eval()(input_ids=ids, output_hidden_states=True, **segments)
    return [state[0] for state in found.hidden_states]


def evaluated(encoder: Encoder, texts: EncoderTexts, documents: NDArray[np.int64] = ALL) -> Tensor:
    with torch.inference_mode():
        vectors: Tensor = encoder(encoder.batch(texts, documents))
    return vectors


def read(encoder: Encoder, tokens: TokenStore) -> EncoderTexts:
    with torch_threads() as cores:
        return encoder.texts(tokens, cores)


@pytest.mark.parametrize("pooling", ["first", "last", "mean"])
@pytest.mark.parametrize("kind", [*SPLIT, "albert"])
def test_vectors_are_those_of_transformers(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str, pooling: str
) -> None:
    encoder, store = make(kind, pooling=pooling), tokens(kind)
    found = evaluated(encoder, EncoderTexts(store))
    for document in ALL.tolist():
        last = reference(encoder, store, document)[-1]
        expected = {"first": last[0], "last": last[-1], "mean": last.mean(0)}[pooling]
        torch.testing.assert_close(found[document], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frozen", [1, 2, 3])
@pytest.mark.parametrize("kind", SPLIT)
def test_a_frozen_part_and_the_rest_are_the_whole(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str, frozen: int
) -> None:
    whole, parts, store = make(kind, pooling="mean"), make(kind, pooling="mean", frozen_layers=frozen), tokens(kind)
    texts = read(parts, store)
    assert texts.states is not None
    rows = len(TEXTS) if frozen == 3 else len(store.ids)
    assert texts.states.values.shape == (rows, 16)
    # The states are kept with three digits; apart from that the parts compute what the whole does.
    expected = evaluated(whole, EncoderTexts(store))
    torch.testing.assert_close(evaluated(parts, texts), expected, rtol=0, atol=4e-3)
    if frozen < 3:
        batch = parts.batch(EncoderTexts(store), ALL)
        with torch.inference_mode():
            low = parts._states(batch, slice(0, frozen), None)[-1]
            high = parts._states(replace(batch, given=low), slice(frozen, 3), None)[-1]
            torch.testing.assert_close(parts._pooled(high, batch.inside), expected, rtol=0, atol=1e-6)
    # Without kept states, as in prediction, all layers are computed.
    torch.testing.assert_close(evaluated(parts, EncoderTexts(store)), expected)


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_padding_changes_nothing(make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str) -> None:
    encoder, texts = make(kind, pooling="mean"), EncoderTexts(tokens(kind))
    together = evaluated(encoder, texts)
    alone = torch.cat([evaluated(encoder, texts, ALL[at : at + 1]) for at in ALL.tolist()])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


def test_xlnet_is_padded_on_the_left(make: Callable[..., Encoder], tokens: Callable[[str], TokenStore]) -> None:
    encoder, store = make("xlnet"), tokens("xlnet")
    assert encoder.pooling == "last"
    batch = encoder.batch(EncoderTexts(store), ALL)
    ids, inside = batch.given, batch.inside
    pad = encoder.facts()["config"]["pad_token_id"]
    assert pad != 0
    for row, document in enumerate(store):
        assert ids[row].tolist() == [pad] * (ids.shape[1] - len(document)) + document.tolist()
        assert inside[row].tolist() == [False] * (ids.shape[1] - len(document)) + [True] * len(document)
    cls, sep = ids[0, -1], ids[0, -2]
    assert (ids[:, -1] == cls).all()
    assert (ids[:, -2] == sep).all()


def test_xlnets_segments(make: Callable[..., Encoder], tokens: Callable[[str], TokenStore]) -> None:
    """Text and <sep> are 0, <cls> is 2, padding is 4: what transformers compute with exactly these."""
    encoder, store = make("xlnet"), tokens("xlnet")
    batch = encoder.batch(EncoderTexts(store), ALL)
    ids, inside = batch.given, batch.inside
    segments = torch.where(inside, 0, 4)
    segments[:, -1] = 2
    with torch.inference_mode():
        mask = inside.float()
        expected = encoder.model(input_ids=ids, attention_mask=mask, token_type_ids=segments).last_hidden_state[:, -1]
        without = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, -1]
    found = evaluated(encoder, EncoderTexts(store))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(found, without, atol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "xlnet", "albert"])
def test_several_layers_one_after_the_other(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str
) -> None:
    encoder, store = make(kind, last_layers=3), tokens(kind)
    assert encoder.width == 48
    found = evaluated(encoder, EncoderTexts(store))
    place = -1 if kind == "xlnet" else 0
    for document in ALL.tolist():
        states = reference(encoder, store, document)
        expected = torch.cat([state[place] for state in states[-3:]])
        torch.testing.assert_close(found[document], expected, rtol=1e-4, atol=1e-5)
    if kind != "albert":
        for frozen in (1, 3):
            parts = make(kind, last_layers=3, frozen_layers=frozen)
            torch.testing.assert_close(evaluated(parts, read(parts, store)), found, rtol=0, atol=4e-3)


@pytest.mark.parametrize("frozen", [0, 1, 3])
@pytest.mark.parametrize("kind", ["bert", "distilbert", "xlnet"])
def test_a_batch_in_parts_drops_the_same_values(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str, frozen: int
) -> None:
    encoder = make(kind, frozen_layers=frozen, pooling="mean")
    batch = encoder.batch(read(encoder, tokens(kind)), ALL)
    whole = encoder(batch, DropoutRng(3))
    parts = [slice(0, 1), slice(1, 3), slice(3, 5)]
    found = torch.cat([encoder(batch.part(part), DropoutRng(3, part.start)) for part in parts])
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6)
    if frozen < 3:
        assert not torch.allclose(found, encoder(batch), atol=1e-3), "there was no dropout"


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_a_batch_knows_whether_it_is_padded(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str
) -> None:
    encoder, texts = make(kind), EncoderTexts(tokens(kind))
    assert encoder.batch(texts, ALL).has_padding
    assert not encoder.batch(texts, np.array([2, 2])).has_padding
    longest = int(texts.lengths.argmax())
    assert encoder.batch(texts, ALL).part(slice(longest, longest + 1)).has_padding, "as the whole batch"


@pytest.mark.parametrize("kind", SPLIT)
def test_inference_mode_changes_no_number(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str
) -> None:
    encoder, texts = make(kind), EncoderTexts(tokens(kind))
    with torch.no_grad():
        found = encoder(encoder.batch(texts, ALL))
    assert torch.equal(found, evaluated(encoder, texts))


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("frozen", [0, 2, 3])
@pytest.mark.parametrize("kind", SPLIT)
def test_nothing_leaves_the_device(
    make: Callable[..., Encoder],
    tokens: Callable[[str], TokenStore],
    kind: str,
    frozen: int,
    checkpointing: bool,
) -> None:
    """Tensors of the device "meta" have no numbers, and go with none of another device."""
    encoder, meta = (
        make(kind, frozen_layers=frozen, checkpointing=checkpointing, precision="auto"),
        torch.device("meta"),
    )
    batch = encoder.batch(read(encoder, tokens(kind)), ALL).to(meta)
    place(encoder, meta)
    for rng in (None, DropoutRng(0)):
        found = encoder(batch, rng)
        assert (found.shape, found.device) == ((len(TEXTS), 16), meta)
    if frozen < 3:
        found.sum().backward()


def test_threads_that_begin_a_training_together_all_have_dropout(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore]
) -> None:
    encoder = make()
    batch = encoder.batch(EncoderTexts(tokens("bert")), ALL)
    expected = encoder(batch, DropoutRng(1)).detach()
    start = threading.Barrier(4)

    def work(_: int) -> Tensor:
        start.wait()
        found: Tensor = encoder(batch, DropoutRng(1)).detach()
        return found

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            encoder.eval()
            assert all(torch.equal(found, expected) for found in pool.map(work, range(4)))


def gradients(encoder: Encoder, texts: EncoderTexts, seed: int = 5) -> dict[str, Tensor]:
    encoder.zero_grad()
    encoder(encoder.batch(texts, ALL), DropoutRng(seed)).square().sum().backward()
    return {name: weight.grad for name, weight in encoder.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("frozen", [0, 1])
@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_checkpointing_changes_no_gradient_though_there_is_dropout(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str, frozen: int
) -> None:
    plain, twice = (make(kind, frozen_layers=frozen, checkpointing=each) for each in (False, True))
    texts = read(plain, tokens(kind))
    expected, found = gradients(plain, texts), gradients(twice, texts)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    other = gradients(plain, texts, seed=6)
    assert not all(torch.allclose(other[name], expected[name]) for name in expected), "there was no dropout"


@pytest.mark.parametrize("frozen", [0, 1, 2])
@pytest.mark.parametrize("kind", ["bert", "xlnet", "electra"])
def test_only_what_is_not_frozen_learns(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str, frozen: int
) -> None:
    encoder = make(kind, frozen_layers=frozen)
    texts = read(encoder, tokens(kind))
    learned = set(gradients(encoder, texts))
    layers = {name for name in learned if ".layer." in name}
    assert {int(name.split(".layer.")[1].split(".")[0]) for name in layers} == set(range(frozen, 3))
    assert any("embedding" in name for name in learned) == (frozen == 0)
    assert {name for name, weight in encoder.named_parameters() if weight.requires_grad} >= learned


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_the_frozen_part_has_no_dropout(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str
) -> None:
    encoder, store = make(kind, frozen_layers=2), tokens(kind)
    encoder(encoder.batch(read(encoder, store), ALL), DropoutRng(0))  # leaves it in training
    assert encoder.training
    layers = [layer.training for layer in encoder.layers]
    assert layers == [False, False, True]
    again, before = read(encoder, store), read(make(kind, frozen_layers=2), store)
    assert again.states is not None
    assert before.states is not None
    assert torch.equal(again.states.values, before.states.values)


def test_dropout_only_with_draws_and_the_same_for_the_same(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore]
) -> None:
    encoder, texts = make(), EncoderTexts(tokens("bert"))
    plain = evaluated(encoder, texts)
    batch = encoder.batch(texts, ALL)
    one, two, other = (encoder(batch, DropoutRng(seed)).detach() for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.allclose(one, other, atol=1e-3)
    assert not torch.allclose(one, plain, atol=1e-3)
    assert torch.equal(evaluated(encoder, texts), plain)


def test_all_vectors_at_once(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xmtc.nn.encoders.encoder.MAX_BATCH_TOKENS", 20)
    encoder, texts = make(), EncoderTexts(tokens("bert"))
    with torch_threads() as cores:
        found = encoder.vectors(texts, cores)
    np.testing.assert_allclose(found, evaluated(encoder, texts).numpy(), rtol=1e-4, atol=1e-5)
    assert found.dtype == np.float32


@pytest.mark.parametrize("kind", ["bert", "xlnet"])
def test_bfloat16_is_near(make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str) -> None:
    single, half = make(kind, precision="single"), make(kind, precision="bfloat16")
    texts = EncoderTexts(tokens(kind))
    one, other = evaluated(single, texts), evaluated(half, texts)
    assert other.dtype == torch.float32
    assert not torch.equal(one, other)
    torch.testing.assert_close(one, other, rtol=0, atol=0.1)
    gradient = gradients(half, texts)
    assert all(torch.isfinite(each).all() and each.dtype == torch.float32 for each in gradient.values())
    cpu = torch.device("cpu")
    assert make(kind, precision="auto").mixed(cpu) == has_bfloat16(cpu)


def test_precision_goes_by_the_device(make: Callable[..., Encoder]) -> None:
    gpu = torch.device("cuda")  # its training says with what it computes
    assert not make(precision="auto").mixed(gpu)
    assert make(precision="bfloat16").mixed(gpu)
    assert not make(precision="single").mixed(gpu)


def test_the_precision_of_the_training_holds_within_the_encoder(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore]
) -> None:
    texts = EncoderTexts(tokens("bert"))
    expected = evaluated(make(precision="bfloat16"), texts)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(evaluated(make(precision="single"), texts), expected)


@pytest.mark.parametrize("kind", ["bert", "xlnet", "distilbert", "albert"])
def test_made_again_from_facts_and_weights(
    make: Callable[..., Encoder], tokens: Callable[[str], TokenStore], kind: str
) -> None:
    encoder, texts = make(kind, pooling="mean", last_layers=2), EncoderTexts(tokens(kind))
    facts = encoder.facts()
    assert str(Path.cwd().anchor) not in facts["config"]["_name_or_path"]
    with torch.device("meta"):
        settings = EncoderSettings(name="gone", max_tokens=MOST, frozen_layers=9, precision="single")
        again = Encoder.from_facts(facts, settings, encoder.vocabulary)
    load_weights(again, weights_of(encoder))
    assert torch.equal(evaluated(again, texts), evaluated(encoder, texts))
    assert (again.pooling, again.width, again.vocabulary) == ("mean", 32, encoder.vocabulary)


@pytest.mark.parametrize(
    "change", [{"pooling": "max"}, {"last_layers": 7}, {"last_layers": "x"}, {"config": None}, {"config": {}}], ids=str
)
def test_facts_that_are_none(make: Callable[..., Encoder], change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no encoder|pooling|invalid literal"):
        Encoder.from_facts({**make().facts(), **change}, EncoderSettings(), 1)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("bert", {"frozen_layers": 4}, "has 3 layers"),
        ("bert", {"frozen_layers": 2, "last_layers": 3}, "freeze 1 at most, or all 3"),
        ("bert", {"last_layers": 4}, "has 3 layers"),
        ("albert", {"frozen_layers": 1}, "layers of albert cannot be called one by one"),
        ("albert", {"checkpointing": True}, "layers of albert cannot be called one by one"),
    ],
)
def test_settings_that_do_not_go_with_an_encoder(
    make: Callable[..., Encoder], kind: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(kind, **settings)


@pytest.mark.parametrize(("kind", "most"), [("bert", 130), ("roberta", 131)])
def test_more_tokens_than_an_encoder_reads(tiny_encoder: Maker, kind: str, most: int) -> None:
    loaded = load_pretrained(str(tiny_encoder(kind)))
    long = TokenStore.of([[7] * most])
    encoder = Encoder.of(loaded, EncoderSettings(max_tokens=most))
    assert torch.isfinite(evaluated(encoder, EncoderTexts(long), np.arange(1))).all()
    with pytest.raises(ConfigError, match=f"reads at most {most} tokens"):
        Encoder.of(loaded, EncoderSettings(max_tokens=most + 1))


def test_padding_ids(tokens: Callable[[str], TokenStore]) -> None:
    ids, lengths = padded(tokens("bert"), ALL, padding=9, left=True)
    assert ids[1, 0] == 9
    assert lengths.tolist() == tokens("bert").lengths.tolist()
