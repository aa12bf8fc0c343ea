"""What the contract suite runs over: every model of the catalogue, fitted on a small corpus of many kinds of text."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet
from contract_corpus import QUICK, corpus_for, give_encoder, in_short

from xmtc.corpus.corpus import Corpus
from xmtc.extras import LIBRARIES
from xmtc.models.base import Model
from xmtc.models.registry import CATALOGUE, make, model_class


def _with_needs(name: str) -> str | ParameterSet:
    """A model whose extra may be missing, and is then left out."""
    extra = model_class(name).capabilities.extra
    return name if extra is None else pytest.param(name, marks=pytest.mark.needs(*LIBRARIES[extra]))


@pytest.fixture(params=map(_with_needs, sorted(CATALOGUE)))
def name(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    give_encoder(QUICK.get(request.param, {}), tmp_path_factory.mktemp)
    return str(request.param)


@pytest.fixture
def fresh(name: str) -> Model:
    """An unfitted model that learns for a short time: what it has learned does not matter."""
    return make(name, **in_short(name))


@pytest.fixture
def corpus(name: str) -> Corpus:
    return corpus_for(name)


_fitted: dict[str, Model] = {}


@pytest.fixture
def fitted(name: str, corpus: Corpus) -> Model:
    """A fitted model, the same for all tests that only read it."""
    if name not in _fitted:
        _fitted[name] = make(name, **QUICK.get(name, {})).fit(corpus)
    return _fitted[name]
