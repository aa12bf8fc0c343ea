"""Bonsai's own: its defaults, its tree and its label vectors. What it shares with Parabel is in test_parabel.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_corpus import small_corpus

from xmtc.models.bonsai import Bonsai
from xmtc.models.parabel import Parabel
from xmtc.models.registry import make


def test_the_papers_settings() -> None:
    config = Bonsai().config
    assert (config.balanced, config.arity, config.levels, config.max_leaf) == (False, 100, 2, 100)
    assert (config.trees, config.beam_width, config.discount, config.label_vectors) == (3, 10, 0.98, "documents")
    parabel = Parabel().config
    assert (config.loss, config.cost, config.rounds) == (parabel.loss, parabel.cost, parabel.rounds)


def test_parabel_can_be_set_to_be_bonsai() -> None:
    """One builder, one search: only the defaults differ."""
    corpus = small_corpus()
    tree: dict[str, Any] = {"arity": 3, "max_leaf": 2, "trees": 2}
    bonsai = make("bonsai", **tree).fit(corpus).predict(corpus)
    parabel = make("parabel", **tree, balanced=False, levels=2, discount=0.98).fit(corpus).predict(corpus)
    np.testing.assert_array_equal(bonsai.ids, parabel.ids)
    np.testing.assert_array_equal(bonsai.scores, parabel.scores)


@pytest.mark.parametrize("kind", ["documents", "neighbours", "both", "names"])
def test_label_vectors(kind: str) -> None:
    corpus = small_corpus()
    model = Bonsai(label_vectors=kind, arity=2, max_leaf=2).fit(corpus)
    top = model.predict(corpus, k=1).ids[:, 0]
    labelled = np.flatnonzero(np.diff(corpus.targets.indptr)).tolist()
    assert np.mean([top[row] in corpus.labels_of(row) for row in labelled]) > 0.9


def test_parents_count_less() -> None:
    """A discount on what is above raises every probability of a label that is below 1."""
    corpus = small_corpus()
    tree: dict[str, Any] = {"arity": 2, "max_leaf": 1, "beam_width": 100, "trees": 1}
    plain, discounted = (Bonsai(**tree, discount=share).fit(corpus).predict(corpus, k=1) for share in (1.0, 0.5))
    assert (discounted.scores >= plain.scores - 1e-6).all()
    assert discounted.scores.sum() > plain.scores.sum()
