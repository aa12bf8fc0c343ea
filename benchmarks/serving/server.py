"""`xmtc serve` in a process of its own, as the measurements need it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Server:
    """A running server: its port, its log."""

    def __init__(self, models: list[str], log: Path, options: list[str]) -> None:
        self.log = log
        command = [sys.executable, "-m", "xmtc", "serve", *models, "--port", "0", *options]
        with open(log, "wb") as stream:
            self.process = subprocess.Popen(command, stderr=stream, stdout=subprocess.DEVNULL)
        self.port = self._port()
        self._wait_until_ready()

    def _port(self) -> int:
        for _ in range(600):
            for line in self.lines():
                if line["event"] == "listening":
                    return int(line["address"].rpartition(":")[2])
            if self.process.poll() is not None:
                raise SystemExit(f"the server ended: {self.log.read_text()}")
            time.sleep(0.1)
        raise SystemExit("the server did not begin to listen within a minute")

    def _wait_until_ready(self) -> None:
        for _ in range(1200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise SystemExit("the server did not get ready within two minutes")

    def lines(self) -> list[dict[str, Any]]:
        """The whole lines of the log so far; what is no JSON, such as a library's warning, is passed over."""
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    def answered(self) -> set[str]:
        """The ids of the predictions that the server has answered with 200."""
        return {line["request_id"] for line in self.lines() if line.get("status") == 200 and "documents" in line}

    def memory(self) -> float:
        """Megabytes that the process has in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def cpu_seconds(self) -> float:
        """Seconds of processor time so far: unlike rates they mean something on a machine that does other things."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def terminate(self) -> None:
        """Ask it to stop."""
        os.kill(self.process.pid, signal.SIGTERM)


@contextmanager
def serving(models: list[str], folder: Path, *options: str) -> Iterator[Server]:
    """A server for a measurement."""
    server = Server(models, folder / "server.log", list(options))
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.terminate()
            try:
                server.process.wait(60)
            except subprocess.TimeoutExpired:
                server.process.kill()
