"""Errors say where and what to do, and survive the way back from a worker process."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from xmtc import errors
from xmtc.errors import BadInput, MissingExtra, XmtcError


def test_bad_input_names_the_place() -> None:
    assert str(BadInput("a.csv", 3, "not UTF-8", "convert it")) == "a.csv:3: not UTF-8; convert it"
    assert str(BadInput(Path("a.csv"), None, "no such file")) == "a.csv: no such file"
    error = BadInput("a.csv", 3, "not UTF-8", "convert it")
    assert (error.path, error.line, error.problem, error.remedy) == ("a.csv", 3, "not UTF-8", "convert it")


def test_a_missing_extra_says_how_to_install_it() -> None:
    assert "pip install 'xmtc[skos]'" in str(MissingExtra("reading SKOS", "skos"))


def test_every_error_can_be_caught_as_one() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(kinds) > 5
    assert all(issubclass(kind, XmtcError) for kind in kinds)


@pytest.mark.parametrize("error", [XmtcError("x"), BadInput("a.csv", 3, "bad", "mend"), MissingExtra("SKOS", "skos")])
def test_errors_can_be_pickled(error: XmtcError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
