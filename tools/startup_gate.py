"""Fail if `import xmtc` or `xmtc --help` is slow: both must stay under 0.4 s (the best of five runs).

Counted are the seconds that a processor works on it, so that other programs on the machine do not count.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

LIMIT = 0.4
COMMANDS = {
    "import xmtc": [sys.executable, "-c", "import xmtc"],
    "xmtc --help": [str(Path(sys.executable).with_name("xmtc")), "--help"],
}


def worked() -> float:
    """Seconds that all processes that this one has started and seen end took of a processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Time each command; 1 if one is too slow."""
    failed = False
    for name, command in COMMANDS.items():
        times = []
        for _ in range(5):
            before = worked()
            subprocess.run(command, check=True, capture_output=True)
            times.append(worked() - before)
        best = min(times)
        failed |= best > LIMIT
        print(f"{name}: {best:.2f} s (limit {LIMIT} s){'' if best <= LIMIT else '  TOO SLOW'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
