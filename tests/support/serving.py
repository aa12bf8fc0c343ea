"""A tiny model and a server of it, in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

import xmtc
from xmtc.corpus.corpus import Corpus
from xmtc.corpus.labels import LabelSet
from xmtc.serve.app import create_app
from xmtc.serve.lifecycle import OrderlyServer, config_of, listening
from xmtc.serve.settings import ServeSettings

KEYS = ["http://example.org/fruit", "http://example.org/sky", "http://example.org/berry"]
NAMES = ["Fruit", "Weather and sky", "Berries"]
TEXTS = ["red apple", "green apple pie", "blue sky", "grey sky and rain", "red berry jam", "black berry"]
TAGS = [[0], [0], [1], [1], [0, 2], [0, 2]]


def tiny_corpus(times: int = 8) -> Corpus:
    """Some documents; berries are fruit."""
    labels = LabelSet.of(KEYS, NAMES, parents=[[], [], [KEYS[0]]])
    return Corpus.of(TEXTS * times, [[KEYS[at] for at in tags] for tags in TAGS] * times, labels)


def tiny_model(place: Path, name: str = "dismec", tuned: bool = False, times: int = 8) -> Path:
    """The folder of a model of those documents."""
    model = xmtc.make(name).fit(tiny_corpus(times))
    if tuned:
        # Other texts than those of the training, so that no warning says that they are the same.
        texts = [f"{text} again {at}" for at, text in enumerate(TEXTS)]
        model.tune(Corpus.of(texts, [[KEYS[at] for at in tags] for tags in TAGS]))
    model.save(place)
    return place


@contextmanager
def running(*models: Path | str, ready: bool = True, **settings: Any) -> Iterator[TestClient]:
    """A client of a server of these models, once it is ready."""
    app = create_app(ServeSettings(tuple(map(str, models)), **settings))
    with TestClient(app, raise_server_exceptions=True) as client:
        while ready and client.get("/ready").status_code != 200:
            time.sleep(0.005)
        yield client


@contextmanager
def listening_server(*models: Path | str, **settings: Any) -> Iterator[int]:
    """The port of a server of these models, which runs in a thread."""
    options = ServeSettings(tuple(map(str, models)), **settings)
    app = create_app(options)
    server = OrderlyServer(config_of(app, options), app.state.server)
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while app.state.server.phase != "ready":
            time.sleep(0.005)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()
