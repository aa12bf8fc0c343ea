"""Load a server on this machine, and see what it does: speed, overload, its end and new models under load.

    python -m benchmarks.serve [--data DIR] [--model FOLDER] [--network FOLDER] [--seconds 20]
        [--overload 600] [--stops 20] [--swaps 20] [--only speed,network,overload,stop,swap]

Everything is on loopback and ends by itself. Without --model, `dismec` is trained on `debtags`; without --network, the
measurement of a network (AttentionXML) is left out. Texts are of 60 words. Each line says what is to be reached.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import xmtc
from benchmarks.serving.client import closed_loop, percentile
from benchmarks.serving.endurance import PATH, bodies_of, overload, stop_under_load, swap_under_load
from benchmarks.serving.server import serving
from benchmarks.timing import arguments, corpus
from xmtc.corpus.corpus import Corpus

WORDS, TEXTS = 60, 2000
PARTS = ("speed", "network", "overload", "stop", "swap")


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--model", type=Path, help="folder of a dismec model of debtags")
    parser.add_argument("--second", type=Path, help="another model of the same labels, for --swaps")
    parser.add_argument("--network", type=Path, help="folder of an attentionxml model of debtags")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement of speed")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--overload", type=float, default=600.0, help="seconds of overload")
    parser.add_argument("--factor", type=float, default=4.0, help="how much more than the server can serve")
    parser.add_argument("--documents", type=int, default=64, help="in a request, while overloaded")
    parser.add_argument("--queue", type=int, default=1024, help="--max-queue while overloaded")
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--swaps", type=int, default=20)
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two swaps")
    parser.add_argument("--only", default=",".join(PARTS), help="which measurements")
    options = parser.parse_args()
    only = options.only.split(",")
    train, test = corpus(options.data, "debtags")
    texts = texts_of(test, TEXTS)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model = options.model or trained(train, folder / "dismec", seed=0)
        if "speed" in only:
            speed(model, texts, folder, options.clients, options.seconds)
        if "network" in only and options.network is not None:
            throughput(options.network, texts, folder, options.seconds)
        if "overload" in only:
            print(f"overload, {options.factor:g} times, {options.overload:g} s")
            args = (options.overload, options.factor, options.documents, options.queue)
            print("  fine" if overload(model, texts, folder, *args) else "  NOT fine")
        if "stop" in only:
            print(f"SIGTERM under load, {options.stops} times")
            print("  fine" if stop_under_load(model, texts, folder, options.stops, options.clients) else "  NOT fine")
        if "swap" in only:
            second = options.second or trained(train[: len(train) // 2], folder / "second", seed=1)
            print(f"model swap under load, {options.swaps} times")
            args2 = (options.swaps, options.clients, options.pause)
            print("  fine" if swap_under_load([model, second], texts, folder, *args2) else "  NOT fine")


def texts_of(test: Corpus, count: int) -> list[str]:
    """Texts of 60 words, made of the test documents one after the other."""
    assert test.texts is not None
    words = [word for text in test.texts for word in text.split()]
    return [" ".join(words[at : at + WORDS]) for at in range(0, len(words) - WORDS, WORDS)][:count]


def trained(train: Corpus, place: Path, seed: int) -> Path:
    """A dismec model."""
    xmtc.make("dismec", seed=seed).fit(train).save(place)
    return place


def speed(model: Path, texts: Sequence[str], folder: Path, clients: int, seconds: float) -> None:
    """Answers a second and their times, of many clients and of one."""
    bodies = bodies_of(texts)
    with serving([f"served={model}"], folder) as server:
        asyncio.run(closed_loop(server.port, PATH, bodies, clients, 2))
        before = server.cpu_seconds()
        many = asyncio.run(closed_loop(server.port, PATH, bodies, clients, seconds))
        cpu = 1000 * (server.cpu_seconds() - before) / len(many.answers)
        one = asyncio.run(closed_loop(server.port, PATH, bodies, 1, seconds))
    rate = len(many.with_status(200)) / many.seconds
    times = f"p50 {percentile(many.answers, 0.5):.1f} ms, p99 {percentile(many.answers, 0.99):.1f} ms (aim: 120)"
    print(f"{clients} clients: {rate:.0f} answers/s (aim: 500), {times}, {cpu:.2f} ms of CPU each, {many.statuses()}")
    print(
        f"1 client: median {percentile(one.answers, 0.5):.2f} ms (aim: 6), p99 {percentile(one.answers, 0.99):.2f} ms"
    )


def throughput(model: Path, texts: Sequence[str], folder: Path, seconds: float) -> None:
    """16 clients beside offline prediction in batches."""
    loaded = xmtc.load(model)
    loaded.predict(list(texts[:64]), 5)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        loaded.predict(list(texts[:256]), 5)
        done += 256
    offline = done / (time.perf_counter() - start)
    with serving([f"served={model}"], folder) as server:
        asyncio.run(closed_loop(server.port, PATH, bodies_of(texts), 16, 2))
        load = asyncio.run(closed_loop(server.port, PATH, bodies_of(texts), 16, seconds))
    served = len(load.with_status(200)) / load.seconds
    print(
        f"{loaded.name}, 16 clients: {served:.0f} answers/s, offline {offline:.0f} documents/s: "
        f"{100 * served / offline:.0f} % (aim: 60)"
    )


if __name__ == "__main__":
    main()
