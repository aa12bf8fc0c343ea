"""Lists of labels that are fair for the documents their finder was trained on, and what their log-odds mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_corpus import QUICK, small_corpus

from xmtc.checkpoints import Checkpoints
from xmtc.corpus.corpus import Corpus
from xmtc.errors import BadModelFolder
from xmtc.models.attentionxml.model import AttentionXml
from xmtc.models.attentionxml.shortlist import LISTED, Shortlister
from xmtc.models.registry import load

NOTHING_KEPT = Checkpoints(None, {})
SHORT: dict[str, Any] = {**QUICK["attentionxml"], "training": {"epochs": 1, "batch_size": 10}, "shortlist": "knn"}


def test_no_document_votes_for_itself() -> None:
    """Each document has a word and a label of its own beside common ones: only who has seen it knows that label."""
    texts = [f"common words and w{at}x" for at in range(30)]
    corpus = Corpus.of(texts, [["shared", f"own {at}"] for at in range(30)])
    lister, fair = Shortlister.fit("knn", corpus, 0, NOTHING_KEPT)
    whole = lister.lists(corpus)
    for row in range(len(corpus)):
        own = corpus.labels.find(f"own {row}")
        assert own not in fair.labels[row]
        assert own in whole.labels[row]


def test_log_odds_are_honest() -> None:
    """Of all that is listed for training documents, as much is right as the log-odds say."""
    corpus = small_corpus(300)
    _, fair = Shortlister.fit("dismec", corpus, 0, NOTHING_KEPT)
    listed = fair.labels >= 0
    relevant = [[label in corpus.labels_of(row) for label in labels] for row, labels in enumerate(fair.labels.tolist())]
    probabilities = 1 / (1 + np.exp(-fair.odds[listed]))
    assert probabilities.mean() == pytest.approx(np.array(relevant)[listed].mean(), abs=0.02)
    assert (np.diff(fair.odds, axis=1)[listed[:, 1:]] <= 1e-6).all(), "the order of the lists is lost"


def test_lists_are_cut() -> None:
    corpus = Corpus.of(["word"] * 150, [[f"label {at}"] for at in range(150)])
    lister, fair = Shortlister.fit("knn", corpus, 0, NOTHING_KEPT)
    assert fair.labels.shape[1] == lister.lists(corpus[:1]).labels.shape[1] == LISTED


@pytest.mark.parametrize("documents", [1, 2, 4])
def test_a_few_documents(documents: int) -> None:
    """Where the others have no labels there is nothing to list."""
    corpus = Corpus.of(["red apple", "blue sky", "sea", "tree"][:documents], [["fruit"], [], [], []][:documents])
    lister, fair = Shortlister.fit("knn", corpus, 0, NOTHING_KEPT)
    assert (fair.labels[0] == -1).all()
    assert np.isfinite(fair.odds).all()
    assert lister.lists(Corpus.of(["apple"])).labels[0, 0] == 0


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("lister.json", lambda facts: []),
        ("lister.json", lambda facts: {"config": facts["config"]}),
        ("lister.json", lambda facts: {**facts, "training": {"documents": 0}}),
    ],
)
def test_a_folder_that_does_not_say_what_lists(tmp_path: Path, file: str, change: Any) -> None:
    AttentionXml(**SHORT).fit(small_corpus()).save(tmp_path / "model")
    place = tmp_path / "model" / file
    place.write_text(json.dumps(change(json.loads(place.read_text("utf-8")))), "utf-8")
    with pytest.raises(BadModelFolder):
        load(tmp_path / "model", verify=False)
