"""Settings of all tests, and tiny encoders, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel compiles it, and a shared machine may stop for a second anywhere: no test times examples.
settings.register_profile("xmtc", deadline=None)
settings.load_profile("xmtc")

#: Scripts that tests run in processes of their own; not test modules.
collect_ignore_glob = ["*/children/*"]


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny encoder of some kind, such as "bert" or "xlnet"; not to be changed."""
    from tiny_encoders import tiny_bert, tiny_like_bert, tiny_xlnet

    folder = tmp_path_factory.mktemp("encoders")

    @cache
    def made(kind: str) -> Path:
        makers = {"bert": tiny_bert, "xlnet": tiny_xlnet}
        return makers[kind](folder / kind) if kind in makers else tiny_like_bert(folder / kind, kind)

    return made
