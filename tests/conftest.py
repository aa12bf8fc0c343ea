"""Settings of all tests; tiny encoders, each made once; processes that start quickly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from warm_processes import ForkServer

# The processes that share the tests have a core each: with further threads they would only wait for each other, and
# what a network learns would depend on the machine. Read when numpy and torch are imported, also by child processes.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# The first call of a kernel compiles it, and a shared machine may stop for a second anywhere: no test times examples.
settings.register_profile("xmtc", deadline=None)
settings.load_profile("xmtc")

#: Scripts that tests run in processes of their own; not test modules.
collect_ignore_glob = ["children/*", "*/children/*"]


#: Tests that go first: kernels are compiled by both processes at once, each its own; then what takes long.
FIRST = ("tests/kernels/", "tests/contract/", "tests/models/", "tests/test_docs.py", "tests/nn/")


def pytest_configure(config: pytest.Config) -> None:
    # Tests with a handful of documents often evaluate on what they trained on; those of the warning ask for it.
    config.addinivalue_line("filterwarnings", "ignore:.* of these documents were in training:UserWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        return next((at for at, path in enumerate(FIRST) if item.nodeid.startswith(path)), len(FIRST))

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a process whole files, and of the contract all tests of a model: they share what is fitted."""
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class ByFileAndModel(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            model = re.match(r"(tests/contract/).*?\[(\w+)", nodeid)
            return "".join(model.groups()) if model else nodeid.split("::")[0]

    return ByFileAndModel(config, log)


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


@pytest.fixture(scope="session")
def fork_server() -> Iterator[Callable[..., ForkServer]]:
    """Something that runs scripts in fresh processes, in which the modules that are named are there already."""
    from warm_processes import ForkServer

    with ExitStack() as servers:
        yield cache(lambda *modules: servers.enter_context(closing(ForkServer(*modules))))
