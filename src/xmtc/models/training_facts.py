"""What a model remembers of its training (`Model.training_`, in the manifest), and how further documents change it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmtc.corpus.corpus import Corpus
from xmtc.corpus.sketch import Sketch
from xmtc.errors import BadModelFolder
from xmtc.packing import WEIGHT_TYPES

#: Facts about what was fitted on validation documents, which an update leaves as it was.
FITTED_BEFORE = ("calibration", "thresholds")
NO_UPDATE: dict[str, int | str] = {"times": 0, "on": "", "corpus": "", "documents": 0, "new_labels": 0}


def after_update(
    facts: Mapping[str, Any], corpus: Corpus, counts: NDArray[np.int64], known: int, seconds: float
) -> dict[str, Any]:
    """The facts after an update by a corpus; `counts` are then of all labels, of which `known` were known before.

    The fingerprint becomes the hash of the earlier one and of the corpus' own, so it says which documents came in which
    order. Documents, labels and seconds are those of all training; the sketch is of all documents.
    """
    earlier = facts.get("updates", NO_UPDATE)
    chain = f"{facts.get('fingerprint')} {corpus.fingerprint()}"
    changed = {
        "fingerprint": hashlib.sha256(chain.encode()).hexdigest()[:16],
        "documents": facts.get("documents", 0) + len(corpus),
        "labels": int(np.count_nonzero(counts)),
        "seconds": round(facts.get("seconds", 0.0) + seconds, 3),
        "updates": {
            "times": earlier["times"] + 1,
            "on": datetime.now(UTC).date().isoformat(),
            "corpus": corpus.name,
            "documents": len(corpus),
            "new_labels": int(np.count_nonzero(counts[known:])),
        },
    }
    if "sketch" in facts:  # else the model is older than sketches, and one of the update alone would mislead
        changed["sketch"] = (Sketch.from_hex(facts["sketch"]) | Sketch.of(corpus)).to_hex()
    stale = {key: {**facts[key], "before_update": True} for key in FITTED_BEFORE if key in facts}
    return {**facts, **changed, **stale}


def check_facts(facts: Mapping[str, Any], folder: str) -> None:
    """A BadModelFolder error unless the facts that further training builds on are what `after_update` expects."""
    try:
        Sketch.from_hex(facts.get("sketch", ""))
        updates = facts.get("updates", NO_UPDATE)
        sound = isinstance(updates, dict) and all(type(updates.get(key)) is type(NO_UPDATE[key]) for key in NO_UPDATE)
        sound &= all(isinstance(facts.get(key, {}), dict) for key in FITTED_BEFORE)
        sound &= type(facts.get("seconds", 0.0)) in (int, float)
        shrunk = facts.get("shrunk", {"weights": "float32", "share": 1.0})
        sound &= isinstance(shrunk, dict) and shrunk.get("weights") in WEIGHT_TYPES
        sound = sound and type(shrunk.get("share")) in (int, float)
    except ValueError:
        sound = False
    if not sound:
        raise BadModelFolder(
            f"{folder}: its manifest is damaged in what it says about training; restore it from a copy"
        )


def some(count: int, what: str) -> str:
    """A number of things in words.

    >>> some(1, "label"), some(2000, "label")
    ('1 label', '2,000 labels')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def update_in_words(updates: Mapping[str, Any]) -> str:
    """When and with what a model was updated, on one line.

    >>> update_in_words({"times": 2, "on": "2026-05-01", "corpus": "may.csv", "documents": 30, "new_labels": 1})
    '2 times, last on 2026-05-01 with 30 documents and 1 new label (may.csv)'
    """
    documents, new = some(updates["documents"], "document"), some(updates["new_labels"], "new label")
    last = f"last on {updates['on']} with {documents} and {new} ({updates['corpus']})"
    return f"{some(updates['times'], 'time')}, {last}"
