"""Tiny encoders, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tiny_encoders import tiny_bert, tiny_like_bert, tiny_xlnet


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny encoder of some kind, such as "bert" or "xlnet"; not to be changed."""
    folder = tmp_path_factory.mktemp("encoders")

    @cache
    def made(kind: str) -> Path:
        makers = {"bert": tiny_bert, "xlnet": tiny_xlnet}
        return makers[kind](folder / kind) if kind in makers else tiny_like_bert(folder / kind, kind)

    return made
