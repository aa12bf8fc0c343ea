"""Letting a served model learn from documents, beside the version that answers meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from xmtc.atomic_folder import check_target
from xmtc.corpus.corpus import Corpus
from xmtc.errors import XmtcError
from xmtc.folder_lock import folder_lock
from xmtc.hub import is_address
from xmtc.models.registry import load
from xmtc.serve.logs import log
from xmtc.serve.problems import Refused
from xmtc.serve.served_models import ServedModel
from xmtc.serve.state import ServerState

BEFORE = ".before"  # the ending of the folder that keeps the version before the last learning

Pairs = Sequence[tuple[str, Sequence[str]]]


async def learn_from(state: ServerState, id: str, pairs: Pairs) -> None:
    """Let a model learn, save it, and serve it; one after the other, since each builds on the one before."""
    async with state.learning:
        served = state.models[id]
        known, unknown = _known(served, pairs)
        if unknown:
            log("learning: subjects that the vocabulary lacks are left out", model=id, subjects=unknown)
        if not known:
            raise Refused(400, "no document has a text and a subject of the vocabulary")
        try:
            # In its own thread, so that a client that goes away does not leave the work half done.
            fresh = await state.loader.do(partial(learned, served, known, state.settings.max_batch))
        except (XmtcError, OSError) as error:
            raise Refused(503, str(error)) from error
        state.take_over(fresh)


def learned(served: ServedModel, pairs: Pairs, max_batch: int) -> ServedModel:
    """The next version of a model, written to its folder; the folder before stays beside it, for whoever regrets."""
    if is_address(served.place):
        raise XmtcError(f"{served.place}: a model of the Hub is served, which cannot be written back")
    target = check_target(served.place)
    with folder_lock(target):
        model = load(target)  # anew, so that the version that answers does not change
        model.partial_fit(
            Corpus.of([text for text, _ in pairs], [list(keys) for _, keys in pairs], name=f"learn {served.id}")
        )
        _keep(target)
        model.save(target)
        return ServedModel.load(served.id, served.place).warm_up(max_batch)


def _known(served: ServedModel, pairs: Pairs) -> tuple[Pairs, int]:
    """(documents with those subjects that are labels of the model, how many are not); others are left out."""
    known = [(text, [key for key in dict.fromkeys(keys) if served.labels.index(key) >= 0]) for text, keys in pairs]
    unknown = sum(len(set(keys)) for _, keys in pairs) - sum(len(keys) for _, keys in known)
    return [(text, keys) for text, keys in known if keys], unknown


def _keep(target: Path) -> None:
    """Copy a model folder to the one that ends with `.before`, in place of an older copy."""
    kept = target.with_name(target.name + BEFORE)
    partial = target.with_name(f".{kept.name}.part")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(target, partial)
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)
