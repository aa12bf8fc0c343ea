"""The queue before the one inference thread.

A batch is what waited while the last one ran: nobody is kept waiting for company, and under load batches grow by
themselves. All but the prediction happens on the event loop, so the queue needs no lock.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from xmtc.predictions import Predictions
from xmtc.serve.metrics import Metrics
from xmtc.serve.problems import Refused
from xmtc.serve.served_models import ServedModel
from xmtc.serve.settings import ServeSettings
from xmtc.serve.worker import Worker

MAX_RETRY_AFTER = 60


@dataclass(eq=False)
class Work:
    """What a request wants of a model: lists of this length for some texts, or an answer of its own kind (`call`)."""

    served: ServedModel
    texts: list[str]
    length: int = 0
    call: Callable[[ServedModel], Any] | None = None
    future: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    since: float = field(default_factory=time.monotonic)

    @property
    def characters(self) -> int:
        """Characters of all texts."""
        return sum(map(len, self.texts))

    @property
    def group(self) -> Hashable:
        """Works of one group are computed by one call; `call`s are groups of their own."""
        return (self.served, self.length) if self.call is None else self


class InferenceQueue:
    """What waits for each model, and the thread that works it off."""

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._waiting: dict[str, dict[Work, None]] = {}  # by model, in the order of arrival
        self._documents: dict[str, int] = {}
        self._seconds = 0.0  # a document took lately
        self._loop = asyncio.get_running_loop()
        self._busy = self.closed = False
        self.thread = Worker("inference")

    def check_room(self, model: str, documents: int) -> None:
        """Refuse a request whose documents do not find room in the queue of the model."""
        if self.closed:
            raise Refused(503, "the server is stopping; ask another one", headers={"Connection": "close"})
        waiting = self._documents.get(model, 0)
        if waiting + documents > self._settings.max_queue:
            seconds = min(max(1, ceil(waiting * self._seconds)), MAX_RETRY_AFTER)
            raise Refused(
                429,
                f"{waiting:,} documents wait for {model} already; try again in {seconds} s",
                headers={"Retry-After": str(seconds)},
            )

    async def run(self, work: Work) -> Any:
        """The answer to a work, when its turn has come; refused if the queue is full or it waits too long."""
        model, size = work.served.id, len(work.texts)
        self.check_room(model, size)
        self._waiting.setdefault(model, {})[work] = None
        self._count(model, size)
        if not self._busy:
            self._next()
        try:
            async with asyncio.timeout(self._settings.timeout):
                return await work.future
        except TimeoutError:
            raise Refused(
                504, f"no answer within {self._settings.timeout:g} s; send less, or try again later"
            ) from None
        finally:
            if work in self._waiting[model]:  # its client is gone, or it has waited too long
                del self._waiting[model][work]
                self._count(model, -size)

    def stop(self) -> None:
        """End the thread."""
        self.thread.stop()

    def _count(self, model: str, documents: int) -> None:
        self._documents[model] = self._documents.get(model, 0) + documents
        self._metrics.waiting.labels(model).set(self._documents[model])

    def _next(self) -> None:
        """Give the thread what waits for the model whose first request has waited longest."""
        first = [next(iter(works)) for works in self._waiting.values() if works]
        if not first:
            self._busy = False
            return
        self._busy = True
        model = min(first, key=lambda work: work.since).served.id
        batch = self._batch(model)
        self.thread.submit(lambda: self._compute(model, batch))

    def _batch(self, model: str) -> list[Work]:
        """As many of the works that wait for a model as may be computed at once, in their order; one at least."""
        batch: list[Work] = []
        documents = characters = 0
        for work in list(self._waiting[model]):
            documents += len(work.texts)
            characters += work.characters
            full = documents > self._settings.max_batch or characters > self._settings.max_batch_characters
            if batch and full:
                break
            batch.append(work)
            del self._waiting[model][work]
            self._count(model, -len(work.texts))
        return batch

    def _compute(self, model: str, batch: list[Work]) -> None:
        """In the inference thread: compute a batch and bring the answers to the event loop."""
        start = time.monotonic()
        groups: dict[Hashable, list[Work]] = {}
        for work in batch:
            groups.setdefault(work.group, []).append(work)
        answers = [answer for works in groups.values() for answer in _answers(works)]
        seconds = time.monotonic() - start
        self._loop.call_soon_threadsafe(self._finished, model, batch, answers, seconds)

    def _finished(self, model: str, batch: list[Work], answers: list[tuple[Work, Any]], seconds: float) -> None:
        documents = sum(len(work.texts) for work in batch)
        self._seconds = 0.8 * self._seconds + 0.2 * seconds / documents
        self._metrics.batch_documents.labels(model).observe(documents)
        self._metrics.batch_seconds.labels(model).observe(seconds)
        self._metrics.documents.labels(model).inc(documents)
        self._next()  # first, so that the thread works while answers are written
        self._hand_out(deque(answers))

    def _hand_out(self, answers: deque[tuple[Work, Any]]) -> None:
        """Bring the answers one after the other, so that between them the loop turns to what comes in."""
        work, answer = answers.popleft()
        if not work.future.done():
            if isinstance(answer, Exception):
                work.future.set_exception(answer)
            else:
                work.future.set_result(answer)
        if answers:
            self._loop.call_soon(self._hand_out, answers)


def _answers(works: Sequence[Work]) -> list[tuple[Work, Any]]:
    """The answer, or the error, of each of some works of one group."""
    first = works[0]
    try:
        if first.call is not None:
            return [(first, first.call(first.served))]
        top = first.served.model.predict([text for work in works for text in work.texts], first.length)
    except Exception as error:
        if len(works) == 1:
            return [(first, error)]
        # Whose text it was is found by asking for each alone; the others get their answers.
        return [pair for work in works for pair in _answers([work])]
    found: list[tuple[Work, Predictions]] = []
    start = 0
    for work in works:
        found.append((work, top[start : start + len(work.texts)]))
        start += len(work.texts)
    return found
