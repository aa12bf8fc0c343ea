"""What all parts of a running server share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from starlette.requests import Request
from starlette.types import Receive

from xmtc.serve.batching import InferenceQueue, Work
from xmtc.serve.feedback import FeedbackFile
from xmtc.serve.logs import log
from xmtc.serve.metrics import Metrics
from xmtc.serve.problems import ClientGone
from xmtc.serve.served_models import ServedModel, ServedModels
from xmtc.serve.settings import ServeSettings
from xmtc.serve.worker import Worker


class Phase(StrEnum):
    """Where a server is in its life."""

    STARTING = "starting"  #: it answers, and is not ready: models are warming up
    READY = "ready"
    DRAINING = "draining"  #: it serves on, and says that it is not ready
    STOPPING = "stopping"  #: it accepts nothing and finishes what it has


@dataclass(eq=False)
class ServerState:
    """The models, the queue, the counters, and the phase."""

    settings: ServeSettings
    models: ServedModels
    metrics: Metrics = field(default_factory=Metrics)
    phase: Phase = Phase.STARTING
    feedback: FeedbackFile | None = None
    failure: Exception | None = None  # of a model that does not work, found while warming up
    learning: asyncio.Lock = field(default_factory=asyncio.Lock)  # one model learns at a time
    _queue: InferenceQueue | None = None
    _loader: Worker | None = None

    @property
    def queue(self) -> InferenceQueue:
        """The queue of a server that has started."""
        assert self._queue is not None
        return self._queue

    def begin(self) -> None:
        """Called on the event loop, before anything comes in."""
        self._queue = InferenceQueue(self.settings, self.metrics)
        self._loader = Worker("loader")

    def end(self) -> None:
        """Called when nothing comes in any more."""
        self.queue.stop()
        self.loader.stop()

    @property
    def loader(self) -> Worker:
        """The thread that loads new models, and lets models learn, beside the one that answers."""
        assert self._loader is not None
        return self._loader

    def enter(self, phase: Phase) -> None:
        """Go on to a phase, and tell."""
        self.phase = phase
        self.metrics.ready.set(phase is Phase.READY)
        if phase is Phase.STOPPING and self._queue is not None:
            self._queue.closed = True
        log(f"server {phase}")

    def take_over(self, served: ServedModel) -> None:
        """Serve a new version of a model from now on."""
        before = self.models[served.id]
        self.models.replace(served)
        self.metrics.swaps.labels(served.id).inc()
        with suppress(KeyError):
            self.metrics.model.remove(*_facts(before))
        self.metrics.model.labels(*_facts(served)).set(1)
        log("model taken over", model=served.id, version=served.version, before=before.version)

    def count_models(self) -> None:
        """Tell the versions that are served at the start."""
        for served in self.models:
            self.metrics.model.labels(*_facts(served)).set(1)
            log("model loaded", model=served.id, version=served.version, kind=served.model.name)

    async def answer(self, request: Request, work: Work) -> Any:
        """The answer to a work; ClientGone, and nothing computed if it still waits, once the client is gone."""
        note(request, model=work.served.id, version=work.served.version, documents=len(work.texts))
        if self.settings.log_texts:
            note(request, texts=work.texts)
        watch = asyncio.create_task(_wait_gone(request.receive, work))
        try:
            return await self.queue.run(work)
        except asyncio.CancelledError:
            if not work.future.cancelled() or watch.cancelled() or not watch.done():
                raise  # the server's own doing
            self.metrics.gone.inc()
            raise ClientGone from None
        finally:
            watch.cancel()


def state_of(request: Request) -> ServerState:
    """The state of the server that a request came to."""
    found: ServerState = request.app.state.server
    return found


def note(request: Request, **facts: Any) -> None:
    """Facts about a request for its line in the log."""
    noted: dict[str, Any] = request.scope["state"].setdefault("noted", {})
    noted.update(facts)


async def _wait_gone(receive: Receive, work: Work) -> None:
    """Give a work up as soon as its client closes the connection."""
    while True:
        message: Mapping[str, Any] = await receive()
        if message["type"] == "http.disconnect":
            work.future.cancel()
            return


def _facts(served: ServedModel) -> tuple[str, str, str]:
    return served.id, served.version, served.model.name
