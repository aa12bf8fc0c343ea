"""A small HTTP client on asyncio streams, so that the load generator takes less of the machine than the server."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

LOST = 0  # the status of a request that got no answer
NOT_SENT = -1  # nobody listened


@dataclass
class Answer:
    """What came back: status, seconds, body, and the id that both sides know."""

    status: int
    seconds: float
    request_id: str
    body: bytes = b""
    retry_after: str | None = None
    number: int = -1  # of the body that was sent

    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


class Connection:
    """One connection that is kept, and made anew when the server closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, type: str = "application/json") -> Answer:
        """Send a request and wait for its answer."""
        id, start = uuid.uuid4().hex, time.perf_counter()
        try:
            reader, writer = self._streams or await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return Answer(NOT_SENT, time.perf_counter() - start, id)
        self._streams = reader, writer
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {type}\r\n"
            f"Content-Length: {len(body)}\r\nX-Request-ID: {id}\r\n\r\n"
        )
        try:
            writer.write(head.encode() + body)
            found = await reader.readuntil(b"\r\n\r\n")
            lines = found.decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            content = await reader.readexactly(int(headers.get("content-length", 0)))
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            return Answer(LOST, time.perf_counter() - start, id)
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return Answer(int(lines[0].split()[1]), time.perf_counter() - start, id, content, headers.get("retry-after"))

    async def close(self) -> None:
        """End the connection."""
        if self._streams is not None:
            writer, self._streams = self._streams[1], None
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


@dataclass
class Load:
    """Answers that some clients got."""

    answers: list[Answer] = field(default_factory=list)
    seconds: float = 0.0

    def with_status(self, *statuses: int) -> list[Answer]:
        """The answers with one of these statuses."""
        return [answer for answer in self.answers if answer.status in statuses]

    def statuses(self) -> dict[int, int]:
        """How many answers have each status."""
        counts: dict[int, int] = {}
        for answer in self.answers:
            counts[answer.status] = counts.get(answer.status, 0) + 1
        return dict(sorted(counts.items()))


def percentile(answers: Sequence[Answer], share: float) -> float:
    """Milliseconds that this share of the answers took at most; NaN of none."""
    times = sorted(answer.seconds for answer in answers)
    return 1000 * times[min(int(share * len(times)), len(times) - 1)] if times else float("nan")


async def closed_loop(
    port: int, path: str, bodies: Sequence[bytes], clients: int, seconds: float, keep_bodies: bool = False
) -> Load:
    """Each client sends its next request when it has the answer to the one before; ends when nobody listens."""
    load, end = Load(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        connection, at = Connection(port), number
        while time.perf_counter() < end:
            answer = await connection.post(path, bodies[at % len(bodies)])
            answer.number = at % len(bodies)
            if answer.status == NOT_SENT:
                break
            if not keep_bodies:
                answer.body = b""
            load.answers.append(answer)
            at += clients
        await connection.close()

    start = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    load.seconds = time.perf_counter() - start
    return load


async def open_loop(
    port: int, path: str, bodies: Sequence[bytes], rate: float, seconds: float, connections: int = 400
) -> Load:
    """Requests at a rate, whatever becomes of those before; one that finds no free connection waits for it.

    Waiting for a connection is no part of an answer's time: it is the client's own.
    """
    load = Load()
    free: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    for _ in range(connections):
        free.put_nowait(Connection(port))

    async def ask(connection: Connection, body: bytes) -> None:
        answer = await connection.post(path, body)
        answer.body = b""
        load.answers.append(answer)
        free.put_nowait(connection)

    start, sent, tasks = time.perf_counter(), 0, set[asyncio.Task[None]]()
    while (now := time.perf_counter() - start) < seconds:
        while sent < rate * now:
            task = asyncio.create_task(ask(await free.get(), bodies[sent % len(bodies)]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.001)
    load.seconds = time.perf_counter() - start
    await asyncio.gather(*tasks)
    while not free.empty():
        await free.get_nowait().close()
    return load
