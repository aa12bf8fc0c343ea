"""HTTP connections that may not dawdle: the head of a request has to arrive in time."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


class PromptProtocol(H11Protocol):
    """uvicorn's protocol, which limits how long it waits between requests, and here also for the rest of a head.

    Nor may the rest of a body come for ever that was refused before it was read.
    """

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connects, and is expected to ask for something."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Some bytes came: perhaps the beginning of a head, perhaps its end."""
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        between = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
        if answering or between:
            self._arrived()
        elif self._late is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._arrived()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._close)

    def _arrived(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        transport: Any = self.transport
        if not transport.is_closing():
            transport.close()
