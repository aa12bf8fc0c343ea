"""Overload, the end under load, and the exchange of a model under load: what must not go wrong."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import xmtc
from benchmarks.serving.client import LOST, Load, closed_loop, open_loop, percentile
from benchmarks.serving.server import Server, serving
from xmtc.atomic_folder import replacing_folder
from xmtc.models.base import Model

PATH = "/v1/models/served/predict"
TOLERANCE = 1e-4  # of a score: sums of a batch may be rounded otherwise than those of one text


def bodies_of(texts: Sequence[str], documents: int = 1, k: int = 5) -> list[bytes]:
    """Requests with so many documents each."""
    groups = [list(texts[at : at + documents]) for at in range(0, len(texts) - documents + 1, documents)]
    return [json.dumps({"documents": group, "k": k}).encode() for group in groups]


def overload(
    model: Path, texts: Sequence[str], folder: Path, seconds: float, factor: float, documents: int, queue: int
) -> bool:
    """So many times the load that the server can serve; whether it refused in time and lost nothing."""
    bodies = bodies_of(texts, documents)
    with serving([f"served={model}"], folder, "--max-queue", str(queue)) as server:
        full = asyncio.run(closed_loop(server.port, PATH, bodies, 64, min(seconds, 10)))
        capacity = len(full.with_status(200)) / full.seconds
        warm = asyncio.run(open_loop(server.port, PATH, bodies, factor * capacity, min(seconds / 5, 20)))
        before = server.memory()
        load = asyncio.run(open_loop(server.port, PATH, bodies, factor * capacity, seconds))
        after = server.memory()
        time.sleep(0.5)
        answered = server.answered()
        got = {answer.request_id for each in (full, warm, load) for answer in each.with_status(200)}
    offered = len(load.answers) / load.seconds
    accepted = load.with_status(200)
    drained = 1000 * queue / (documents * len(accepted) / load.seconds)
    refused, p99 = load.with_status(429), percentile(accepted, 0.99)
    others = {status: count for status, count in load.statuses().items() if status not in (200, 429)}
    print(f"  capacity {capacity:.0f} requests/s of {documents} documents, offered {offered:.0f}/s")
    print(f"  statuses {load.statuses()}; memory {before:.0f} -> {after:.0f} MB ({100 * (after / before - 1):+.1f} %)")
    print(f"  refusals: p50 {percentile(refused, 0.5):.1f} ms, p99 {percentile(refused, 0.99):.1f} ms (aim: 20)")
    print(f"  accepted: p99 {p99:.0f} ms, the full queue takes {drained:.0f} ms (aim: under twice that)")
    print(f"  answers lost {len(answered - got)}, not in the log {len(got - answered)}; others {others or 'none'}")
    return not others and answered == got and p99 < 2 * drained


def stop_under_load(model: Path, texts: Sequence[str], folder: Path, times: int, clients: int) -> bool:
    """SIGTERM while clients ask on; whether each request that the server answered reached its client."""
    bodies, rng, fine = bodies_of(texts), random.Random(0), True
    for _ in range(times):
        with serving([f"served={model}"], folder, "--drain", "0.5") as server:
            load, code, seconds = asyncio.run(_until_stopped(server, bodies, clients, rng.uniform(0.5, 1.5)))
            answered = server.answered()
        got = {answer.request_id for answer in load.with_status(200)}
        lost = answered - got
        others = {status: count for status, count in load.statuses().items() if status not in (200, 503, LOST)}
        cut = len(load.with_status(LOST))
        counts = f"{len(got)} answers, lost {len(lost)}, connections cut {cut}, others {others or 'none'}"
        print(f"  {counts}; exit {code} after {seconds:.1f} s")
        fine &= not lost and not others and code == 0
    return fine


async def _until_stopped(
    server: Server, bodies: Sequence[bytes], clients: int, after: float
) -> tuple[Load, int, float]:
    asking = asyncio.create_task(closed_loop(server.port, PATH, bodies, clients, 60))
    await asyncio.sleep(after)
    start = time.perf_counter()
    server.terminate()
    code = await asyncio.to_thread(server.process.wait, 60)
    seconds = time.perf_counter() - start
    return await asking, code, seconds


def swap_under_load(
    models: Sequence[Path], texts: Sequence[str], folder: Path, times: int, clients: int, pause: float
) -> bool:
    """Another model comes to the folder again and again; whether each answer is that of the version it names."""
    place = folder / "served"
    _put(models[0], place)
    bodies = bodies_of(texts)
    loaded: list[Model] = [xmtc.load(path) for path in models]
    right = [_answers(model, texts) for model in loaded]
    with serving([f"served={place}"], folder, "--watch") as server:
        load, versions = asyncio.run(_while_swapping(server, place, models, bodies, clients, times, pause))
        swaps = sum(line["event"] == "model taken over" for line in server.lines())
    wrong, seen = 0, set()
    for answer in load.with_status(200):
        found = answer.json()
        seen.add(found["version"])
        model = versions.get(found["version"])
        expected = {} if model is None else right[model][answer.number]
        labels = {each["id"]: each["score"] for each in found["results"][0]["labels"]}
        wrong += not labels or any(abs(score - expected.get(key, 1e9)) > TOLERANCE for key, score in labels.items())
    answers = f"{len(load.with_status(200))} answers of {len(seen)} versions, wrong {wrong}"
    print(f"  {answers}; {swaps} swaps, statuses {load.statuses()}")
    return wrong == 0 and swaps == times and set(load.statuses()) == {200}


async def _while_swapping(
    server: Server, place: Path, models: Sequence[Path], bodies: Sequence[bytes], clients: int, times: int, pause: float
) -> tuple[Load, dict[str, int]]:
    asking = asyncio.create_task(closed_loop(server.port, PATH, bodies, clients, times * pause + 2, keep_bodies=True))
    for turn in range(1, times + 1):
        await asyncio.sleep(pause)
        await asyncio.to_thread(_put, models[turn % len(models)], place)
    versions = {_version(path): at for at, path in enumerate(models)}
    return await asking, versions


def _put(model: Path, place: Path) -> None:
    with replacing_folder(place) as partial:
        shutil.copytree(model, partial, dirs_exist_ok=True)


def _version(model: Path) -> str:
    return "1." + str(json.loads((model / "manifest.json").read_text())["checksum"])[:12]


def _answers(model: Model, texts: Sequence[str]) -> list[dict[str, float]]:
    """For each text its labels with their scores; more than are asked for, since two may change places in a batch."""
    top = model.predict(list(texts), 10)
    return [
        {top.labels.key(at): score for at, score in zip(ids, scores, strict=True) if at >= 0}
        for ids, scores in zip(top.ids.tolist(), top.scores.tolist(), strict=True)
    ]
