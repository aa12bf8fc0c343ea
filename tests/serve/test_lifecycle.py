"""Real processes: the beginning, SIGTERM under load, clients that dawdle."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BODY = json.dumps({"documents": ["blue sky"], "k": 2}).encode()
HEADERS = {"Content-Type": "application/json"}


class Process:
    """A server in a process of its own."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "xmtc", "serve", *arguments, "--port", "0"]
        with open(log, "wb") as stream:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stream)
        self.port = int(self.wait_for("listening")["address"].rpartition(":")[2])
        self.wait_for("server ready")

    def lines(self) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    def wait_for(self, event: str) -> dict[str, Any]:
        for _ in range(3000):
            for line in self.lines():
                if line["event"] == event:
                    return line
            assert self.process.poll() is None or event == "server ended", self.log.read_text()
            time.sleep(0.02)
        raise AssertionError(f"no {event!r}: {self.log.read_text()}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def predict(self) -> int:
        connection = self.connect()
        connection.request("POST", "/v1/models/tagger/predict", BODY, HEADERS)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[Process]:
    server = Process(log, *arguments)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def patient(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that gives bodies two seconds."""
    log = tmp_path_factory.mktemp("patient") / "log"
    with process(log, str(model_folder), "--timeout", "2", "--max-body", "1000000") as server:
        yield server


def test_sigterm_loses_no_answer_and_ends_in_time(model_folder: Path, tmp_path: Path) -> None:
    with process(tmp_path / "log", str(model_folder), "--drain", "0.5") as server:
        answered: set[str] = set()
        odd: list[Any] = []

        def ask(number: int) -> None:
            connection, sent = server.connect(), 0
            while True:
                id = f"{number}-{sent}"
                try:
                    connection.request("POST", "/v1/models/tagger/predict", BODY, {**HEADERS, "X-Request-ID": id})
                    answer = connection.getresponse()
                    found = json.loads(answer.read())
                except (OSError, http.client.HTTPException):
                    return
                if answer.status == 200:
                    answered.add(id)
                elif answer.status != 503:
                    odd.append(found)
                sent += 1

        clients = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
        for client in clients:
            client.start()
        time.sleep(0.3)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        connection = server.connect()  # it serves on, but is not ready
        connection.request("GET", "/ready")
        assert connection.getresponse().status == 503
        connection.close()
        assert server.predict() == 200
        assert server.process.wait(20) == 0
        assert 0.5 <= time.monotonic() - start < 15
        for client in clients:
            client.join()
        accepted = {line["request_id"] for line in server.lines() if line.get("status") == 200 and "documents" in line}
        assert not odd
        assert len(answered) > 10
        assert {id for id in accepted if "-" in id} == answered
        events = [line["event"] for line in server.lines() if line["event"].startswith("server")]
        assert events == ["server ready", "server draining", "server stopping", "server ended"]


def test_slow_and_half_closed_clients_hold_nobody_up(patient: Process) -> None:
    slow = []
    for start in (b"POST /v1/models/tagger/predict HTTP/1.1\r\nHost: a\r\nContent-", b"G", b""):
        connection = socket.create_connection(("127.0.0.1", patient.port))
        connection.sendall(start)
        slow.append(connection)
    head = b"POST /v1/models/tagger/predict HTTP/1.1\r\nHost: a\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
    dripping = socket.create_connection(("127.0.0.1", patient.port))
    dripping.sendall(head)
    half = socket.create_connection(("127.0.0.1", patient.port))
    half.sendall(head)
    half.shutdown(socket.SHUT_WR)
    deadline, answer = time.monotonic() + 20, b""
    dripping.settimeout(0.2)
    while time.monotonic() < deadline and b"\r\n\r\n" not in answer:
        assert patient.predict() == 200
        try:
            answer += dripping.recv(10_000)
        except TimeoutError:
            dripping.sendall(b" ")  # a byte, and no end of it
    assert answer.startswith(b"HTTP/1.1 408")
    for connection in (*slow, dripping, half):
        connection.close()
    assert patient.predict() == 200


def test_a_client_that_goes_away_is_noticed(patient: Process) -> None:
    with socket.create_connection(("127.0.0.1", patient.port)) as connection:
        texts = json.dumps({"documents": ["blue sky " * 2000] * 50}).encode()
        connection.sendall(
            b"POST /v1/models/tagger/predict HTTP/1.1\r\nHost: a\r\nX-Request-ID: gone\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(texts) + texts
        )
    for _ in range(500):
        if any(line.get("request_id") == "gone" for line in patient.lines()):
            break
        time.sleep(0.02)
    assert patient.predict() == 200


@pytest.mark.parametrize(
    "request_",
    [
        b"\0\0\0\0\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /v1/models/tagger/predict HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/models/tagger/predict HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(patient: Process, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", patient.port)) as connection:
        connection.settimeout(30)
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(10_000):
            answer += part
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert patient.predict() == 200


def test_an_oversized_body_gets_its_answer_while_it_is_sent(patient: Process) -> None:
    connection = patient.connect()
    connection.request("POST", "/v1/models/tagger/predict", b" " * 5_000_000, HEADERS)
    answer = connection.getresponse()
    assert answer.status == 413
    assert json.loads(answer.read())["status"] == 413
    connection.request("POST", "/v1/models/tagger/predict", BODY, HEADERS)
    assert connection.getresponse().status == 200
    connection.close()


def test_a_port_that_is_taken_is_named(model_folder: Path, patient: Process) -> None:
    command = [sys.executable, "-m", "xmtc", "serve", str(model_folder), "--port", str(patient.port)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 2
    assert f"error: cannot listen at 127.0.0.1:{patient.port}" in run.stderr
