"""Run scripts for tests, each in a process forked from this one, which has done the slow imports: SOCKET MODULES...

`tests/support/warm_processes.py` asks. A request on the socket is a line of JSON, and with it come three open files
that take the place of standard input, output and error. The answer is the exit code.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import socket
import sys
import traceback
from typing import Any

listener = socket.socket(fileno=int(sys.argv[1]))
for module in sys.argv[2:]:
    importlib.import_module(module)
gc.freeze()  # else each process would go through all of it, and copy it


def next_job() -> Any:
    """Comes back once for each request, each time in another process."""
    while True:
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            while _one_has_ended():
                pass
            continue
        # This process waits for the one that does the job, so that others need not wait for their turn.
        message, streams, *_ = socket.recv_fds(connection, 1 << 16, 3)
        while not message.endswith(b"\n"):
            message += connection.recv(1 << 16)
        child = os.fork()
        if child:
            connection.sendall(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            os._exit(0)
        listener.close()
        connection.close()
        for descriptor, stream in enumerate(streams):
            os.dup2(stream, descriptor)
            os.close(stream)
        return json.loads(message)


def _one_has_ended() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


job = next_job()
os.chdir(job["folder"])
os.environ.clear()
os.environ.update(job["environment"])
sys.argv = [job["script"], *job["arguments"]]
sys.path[0] = os.path.dirname(job["script"])  # noqa: PTH120
# The old ones know whether what they had could be sought in.
sys.stdin = open(0, closefd=False)  # noqa: SIM115
sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
code: Any = 0
try:
    runpy.run_path(job["script"], run_name="__main__")
except SystemExit as end:
    code = end.code or 0
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
except BaseException:
    traceback.print_exc()
    code = 1
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)  # the usual end would take all imported modules apart, which costs more than the job
