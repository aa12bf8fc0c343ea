"""Limits on requests: how large head and body are, and how long a body takes to arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope

from xmtc.serve.problems import Refused

#: A body that is too large is read to its end if that is soon: a client that still sends does not see an answer.
DISCARDED_BYTES, DISCARD_SECONDS = 64 << 20, 5.0
MAX_HEAD = 64 << 10  # bytes; a search for 2,000 characters of any script, percent-encoded, has room


def check_head(scope: Scope) -> None:
    """Refuse a request whose address and headers are too long; a head that came as a whole reaches us at any length."""
    size = (
        len(scope["path"])
        + len(scope["query_string"])
        + sum(len(name) + len(value) for name, value in scope["headers"])
    )
    if size > MAX_HEAD:
        raise Refused(
            431, f"the head of the request is larger than {MAX_HEAD:,} bytes", headers={"Connection": "close"}
        )


async def limited(receive: Receive, headers: Headers, max_body: int, seconds: float) -> Receive:
    """The same messages, refused if the body is larger than this or takes longer; at once if the head says so."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > max_body:
        raise await _too_large(receive, max_body, int(announced), waits=headers.get("expect") is not None)
    deadline = asyncio.get_running_loop().time() + seconds
    size, complete = 0, False

    async def next_message() -> Message:
        nonlocal size, complete
        if complete:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            detail = f"the body did not arrive within {seconds:g} s"
            raise Refused(408, detail, headers={"Connection": "close"}) from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > max_body:
                raise await _too_large(receive, max_body, size, waits=complete)
        return message

    return next_message


async def _too_large(receive: Receive, max_body: int, size: int, waits: bool) -> Refused:
    """The refusal of a body that is too large, after reading what is still to come unless the client `waits`."""
    ended = waits
    if not waits and size <= DISCARDED_BYTES:
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                ended = await _discard(receive)
    headers = {} if ended else {"Connection": "close"}
    return Refused(413, f"the body is larger than {max_body:,} bytes; send less at a time", headers=headers)


async def _discard(receive: Receive) -> bool:
    """Read a body to its end, or as far as is reasonable; whether it has ended."""
    size = 0
    while size <= DISCARDED_BYTES:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return True
    return False
