"""Settings of words and training."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from xmtc.nn.encoders.settings import TransformerTraining
from xmtc.nn.settings import TrainingSettings
from xmtc.text.embedding_table import WordSettings


@pytest.mark.parametrize(("level", "epochs", "swa_start_epoch"), [(0, 9, 2), (1, 5, 1), (2, 3, 1), (7, 3, 1)])
def test_a_list_has_an_entry_for_each_level_and_its_last_holds_for_all_below(
    level: int, epochs: int, swa_start_epoch: int
) -> None:
    found = TrainingSettings(epochs=(9, 5, 3), swa_start_epoch=(2, 1), batch_size=7).at(level)
    assert found == TrainingSettings(epochs=epochs, swa_start_epoch=swa_start_epoch, batch_size=7)


@pytest.mark.parametrize("swa_start_epoch", [4, None])
def test_a_single_value_holds_for_all_levels(swa_start_epoch: int | None) -> None:
    settings = TrainingSettings(epochs=6, swa_start_epoch=swa_start_epoch)
    assert settings.at(0) == settings.at(3) == settings


def test_lists_come_from_recipes() -> None:
    assert TrainingSettings.model_validate({"epochs": [3, 2], "swa_start_epoch": [1, 0]}).at(1).swa_start_epoch == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"epochs": [2, 0]},
        {"epochs": []},
        {"swa_start_epoch": []},
        {"swa_start_epoch": -1},
        {"clip": 0},
        {"lr_decay": 1.0},
        {"max_lr_decays": 0},
        {"learning_rate": 0},
        {"evaluate_every": 0},
        {"device": "GPU"},
        {"device": "cuda:"},
        {"precision": "16"},
        {"devices": 0},
        {"processes": 2},
        {"offload_tables": "perhaps"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_wrong_training_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        TrainingSettings.model_validate(wrong)


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "cuda:10", "mps"])
def test_names_of_devices(device: str) -> None:
    assert TrainingSettings(device=device).device == device


def test_rates_of_tables_and_of_the_encoder() -> None:
    plain, tables = TrainingSettings(learning_rate=0.1), TrainingSettings(learning_rate=0.1, row_learning_rate=0.5)
    assert (plain.rate_of("words.weight", True), plain.rate_of("encoder.layer.weight", False)) == (0.1, 0.1)
    assert (tables.rate_of("words.weight", True), tables.rate_of("output.weight", False)) == (0.5, 0.1)
    with_encoder = TransformerTraining(learning_rate=0.1, row_learning_rate=0.5, encoder_learning_rate=0.01)
    names = ("encoder.layer.weight", "words.weight", "encoders.weight")
    assert [with_encoder.rate_of(name, name == "words.weight") for name in names] == [0.01, 0.5, 0.1]


def test_rates_stay_or_are_a_slanted_triangle() -> None:
    assert {TrainingSettings().lr_multiplier(step, 9) for step in range(9)} == {1.0}
    assert [TransformerTraining(warmup_ratio=0.25).lr_multiplier(step, 8) for step in (0, 1, 2, 5)] == [0, 0.5, 1, 0.5]


@pytest.mark.parametrize("wrong", [{"missing": "zero"}, {"dropout": 1.0}, {"max_words": 2}, {"unknown": 1}], ids=str)
def test_wrong_word_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        WordSettings.model_validate(wrong)
