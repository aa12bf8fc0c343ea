"""Fresh processes for tests, without the seconds that each of them would take to import torch and Lightning.

As a script: SOCKET SCRIPT ARGUMENTS... does what `python SCRIPT ARGUMENTS...` does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SERVER = Path(__file__).parent / "children" / "fork_server.py"


def run_in_fork(address: str, script: str, arguments: Sequence[str], streams: Sequence[int] = (0, 1, 2)) -> int:
    """Have a server run a script here and now, with these for its standard streams; the exit code."""
    environment, folder = dict(os.environ), os.getcwd()  # noqa: PTH109
    job = {"script": script, "arguments": list(arguments), "environment": environment, "folder": folder}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        message = json.dumps(job).encode() + b"\n"
        sent = socket.send_fds(connection, [message], streams)
        connection.sendall(message[sent:])
        return int(connection.recv(16))


class ForkServer:
    """Runs scripts, each in a process of its own that has imported some libraries, but nothing of ours."""

    def __init__(self, *modules: str) -> None:
        self._folder = tempfile.TemporaryDirectory()  # a socket's path must be short
        self.address = str(Path(self._folder.name) / "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.address)
            listener.listen()
            number = listener.fileno()
            self._server = subprocess.Popen([sys.executable, SERVER, str(number), *modules], pass_fds=[number])

    def run(self, script: Path, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Like `subprocess.run` with the outputs captured."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            code = run_in_fork(
                self.address, str(script), list(map(str, arguments)), [file.fileno() for file in (given, out, err)]
            )
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([script], code, out.read().decode(), err.read().decode(errors="replace"))

    def command(self, script: Path, path: Path) -> None:
        """Write a command that runs a script in this way."""
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -SE {__file__} {self.address} {script} "$@"\n')
        path.chmod(0o755)

    def close(self) -> None:
        """End the server."""
        self._server.terminate()
        self._server.wait()
        self._folder.cleanup()


if __name__ == "__main__":
    code = run_in_fork(sys.argv[1], sys.argv[2], sys.argv[3:])
    sys.exit(code if code >= 0 else 128 - code)
