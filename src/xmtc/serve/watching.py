"""`--watch`: a new model in a served folder is loaded beside the old one and takes its place when it works."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path

from xmtc.atomic_folder import MANIFEST
from xmtc.errors import XmtcError
from xmtc.hub import is_address
from xmtc.serve.logs import log
from xmtc.serve.served_models import ServedModel
from xmtc.serve.state import ServerState

SECONDS = 1.0  # between two looks

Look = tuple[int, int, int] | None


async def watch(state: ServerState) -> None:
    """Look at the folders again and again; runs until it is cancelled."""
    # The first look finds what was loaded at the start, or what came since.
    looks: dict[str, Look] = {served.id: None for served in state.models if not is_address(served.place)}
    while True:
        await asyncio.sleep(SECONDS)
        for id, before in looks.items():
            now = look(state.models[id].place)
            if now is not None and now != before:
                looks[id] = now
                await renew(state, id)


async def renew(state: ServerState, id: str) -> None:
    """Take over what is in a model's folder; if it is bad, the version that is served stays."""
    served = state.models[id]
    try:
        fresh = await state.loader.do(partial(_tried, served, state.settings.max_batch))
    except Exception as error:
        # Whatever is wrong with a folder must not end the server that has a good model.
        state.metrics.bad_folders.labels(id).inc()
        unforeseen = None if isinstance(error, (XmtcError, OSError)) else error
        log("model folder refused", logging.ERROR, unforeseen, model=id, reason=str(error), stays=served.version)
        return
    if fresh.version != state.models[id].version:
        state.take_over(fresh)


def _tried(served: ServedModel, max_batch: int) -> ServedModel:
    fresh = ServedModel.load(served.id, served.place)
    return fresh if fresh.version == served.version else fresh.warm_up(max_batch)


def look(place: str) -> Look:
    """What changes when a folder gets another model; None while it has none."""
    try:
        facts = (Path(place) / MANIFEST).stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
