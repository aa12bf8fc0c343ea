"""Fail if `import xmtc` or `xmtc --help` is slow: both must stay under 0.4 s (the best of five runs)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

LIMIT = 0.4
COMMANDS = {
    "import xmtc": [sys.executable, "-c", "import xmtc"],
    "xmtc --help": [str(Path(sys.executable).with_name("xmtc")), "--help"],
}


def main() -> int:
    """Time each command; 1 if one is too slow."""
    failed = False
    for name, command in COMMANDS.items():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
        best = min(times)
        failed |= best > LIMIT
        print(f"{name}: {best:.2f} s (limit {LIMIT} s){'' if best <= LIMIT else '  TOO SLOW'}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
