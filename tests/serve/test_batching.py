"""The queue before the inference thread: what it joins, what it refuses, what it drops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import numpy as np
import pytest

from xmtc.corpus.labels import LabelSet
from xmtc.predictions import Predictions
from xmtc.serve.batching import InferenceQueue, Work
from xmtc.serve.metrics import Metrics
from xmtc.serve.problems import Refused
from xmtc.serve.served_models import ServedModel
from xmtc.serve.settings import ServeSettings


class SlowModel:
    """A model that waits to be let go on, and remembers what it was asked; the score is the length of the text."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []
        self.go_on = threading.Event()
        self.began = threading.Event()

    def predict(self, texts: list[str], k: int) -> Predictions:
        self.calls.append((texts, k))
        self.began.set()
        assert self.go_on.wait(10)
        if "bad" in texts:
            raise ValueError("a bad text")
        scores = np.array([[len(text)] * k for text in texts], np.float32)
        return Predictions(np.zeros((len(texts), k), np.int32), scores, LabelSet.of(["a"]))


class Setting:
    """A queue with one model, or two; works of its making."""

    def __init__(self, **settings: Any) -> None:
        self.metrics = Metrics()
        self.queue = InferenceQueue(ServeSettings((), **{"timeout": 10.0, **settings}), self.metrics)
        self.model, self.other = SlowModel(), SlowModel()

    def ask(self, *texts: str, k: int = 1, model: SlowModel | None = None) -> asyncio.Task[Any]:
        chosen = model or self.model
        id = "model" if chosen is self.model else "other"
        served = self._served.setdefault(id, ServedModel(id, "", "1", "", cast(Any, chosen)))
        return asyncio.create_task(self.queue.run(Work(served, list(texts), k)))

    _served: dict[str, ServedModel]

    async def begun(self) -> None:
        """Until the first batch is in the thread."""
        await asyncio.to_thread(self.model.began.wait, 10)


def in_setting(test: Callable[[Setting], Awaitable[None]], **settings: Any) -> None:
    async def run() -> None:
        setting = Setting(**settings)
        setting._served = {}
        try:
            await test(setting)
        finally:
            setting.model.go_on.set()
            setting.other.go_on.set()
            setting.queue.stop()

    asyncio.run(run())


async def scores(*tasks: asyncio.Task[Any]) -> list[list[float]]:
    return [(await task).scores[:, 0].tolist() for task in tasks]


def test_a_batch_is_what_waited_while_the_last_one_ran() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        others = [setting.ask("bb"), setting.ask("ccc", "dddd"), setting.ask("eeeee")]
        await asyncio.sleep(0)
        setting.model.go_on.set()
        assert await scores(first, *others) == [[1], [2], [3, 4], [5]]
        assert setting.model.calls == [(["a"], 1), (["bb", "ccc", "dddd", "eeeee"], 1)]

    in_setting(test)


def test_lists_of_other_lengths_are_computed_by_themselves() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        others = [setting.ask("b"), setting.ask("cc", k=3), setting.ask("ddd")]
        await asyncio.sleep(0)
        setting.model.go_on.set()
        await scores(first, *others)
        assert setting.model.calls[1:] == [(["b", "ddd"], 1), (["cc"], 3)]

    in_setting(test)


@pytest.mark.parametrize("limit", [{"max_batch": 3}, {"max_batch_characters": 6}])
def test_batches_have_a_limit_of_documents_and_of_characters(limit: dict[str, int]) -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        others = [setting.ask("bb", "bb"), setting.ask("cc"), setting.ask("dd"), setting.ask("e" * 10)]
        await asyncio.sleep(0)
        setting.model.go_on.set()
        await scores(first, *others)
        assert [len(texts) for texts, _ in setting.model.calls[:2]] == [1, 3]
        if "max_batch_characters" in limit:  # a text that is longer comes alone
            assert setting.model.calls[-1][0] == ["e" * 10]

    in_setting(test, **limit)


def test_every_document_counts_and_a_full_queue_refuses() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        waiting = setting.ask(*"bcde")
        await asyncio.sleep(0)
        for texts in (["f", "g"], ["h"] * 6):  # a batch and another: refused alike
            with pytest.raises(Refused) as refused:
                await setting.ask(*texts)
            assert refused.value.status_code == 429
            assert refused.value.headers is not None
            assert int(refused.value.headers["Retry-After"]) >= 1
        fits = setting.ask("i")
        elsewhere = setting.ask(*"jklmn", model=setting.other)  # another model has a queue of its own
        await asyncio.sleep(0)
        assert setting.metrics.waiting.labels("model")._value.get() == 5
        setting.model.go_on.set()
        setting.other.go_on.set()
        await scores(first, waiting, fits, elsewhere)
        assert setting.metrics.waiting.labels("model")._value.get() == 0

    in_setting(test, max_queue=5)


def test_a_request_whose_client_is_gone_costs_nothing() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        gone, stays = setting.ask("gone"), setting.ask("stays")
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert setting.metrics.waiting.labels("model")._value.get() == 1
        setting.model.go_on.set()
        await scores(first, stays)
        assert setting.model.calls[1:] == [(["stays"], 1)]

    in_setting(test)


def test_who_waits_too_long_is_told_and_not_computed() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        with pytest.raises(Refused) as refused:
            await setting.ask("late")
        assert refused.value.status_code == 504
        setting.model.go_on.set()
        with pytest.raises(Refused):
            await first
        after = setting.ask("after")
        await scores(after)
        assert ["late"] not in [texts for texts, _ in setting.model.calls]

    in_setting(test, timeout=0.05)


def test_an_error_is_told_to_the_one_who_caused_it() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        good, bad, fine = setting.ask("good"), setting.ask("bad"), setting.ask("fine!")
        await asyncio.sleep(0)
        setting.model.go_on.set()
        assert await scores(first, good, fine) == [[1], [4], [5]]
        with pytest.raises(ValueError, match="a bad text"):
            await bad

    in_setting(test)


def test_the_model_that_waited_longest_comes_next() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        other, again = setting.ask("b", model=setting.other), setting.ask("c")
        await asyncio.sleep(0)
        setting.model.go_on.set()
        await asyncio.to_thread(setting.other.began.wait, 10)
        assert len(setting.model.calls) == 1
        setting.other.go_on.set()
        await scores(first, other, again)

    in_setting(test)


def test_a_closed_queue_accepts_nothing() -> None:
    async def test(setting: Setting) -> None:
        first = setting.ask("a")
        await setting.begun()
        setting.queue.closed = True
        with pytest.raises(Refused) as refused:
            await setting.ask("b")
        assert refused.value.status_code == 503
        setting.model.go_on.set()
        assert await scores(first) == [[1]]  # what was accepted is answered

    in_setting(test)
