"""From the start to the end of the process: uvicorn with one worker, and an orderly end on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from xmtc.errors import ConfigError
from xmtc.serve.app import create_app
from xmtc.serve.connections import PromptProtocol
from xmtc.serve.limits import MAX_HEAD
from xmtc.serve.logs import log, log_to_stderr
from xmtc.serve.settings import ServeSettings
from xmtc.serve.state import Phase, ServerState

KEEP_ALIVE = 65  # seconds; longer than what is before a server usually keeps a connection
BACKLOG = 512  # connections that wait to be accepted
MAX_CONNECTIONS = 900  # below the usual limit of 1,024 open files
SWITCH_SECONDS = 0.0005  # how long the inference thread may hold the interpreter while the event loop waits for it
LAST_SECONDS = 0.25  # for requests whose connection was accepted just before the end
FINISH_SECONDS = 5.0  # beyond the timeout of requests, for answers on their way


class OrderlyServer(uvicorn.Server):
    """Serves on for a while after SIGTERM, unready, so that whoever sends requests here notices; then finishes."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal, or a model that does not work, ends it."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to end."""
        return await super().on_tick(counter) or self._state.failure is not None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """SIGTERM drains first; Ctrl-C, or a second signal, only finishes what was accepted; a third not even that."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._asked_to_stop, sig)

    def _asked_to_stop(self, sig: int) -> None:
        assert self._loop is not None
        if self.should_exit:
            self.force_exit = True
        elif sig == signal.SIGTERM and self._state.phase in (Phase.STARTING, Phase.READY):
            self._state.enter(Phase.DRAINING)
            self._loop.call_later(self._state.settings.drain, self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let nobody in any more, hear those out who have just come in, then finish."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(LAST_SECONDS)
        self._state.enter(Phase.STOPPING)
        await super().shutdown(sockets)


def serve(settings: ServeSettings, host: str, port: int) -> None:
    """Serve until a signal ends it; an XmtcError if a model cannot be served."""
    app = create_app(settings)
    log_to_stderr()
    # The event loop must get its turn in time while a batch is computed in Python code.
    sys.setswitchinterval(SWITCH_SECONDS)
    server = OrderlyServer(config_of(app, settings), app.state.server)
    with listening(host, port) as listener:
        server.run([listener])
    if app.state.server.failure is not None:
        raise app.state.server.failure
    log("server ended")


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; an OSError that names the address if it cannot."""
    address = f"{f'[{host}]' if ':' in host else host}:{port}"
    # The protocol is named because asyncio sends small answers at once (TCP_NODELAY) only where it is.
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        problem = f"cannot listen at {address}: {error.strerror or error}"
        raise ConfigError(f"{problem}; give another --host or --port") from error
    log("listening", address=f"http://{address.rpartition(':')[0]}:{listener.getsockname()[1]}")
    return listener


def config_of(app: FastAPI, settings: ServeSettings) -> uvicorn.Config:
    """How uvicorn is to serve the application."""
    return uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD,
        backlog=BACKLOG,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.timeout + FINISH_SECONDS),
    )
